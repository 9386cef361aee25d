//! The mel filter bank: Slaney's scale and area norm, as
//! `librosa.filters.mel(sr=16000, n_fft=400)`.

use super::frames::LENGTH;
use crate::SAMPLE_RATE;

/// Hz of a mel below the scale's logarithmic part.
const LINEAR: f64 = 200.0 / 3.0;
/// Mels at 1,000 Hz, where the logarithmic part begins.
const BREAK: f64 = 15.0;

/// A triangular filter: its weights from a bin of the spectrum on.
pub(crate) struct Filter {
    /// The first bin.
    pub(crate) first: usize,
    /// Weights of the bins.
    pub(crate) weights: Vec<f64>,
}

/// The filters of `mels` bands between 0 and 8,000 Hz.
pub(crate) fn filters(mels: usize) -> Vec<Filter> {
    let nyquist = f64::from(SAMPLE_RATE) / 2.0;
    let top = to_mel(nyquist);
    let edges: Vec<f64> =
        (0..mels + 2).map(|i| to_hz(top * i as f64 / (mels + 1) as f64)).collect();
    let bins = LENGTH / 2 + 1;
    let hz = |bin: usize| bin as f64 * f64::from(SAMPLE_RATE) / LENGTH as f64;
    let triangle = |edge: &[f64]| {
        let (low, centre, high) = (edge[0], edge[1], edge[2]);
        let norm = 2.0 / (high - low);
        let weight = |bin: usize| {
            let rising = (hz(bin) - low) / (centre - low);
            let falling = (high - hz(bin)) / (high - centre);
            rising.min(falling).max(0.0) * norm
        };
        let inside: Vec<usize> = (0..bins).filter(|bin| weight(*bin) > 0.0).collect();
        Filter {
            first: inside.first().copied().unwrap_or(0),
            weights: inside.into_iter().map(weight).collect(),
        }
    };
    edges.windows(3).map(triangle).collect()
}

/// Mels of a frequency in Hz.
fn to_mel(hz: f64) -> f64 {
    if hz < 1000.0 { hz / LINEAR } else { BREAK + (hz / 1000.0).ln() * 27.0 / 6.4_f64.ln() }
}

/// The frequency of mels in Hz.
fn to_hz(mel: f64) -> f64 {
    if mel < BREAK { mel * LINEAR } else { 1000.0 * ((mel - BREAK) * 6.4_f64.ln() / 27.0).exp() }
}

#[cfg(test)]
mod tests {
    use super::filters;

    /// OpenAI's `mel_filters.npz` has 391 weights above zero for 80 bands.
    #[test]
    fn eighty_bands_have_as_many_weights_as_openais() {
        assert_eq!(filters(80).iter().map(|filter| filter.weights.len()).sum::<usize>(), 391);
    }

    #[test]
    fn scales_are_inverse() {
        for hz in [0.0, 70.0, 999.0, 1000.0, 4321.0, 8000.0] {
            assert!((super::to_hz(super::to_mel(hz)) - hz).abs() < 1e-9);
        }
        assert!((super::to_mel(8000.0) - 45.245_640_471_924_965).abs() < 1e-12);
    }
}
