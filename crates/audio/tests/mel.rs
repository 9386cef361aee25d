//! Log-mel spectrograms, compared with OpenAI's code (`fixtures/make_mel.py`).

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/signals.rs"]
mod signals;

use pelton_audio::{AudioFile, LogMel, MelStream, Memory, log_mel};
use pelton_testing::{Need, skip};
use proptest::prelude::*;
use signals::noise;
use std::fs;
use std::path::Path;

fn long() -> Vec<f32> {
    let count = 31 * 16_000;
    let noise = noise(count, 3);
    (0..count)
        .map(|i| {
            let gain = (1 + i / 16_000 % 5) as f32 / 50.0;
            let triangle = (i as i64 * 37 % 1000 - 500).abs() as f32 / 500.0 - 0.5;
            noise[i] * gain + triangle * 0.25
        })
        .collect()
}

/// The samples of a case, `None` for speech, which is not in the repository, if it is not there.
fn samples(name: &str) -> Option<Vec<f32>> {
    Some(match name {
        "speech" => {
            let path =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/audio/jfk.wav");
            if !path.exists() {
                skip(Need::Data, "shared/data/audio/jfk.wav is missing");
                return None;
            }
            AudioFile::open(path).unwrap().read_all().unwrap()
        }
        "noise" => noise(4 * 16_000, 1),
        "silence" => vec![0.0; 16_000],
        "long" => long(),
        other => noise(other.strip_prefix("samples ").unwrap().parse().unwrap(), 1),
    })
}

fn floats(name: &str) -> Vec<f32> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let bytes = fs::read(path).unwrap();
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

#[test]
fn spectrograms_equal_openais() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mel.tsv");
    let (single, double) = (floats("mel.f32"), floats("mel64.f32"));
    let (mut offset, mut cases, mut above, mut worst) = (0, 0, 0, 0.0_f32);
    for line in fs::read_to_string(path).unwrap().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let (mels, frames): (usize, usize) =
            (fields[1].parse().unwrap(), fields[2].parse().unwrap());
        let rows: Vec<usize> = fields[4].split(',').map(|row| row.parse().unwrap()).collect();
        let start = offset;
        offset += rows.len() * mels;
        let Some(samples) = samples(fields[0]) else { continue };
        cases += 1;
        let mut mel = log_mel(&samples, mels).unwrap();
        assert_eq!(mel.frames(), frames, "{line}");
        let sum: f64 = mel.features().iter().map(|x| f64::from(*x)).sum();
        let mean = sum / (frames * mels).max(1) as f64;
        assert!((mean - fields[3].parse::<f64>().unwrap()).abs() < 1e-6, "{line}: mean {mean}");
        let mut row = vec![0.0; mels];
        for (i, first) in rows.iter().enumerate() {
            mel.read_padded(*first, &mut row).unwrap();
            let at = start + i * mels..start + (i + 1) * mels;
            for ((ours, single), exact) in row.iter().zip(&single[at.clone()]).zip(&double[at]) {
                assert!((ours - exact).abs() < 1e-6, "{line} frame {first}: {ours}, f64 {exact}");
                above += usize::from((ours - single).abs() > 1e-5);
                worst = worst.max((ours - single).abs());
            }
            // Beyond the content a decoded window has zeros.
            mel.read(*first, &mut row).unwrap();
            assert_eq!(*first >= frames, row.iter().all(|x| *x == 0.0), "{line} frame {first}");
        }
    }
    assert_eq!(offset, single.len());
    assert!(cases >= 16);
    // OpenAI's f32 itself differs from its f64 by so much, in a few of 18,000 values.
    assert!(worst < 3e-5 && above < 10, "{above} values above 1e-5, the worst by {worst}");
}

/// Reads windows of a stream and compares them with the whole spectrogram, bit for bit.
fn compare(samples: &[f32], mels: usize, windows: &[usize], length: usize) {
    let mut whole: LogMel = log_mel(samples, mels).unwrap();
    let mut stream = MelStream::new(Memory::new(samples), mels).unwrap();
    assert_eq!(stream.frames(), whole.frames());
    assert!((stream.seconds() - samples.len() as f64 / 16_000.0).abs() < 1e-9);
    let (mut expected, mut found) = (vec![1.0; length * mels], vec![2.0; length * mels]);
    for first in windows {
        whole.read(*first, &mut expected).unwrap();
        stream.read(*first, &mut found).unwrap();
        assert!(expected == found, "window at {first}");
        whole.read_padded(*first, &mut expected).unwrap();
        stream.read_padded(*first, &mut found).unwrap();
        assert!(expected == found, "padded window at {first}");
    }
}

#[test]
fn a_stream_of_windows_equals_the_whole() {
    // Forward, overlapping, far ahead, behind the end, backwards.
    compare(&long(), 80, &[0, 3000, 3050, 3100, 5000, 20, 20, 2999], 3000);
    compare(&[], 128, &[0, 7], 10);
}

#[test]
fn bands_are_checked() {
    for mels in [0, 201, usize::MAX] {
        let text = log_mel(&[0.0; 400], mels).unwrap_err().to_string();
        assert!(text.contains("expected 1 to 200"), "{text}");
        assert!(MelStream::new(Memory::new(vec![0.0; 400]), mels).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_windows_equal_the_whole(
        count in 0_usize..3000,
        windows in prop::collection::vec(0_usize..40, 1..8),
        length in 1_usize..30,
    ) {
        compare(&noise(count, 5), 80, &windows, length);
    }
}
