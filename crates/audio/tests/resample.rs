//! Resampling, compared with the signal that was sampled; raw PCM.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use pelton_audio::{Encoding, RawAudio, RawFormat};
use std::f64::consts::TAU;

/// A sweep from 50 Hz to `top` Hz in `seconds`, at a time, with a fade at both ends.
fn sweep(time: f64, seconds: f64, top: f64) -> f64 {
    let phase = TAU * (50.0 * time + (top - 50.0) * time * time / (2.0 * seconds));
    let fade = (time / 0.05).min((seconds - time) / 0.05).clamp(0.0, 1.0);
    0.8 * fade * fade * (3.0 - 2.0 * fade) * phase.sin()
}

fn read(bytes: &[u8], encoding: Encoding, rate: u32, channels: u16) -> Vec<f32> {
    RawAudio::new(bytes, RawFormat { encoding, rate, channels }).unwrap().read_all().unwrap()
}

#[test]
fn a_sweep_keeps_its_shape_and_its_time() {
    for rate in [8_000, 11_025, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000, 44_101] {
        // 95 % of the lower Nyquist frequency.
        let top = f64::from(rate.min(16_000)) / 2.0 * 0.95;
        let count = rate as usize * 2 + 17;
        let seconds = count as f64 / f64::from(rate);
        let bytes: Vec<u8> = (0..count)
            .map(|i| sweep(i as f64 / f64::from(rate), seconds, top) as f32)
            .flat_map(f32::to_le_bytes)
            .collect();
        let found = read(&bytes, Encoding::F32Le, rate, 1);
        assert_eq!(found.len(), (count * 16_000).div_ceil(rate as usize), "{rate}");
        let error: f64 = found
            .iter()
            .enumerate()
            .map(|(i, x)| (f64::from(*x) - sweep(i as f64 / 16_000.0, seconds, top)).powi(2))
            .sum();
        let power: f64 = found.iter().map(|x| f64::from(*x).powi(2)).sum();
        let decibels = 10.0 * (error / power).log10();
        println!("{rate}: {decibels:.1} dB");
        assert!(decibels < -80.0, "{rate}: {decibels} dB");
    }
}

#[test]
fn frequencies_above_the_band_vanish() {
    let bytes: Vec<u8> = (0..96_000)
        .map(|i| (0.9 * (TAU * 9_000.0 * f64::from(i) / 48_000.0).sin()) as f32)
        .flat_map(f32::to_le_bytes)
        .collect();
    let found = read(&bytes, Encoding::F32Le, 48_000, 1);
    let worst = found[2_000..30_000].iter().fold(0.0_f32, |worst, x| worst.max(x.abs()));
    assert!(worst < 1e-4, "{worst}");
}

/// A reader that gives a few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 7 + 1;
        let count = self.1.min(self.0.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn raw_samples_do_not_depend_on_the_reader() {
    let samples: Vec<i16> = (0..5_001).map(|i| (i * 13 % 30_011) as i16).collect();
    let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    for (rate, channels) in [(16_000, 1), (16_000, 3), (48_000, 2)] {
        let format = RawFormat { encoding: Encoding::S16Le, rate, channels };
        let at_once = read(&bytes, Encoding::S16Le, rate, channels);
        let slow = RawAudio::new(Slow(&bytes, 0), format).unwrap().read_all().unwrap();
        assert!(at_once == slow);
        let frames = samples.len() / usize::from(channels);
        assert_eq!(at_once.len(), (frames * 16_000).div_ceil(rate as usize));
        if rate == 16_000 {
            let frame = |i: usize| {
                let frame = &samples[i * usize::from(channels)..(i + 1) * usize::from(channels)];
                frame.iter().map(|x| f64::from(*x)).sum::<f64>() / f64::from(channels) / 32768.0
            };
            let near = |(i, x): (usize, &f32)| (f64::from(*x) - frame(i)).abs() < 1e-7;
            assert!(at_once.iter().enumerate().all(near));
        }
    }
}

#[test]
fn floats_out_of_range_are_clamped() {
    let bytes: Vec<u8> = [f32::NAN, f32::INFINITY, -7.0, 0.25, f32::NEG_INFINITY]
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect();
    assert_eq!(read(&bytes, Encoding::F32Le, 16_000, 1), [0.0, 1.0, -1.0, 0.25, -1.0]);
}

#[test]
fn stated_formats_are_checked() {
    for (rate, channels, expected) in
        [(0, 1, "0 samples a second"), (16_000, 0, "0 channels"), (16_000, 65, "65 channels")]
    {
        let format = RawFormat { encoding: Encoding::S16Le, rate, channels };
        let text = RawAudio::new(&[0_u8][..], format).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}
