//! How much the shape of the spectrum changes, which tells speech from steady noise and from notes.

use crate::SAMPLE_RATE;
use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use std::collections::VecDeque;
use std::sync::Arc;

/// Samples of a frame: 16 ms.
pub(crate) const FRAME: usize = 256;
/// Samples of a spectrum: two frames.
const LENGTH: usize = 2 * FRAME;
/// Mel bands.
const BANDS: usize = 24;
/// Frames whose energies are summed; as many before them are compared with them.
const SUMMED: usize = 4;
/// Energies below this share of the greatest band count as equal: 20 dB.
const FLOOR: f32 = 1e-2;

/// Measures the change of frames.
pub(crate) struct Change {
    window: Vec<f32>,
    /// For each band its first bin and the weights from there on.
    weights: Vec<(usize, Vec<f32>)>,
    fft: Arc<dyn RealToComplex<f32>>,
    last: [f32; FRAME],
    input: Vec<f32>,
    output: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
    /// Energies of the bands of the latest frames.
    energies: VecDeque<[f32; BANDS]>,
}

impl Change {
    pub(crate) fn new() -> Self {
        let fft = RealFftPlanner::new().plan_fft_forward(LENGTH);
        let angle = |n: usize| 2.0 * std::f32::consts::PI * n as f32 / LENGTH as f32;
        Self {
            window: (0..LENGTH).map(|n| 0.5 * (1.0 - angle(n).cos())).collect(),
            weights: bands(),
            last: [0.0; FRAME],
            input: fft.make_input_vec(),
            output: fft.make_output_vec(),
            scratch: fft.make_scratch_vec(),
            energies: VecDeque::with_capacity(2 * SUMMED),
            fft,
        }
    }

    /// The change at a frame in dB: the deviation of the bands' levels from those of 64 ms before,
    /// apart from the change of the loudness. Zero until enough frames came.
    pub(crate) fn frame(&mut self, samples: &[f32]) -> f32 {
        let both = self.last.iter().chain(samples);
        for ((input, sample), weight) in self.input.iter_mut().zip(both).zip(&self.window) {
            *input = sample * weight;
        }
        self.last.copy_from_slice(samples);
        // The buffers are the transform's own, so it cannot fail.
        let _ = self.fft.process_with_scratch(&mut self.input, &mut self.output, &mut self.scratch);
        let mut energy = [0.0; BANDS];
        for (energy, (first, weights)) in energy.iter_mut().zip(&self.weights) {
            let bins = &self.output[*first..];
            *energy = weights.iter().zip(bins).map(|(w, x)| w * x.norm_sqr()).sum();
        }
        if self.energies.len() == 2 * SUMMED {
            self.energies.pop_front();
        }
        self.energies.push_back(energy);
        if self.energies.len() < 2 * SUMMED {
            return 0.0;
        }
        let before = levels(self.energies.iter().take(SUMMED));
        let now = levels(self.energies.iter().skip(SUMMED));
        let difference = |band: usize| now[band] - before[band];
        let mean = (0..BANDS).map(difference).sum::<f32>() / BANDS as f32;
        let variance = (0..BANDS).map(|band| (difference(band) - mean).powi(2)).sum::<f32>();
        (variance / BANDS as f32).sqrt()
    }
}

/// The levels of the bands in dB.
fn levels<'a>(energies: impl Iterator<Item = &'a [f32; BANDS]>) -> [f32; BANDS] {
    let mut sums = [0.0_f32; BANDS];
    for energy in energies {
        for (sum, value) in sums.iter_mut().zip(energy) {
            *sum += value;
        }
    }
    let floor = sums.iter().copied().fold(0.0, f32::max) * FLOOR;
    sums.map(|sum| 10.0 * (sum.max(floor) + 1e-12).log10())
}

/// Triangular filters at equal distances on the mel scale of `2595 log10(1 + f / 700)`.
fn bands() -> Vec<(usize, Vec<f32>)> {
    let nyquist = f64::from(SAMPLE_RATE) / 2.0;
    let top = 2595.0 * (1.0 + nyquist / 700.0).log10();
    let edge =
        |i: usize| 700.0 * (10.0_f64.powf(top * i as f64 / (BANDS + 1) as f64 / 2595.0) - 1.0);
    let weight = |band: usize, bin: usize| {
        let hz = bin as f64 * f64::from(SAMPLE_RATE) / LENGTH as f64;
        let rising = (hz - edge(band)) / (edge(band + 1) - edge(band));
        let falling = (edge(band + 2) - hz) / (edge(band + 2) - edge(band + 1));
        rising.min(falling).max(0.0) as f32
    };
    let band = |band: usize| {
        let bins = (0..=LENGTH / 2).filter(|bin| weight(band, *bin) > 0.0);
        let bins: Vec<usize> = bins.collect();
        let first = bins.first().copied().unwrap_or(0);
        (first, bins.into_iter().map(|bin| weight(band, bin)).collect())
    };
    (0..BANDS).map(band).collect()
}
