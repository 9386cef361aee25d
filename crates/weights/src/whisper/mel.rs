//! The filters from a spectrum to the mel scale (Slaney's scale and norm, as librosa computes
//! them).

/// Frequencies of a spectrum of 400 samples.
pub(crate) const FREQUENCIES: usize = 201;

/// Samples a second.
const RATE: f64 = 16_000.0;
/// Width of a mel below 1 kHz, in Hz.
const LINEAR: f64 = 200.0 / 3.0;
/// The frequency above which mels are logarithmic, in Hz.
const KNEE: f64 = 1_000.0;

/// Mels in the logarithmic part of an octave's natural logarithm.
fn per_log() -> f64 {
    27.0 / 6.4f64.ln()
}

fn mel_of(hertz: f64) -> f64 {
    if hertz < KNEE { hertz / LINEAR } else { KNEE / LINEAR + (hertz / KNEE).ln() * per_log() }
}

fn hertz_of(mel: f64) -> f64 {
    let knee = KNEE / LINEAR;
    if mel < knee { mel * LINEAR } else { KNEE * ((mel - knee) / per_log()).exp() }
}

/// The filters `[mels, FREQUENCIES]`.
pub(crate) fn filters(mels: usize) -> Vec<f64> {
    let top = mel_of(RATE / 2.0);
    let edge = |i: usize| hertz_of(top * i as f64 / (mels + 1) as f64);
    let edges: Vec<f64> = (0..mels + 2).map(edge).collect();
    let mut all = Vec::with_capacity(mels * FREQUENCIES);
    for triple in edges.windows(3) {
        let (low, peak, high) = (triple[0], triple[1], triple[2]);
        for bin in 0..FREQUENCIES {
            let hertz = RATE / 2.0 * bin as f64 / (FREQUENCIES - 1) as f64;
            let rising = (hertz - low) / (peak - low);
            let falling = (high - hertz) / (high - peak);
            all.push(rising.min(falling).max(0.0) * 2.0 / (high - low));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OpenAI's stored filters, of librosa 0.9.
    #[test]
    fn filters_are_those_of_openai() {
        let stored: [(usize, &[u8]); 2] = [
            (80, include_bytes!("../../tests/fixtures/whisper/mel_80.f32")),
            (128, include_bytes!("../../tests/fixtures/whisper/mel_128.f32")),
        ];
        for (mels, bytes) in stored {
            let (values, _) = bytes.as_chunks();
            let expected: Vec<f64> =
                values.iter().map(|value| f64::from(f32::from_le_bytes(*value))).collect();
            let found = filters(mels);
            assert_eq!((found.len(), expected.len()), (mels * FREQUENCIES, mels * FREQUENCIES));
            let differences = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
            let greatest = differences.fold(0.0, f64::max);
            assert!(greatest < 1e-8, "{greatest}");
        }
    }
}
