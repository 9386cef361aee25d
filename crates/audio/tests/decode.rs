//! Files of all containers and codecs, compared with ffmpeg (`fixtures/make_containers.py`).

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/exercise.rs"]
mod exercise;

use pelton_audio::{AudioError, AudioFile, Samples, Warning};
use std::fs;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/containers").join(name)
}

fn floats(name: &str) -> Vec<f32> {
    let bytes = fs::read(path(name)).unwrap();
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// Files, what ffmpeg decodes, the tolerance, the codec.
const FILES: [(&str, &str, f32, &str); 37] = [
    ("s16.wav", "source.f32", 0.0, "PCM"),
    ("s24.wav", "source.f32", 0.0, "PCM"),
    ("streamed.wav", "source.f32", 0.0, "PCM"),
    ("s16.aiff", "source.f32", 0.0, "PCM"),
    ("s24.aiff", "source.f32", 0.0, "PCM"),
    ("pcm.mkv", "source.f32", 0.0, "PCM"),
    ("s16.flac", "source.f32", 0.0, "FLAC"),
    ("s24.flac", "source.f32", 0.0, "FLAC"),
    ("flac.ogg", "source.f32", 0.0, "FLAC"),
    ("flac.mkv", "source.f32", 0.0, "FLAC"),
    ("alac.m4a", "source.f32", 0.0, "ALAC"),
    ("u8.wav", "u8.wav.f32", 0.0, "PCM"),
    ("s32.wav", "s32.wav.f32", 0.0, "PCM"),
    ("f32.wav", "f32.wav.f32", 0.0, "PCM"),
    ("f64.wav", "f64.wav.f32", 0.0, "PCM"),
    ("alaw.wav", "alaw.wav.f32", 0.0, "A-law PCM"),
    ("mulaw.wav", "mulaw.wav.f32", 0.0, "µ-law PCM"),
    ("adpcm_ms.wav", "adpcm_ms.wav.f32", 0.0, "Microsoft ADPCM"),
    ("adpcm_ima.wav", "adpcm_ima.wav.f32", 0.0, "IMA ADPCM"),
    ("aac.m4a", "aac.m4a.f32", 1e-5, "AAC"),
    ("fragmented.mp4", "fragmented.mp4.f32", 1e-5, "AAC"),
    ("aac.mkv", "aac.mkv.f32", 1e-5, "AAC"),
    ("adts.aac", "adts.aac.f32", 1e-5, "AAC"),
    ("vorbis.ogg", "vorbis.ogg.f32", 1e-5, "Vorbis"),
    ("vorbis.webm", "vorbis.webm.f32", 1e-5, "Vorbis"),
    ("cbr.mp3", "cbr.mp3.f32", 1e-5, "MP3"),
    ("vbr.mp3", "vbr.mp3.f32", 1e-5, "MP3"),
    ("film.mkv", "source.f32", 0.0, "FLAC"),
    // Opus: another decoder in floats, and another resampler.
    ("opus.ogg", "opus.ogg.f32", 5e-3, "Opus"),
    ("opus.webm", "opus.webm.f32", 5e-3, "Opus"),
    ("opus.mp4", "opus.ogg.f32", 5e-3, "Opus"),
    ("opus_silk.ogg", "opus_silk.ogg.f32", 5e-3, "Opus"),
    ("opus_hybrid.ogg", "opus_hybrid.ogg.f32", 5e-3, "Opus"),
    ("opus_celt.ogg", "opus_celt.ogg.f32", 5e-3, "Opus"),
    ("opus_5.1.ogg", "opus_5.1.ogg.f32", 5e-3, "Opus"),
    // Another resampler: the filters differ close to 8 kHz and at the ends.
    ("44100.flac", "44100.flac.f32", 5e-3, "FLAC"),
    ("mono.wav", "f32.wav.f32", 0.0, "PCM"),
];

#[test]
fn files_of_all_formats_decode_as_ffmpeg_does() {
    let mut failures = Vec::new();
    for (name, expected, tolerance, codec) in FILES {
        let mut file = AudioFile::open(path(name)).unwrap();
        let found = file.read_all().unwrap();
        let expected = floats(expected);
        // The samples of `mono.wav` go on; ffmpeg keeps the padding of Vorbis in ogg.
        // The length of Opus in WebM is exact.
        let padding = if name == "opus.webm" { 0 } else { 64 };
        let same_length = found.len().abs_diff(expected.len()) <= padding || name == "mono.wav";
        let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!(
            "{name}: {} samples, ffmpeg {}, worst {worst:e}, stated {:?}, {} {} {:?} {:?} {:?}",
            found.len(),
            expected.len(),
            file.duration(),
            file.container(),
            file.codec(),
            file.rate(),
            file.channels(),
            file.warnings(),
        );
        if worst > tolerance || !same_length || file.codec() != codec {
            failures.push(name);
        }
        if !file.warnings().is_empty() {
            failures.push(name);
        }
        // A second pass gives the same.
        file.rewind().unwrap();
        assert!(file.read_all().unwrap() == found, "{name}");
    }
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn what_cannot_be_read_is_named() {
    for (name, expected) in [
        ("ac3.mkv", "its audio is AC-3, which is not supported. Convert it, for example: ffmpeg"),
        ("video.mkv", "has no audio: its matroska container has 1 other tracks"),
        ("../make_mel.py", "is not an audio file of a known format: expected wav"),
        ("missing.wav", "could not be read: No such file"),
        ("..", "could not be read"),
    ] {
        let text = AudioFile::open(path(name)).unwrap_err().to_string();
        assert!(text.contains(expected) && text.contains(name), "{name}: {text}");
    }
    for bytes in [vec![], vec![0; 100_000], b"GGUF".repeat(5_000)] {
        let error = AudioFile::from_bytes(bytes, "upload").unwrap_err();
        assert!(matches!(error, AudioError::Unknown { .. }), "{error}");
    }
}

/// A wav file of 16-bit samples.
fn wav(rate: u32, channels: u16, samples: &[i16]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = samples.len() as u32 * 2;
    bytes.extend(b"RIFF");
    bytes.extend((36 + length).to_le_bytes());
    bytes.extend(b"WAVEfmt \x10\0\0\0\x01\0");
    bytes.extend(channels.to_le_bytes());
    bytes.extend(rate.to_le_bytes());
    bytes.extend((rate.wrapping_mul(2 * u32::from(channels))).to_le_bytes());
    bytes.extend((2 * channels).to_le_bytes());
    bytes.extend(b"\x10\0data");
    bytes.extend(length.to_le_bytes());
    bytes.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    bytes
}

#[test]
fn sixteen_bits_are_exact() {
    let samples: Vec<i16> = (i16::MIN..=i16::MAX).collect();
    let found = AudioFile::from_bytes(wav(16_000, 1, &samples), "all").unwrap().read_all().unwrap();
    assert!(found.iter().zip(&samples).all(|(x, sample)| *x == f32::from(*sample) / 32768.0));
    assert_eq!(found.len(), samples.len());
}

#[test]
fn values_of_headers_are_checked() {
    for (rate, channels, expected) in [
        (999, 1, "999 samples a second, expected 1000 to 768000"),
        (768_001, 1, "768001 samples a second"),
        (16_000, 65, "invalid channel count"),
    ] {
        let bytes = wav(rate, channels, &[0; 650]);
        let text = AudioFile::from_bytes(bytes, "upload").unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    for rate in [1_000, 767_999, 768_000] {
        let bytes = wav(rate, 8, &[0; 800]);
        let found = AudioFile::from_bytes(bytes, "upload").unwrap().read_all().unwrap();
        assert_eq!(found.len(), (100_usize * 16_000).div_ceil(rate as usize));
    }
}

#[test]
fn a_long_file_is_refused_at_the_limit() {
    let bytes = wav(8_000, 1, &vec![0; 8_000 * 12]);
    let mut file = AudioFile::from_bytes(bytes, "upload").unwrap().limit(10);
    let text = file.read_all().unwrap_err().to_string();
    assert!(text.contains("longer than 10 seconds"), "{text}");
    assert!(file.next_chunk().unwrap().is_none());
}

#[test]
fn a_truncated_file_gives_its_start_and_says_so() {
    let samples: Vec<i16> = (0..16_000).map(|i| (i % 1000) as i16).collect();
    let mut bytes = wav(16_000, 1, &samples);
    bytes.truncate(44 + 8_001);
    let mut file = AudioFile::from_bytes(bytes, "upload").unwrap();
    let found = file.read_all().unwrap();
    assert_eq!(found.len(), 4_000);
    assert_eq!(
        file.warnings(),
        [Warning::Truncated { seconds: 0.25, stated: Some(1.0) }],
        "{:?}",
        file.warnings()
    );
    assert_eq!(file.warnings()[0].to_string(), "the file ends after 0.25 s, but it states 1.00 s");
}

#[test]
fn a_damaged_frame_becomes_silence() {
    // Five seconds of MP3 frames, 36 ms each, of which one has a changed header of its side
    // information.
    let one = fs::read(path("cbr.mp3")).unwrap();
    let mut file = AudioFile::from_bytes(one.clone(), "whole").unwrap();
    let whole = file.read_all().unwrap();
    let mut bytes = one;
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0xaa);
    let mut file = AudioFile::from_bytes(bytes, "damaged").unwrap();
    let found = file.read_all().unwrap();
    assert!(found.len() <= whole.len() + 1152 && found.len() + 2 * 1152 >= whole.len());
    assert!(found != whole);
}

#[test]
fn files_that_end_anywhere_cause_no_panic() {
    exercise::quiet();
    let mut whole = 0;
    for (name, ..) in FILES {
        let bytes = fs::read(path(name)).unwrap();
        // Every byte of the header, then steps of some.
        let ends = (0..bytes.len().min(120)).chain((120..bytes.len()).step_by(397));
        whole += ends.filter(|end| exercise::exercise(&bytes[..*end])).count();
    }
    assert!(whole > 500, "{whole}");
}

#[test]
fn changed_bytes_cause_no_panic() {
    exercise::quiet();
    let mut random = fastrand::Rng::with_seed(3);
    let mut whole = 0;
    for (name, ..) in FILES {
        let bytes = fs::read(path(name)).unwrap();
        for round in 0..40 {
            let mut changed = bytes.clone();
            for _ in 0..1 + round % 4 {
                let end = if round % 2 == 0 { changed.len().min(400) } else { changed.len() };
                let at = random.usize(..end);
                changed[at] = [0, 0xff, 0x80, random.u8(..)][random.usize(..4)];
            }
            whole += usize::from(exercise::exercise(&changed));
        }
    }
    assert!(whole > 300, "{whole}");
}

#[test]
fn a_reader_that_fails_is_named() {
    struct Failing(std::io::Cursor<Vec<u8>>);
    impl std::io::Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.position() > 70_000 {
                return Err(std::io::Error::other("the disk is gone"));
            }
            self.0.read(buffer)
        }
    }
    impl std::io::Seek for Failing {
        fn seek(&mut self, position: std::io::SeekFrom) -> std::io::Result<u64> {
            self.0.seek(position)
        }
    }
    let bytes = wav(16_000, 1, &vec![100; 200_000]);
    let mut file = AudioFile::from_reader(Failing(std::io::Cursor::new(bytes)), "disk").unwrap();
    let found = file.read_all();
    assert!(found.is_ok_and(|samples| samples.len() > 20_000));
    assert!(file.warnings()[0].to_string().contains("states 12.50 s"), "{:?}", file.warnings());
}
