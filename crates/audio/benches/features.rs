//! The speed of the audio path, as multiples of real time on one core: decoding, resampling,
//! features, voice activity.
//!
//! ```console
//! $ cargo bench -p pelton-audio --bench features [-- FILE]
//! ```
//!
//! Without a file it makes ten minutes of noise.

#![allow(clippy::unwrap_used, reason = "a measurement ends by it")]
#![allow(missing_docs, reason = "a program")]

use pelton_audio::{
    AudioFile, Encoding, MelStream, Memory, RawAudio, RawFormat, Samples, VoiceOptions, log_mel,
    voices,
};
use std::hint::black_box;
use std::time::Instant;

const SECONDS: usize = 600;

fn main() {
    let file = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let mut random = fastrand::Rng::with_seed(1);
    let samples: Vec<f32> = match &file {
        Some(file) => {
            let (start, mut file) = (Instant::now(), AudioFile::open(file).unwrap());
            let samples = file.read_all().unwrap();
            let name = format!("decode {}, {} Hz", file.codec(), file.rate().unwrap_or(0));
            report(&name, samples.len(), start);
            samples
        }
        None => (0..SECONDS * 16_000).map(|_| random.f32() - 0.5).collect(),
    };
    for rate in [44_100_u32, 48_000] {
        let bytes: Vec<u8> =
            (0..60 * rate * 2).flat_map(|_| random.i16(..).to_le_bytes()).collect();
        let format = RawFormat { encoding: Encoding::S16Le, rate, channels: 2 };
        let start = Instant::now();
        let found = RawAudio::new(&bytes[..], format).unwrap().read_all().unwrap();
        report(&format!("resample {rate} Hz, 2 channels"), found.len(), start);
    }
    for mels in [80, 128] {
        let start = Instant::now();
        black_box(log_mel(&samples, mels).unwrap());
        report(&format!("log-mel in memory, {mels} bands"), samples.len(), start);
        let start = Instant::now();
        let mut stream = MelStream::new(Memory::new(&samples), mels).unwrap();
        report(&format!("log-mel stream, {mels} bands: first pass"), samples.len(), start);
        let (start, mut window) = (Instant::now(), vec![0.0; 3000 * mels]);
        for first in (0..stream.frames()).step_by(3000) {
            stream.read(first, &mut window).unwrap();
        }
        report(&format!("log-mel stream, {mels} bands: windows"), samples.len(), start);
    }
    let start = Instant::now();
    let mut source = Memory::new(&samples);
    source.rewind().unwrap();
    black_box(voices(&mut source, VoiceOptions::default()).unwrap());
    report("voice activity", samples.len(), start);
}

fn report(name: &str, samples: usize, start: Instant) {
    let taken = start.elapsed().as_secs_f64();
    let real = samples as f64 / 16_000.0;
    println!(
        "{name:48} {:6.0} times real time, {:.2} s an hour",
        real / taken,
        3600.0 * taken / real
    );
}
