//! From a frame of samples to the logarithms of its mel energies.

use super::filters::{Filter, filters};
use super::frames::LENGTH;
use crate::AudioError;
use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use std::sync::Arc;

/// Greatest number of mel bands: one for each bin of the spectrum but the first.
const BANDS: usize = LENGTH / 2;
/// Least mel energy.
const LEAST: f64 = 1e-10;

/// Computes mel energies, in f64: OpenAI's f32 errs by up to 2e-5 of the result, this by its
/// rounding.
pub(crate) struct Spectrum {
    filters: Vec<Filter>,
    window: Vec<f64>,
    fft: Arc<dyn RealToComplex<f64>>,
    input: Vec<f64>,
    output: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
    power: Vec<f64>,
}

impl Spectrum {
    /// Buffers and filters of `mels` bands, 1 to 200.
    pub(crate) fn new(mels: usize) -> Result<Self, AudioError> {
        if !(1..=BANDS).contains(&mels) {
            let problem = format!("{mels} mel bands were asked for, expected 1 to {BANDS}");
            return Err(AudioError::Limit { name: "a spectrogram".to_owned(), problem });
        }
        let fft = RealFftPlanner::new().plan_fft_forward(LENGTH);
        // The periodic Hann window.
        let angle = |n: usize| 2.0 * std::f64::consts::PI * n as f64 / LENGTH as f64;
        Ok(Self {
            filters: filters(mels),
            window: (0..LENGTH).map(|n| 0.5 * (1.0 - angle(n).cos())).collect(),
            input: fft.make_input_vec(),
            output: fft.make_output_vec(),
            scratch: fft.make_scratch_vec(),
            power: vec![0.0; LENGTH / 2 + 1],
            fft,
        })
    }

    /// Mel bands.
    pub(crate) fn mels(&self) -> usize {
        self.filters.len()
    }

    /// The energies of a frame of 400 samples, in the order of the bands.
    fn energies(&mut self, frame: &[f32]) -> impl Iterator<Item = f64> {
        for ((input, sample), weight) in self.input.iter_mut().zip(frame).zip(&self.window) {
            *input = f64::from(*sample) * weight;
        }
        // The buffers are the transform's own, so it cannot fail.
        let _ = self.fft.process_with_scratch(&mut self.input, &mut self.output, &mut self.scratch);
        for (power, value) in self.power.iter_mut().zip(&self.output) {
            *power = value.norm_sqr();
        }
        self.filters.iter().map(|filter| {
            let bins = &self.power[filter.first..];
            filter.weights.iter().zip(bins).map(|(weight, power)| weight * power).sum()
        })
    }

    /// The decimal logarithm of the greatest energy of a frame.
    pub(crate) fn peak(&mut self, frame: &[f32]) -> f32 {
        log(self.energies(frame).fold(0.0, f64::max))
    }

    /// Appends the decimal logarithms of the energies of a frame.
    pub(crate) fn logs(&mut self, frame: &[f32], out: &mut Vec<f32>) {
        out.extend(self.energies(frame).map(log));
    }
}

fn log(energy: f64) -> f32 {
    energy.max(LEAST).log10() as f32
}

/// The scale of a file's features: eight decades below its greatest energy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    floor: f32,
}

impl Scale {
    /// The scale of a file whose greatest logarithm is `peak`; silence follows every file.
    pub(crate) fn new(peak: f32) -> Self {
        Self { floor: peak.max(log(0.0)) - 8.0 }
    }

    /// The feature of a logarithm.
    pub(crate) fn apply(self, log: f32) -> f32 {
        (log.max(self.floor) + 4.0) / 4.0
    }

    /// The feature of silence.
    pub(crate) fn silence(self) -> f32 {
        self.apply(log(0.0))
    }
}
