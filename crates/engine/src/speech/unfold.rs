//! Features of a window as the encoder's rows read them.

/// Taps of the encoder's convolutions.
const TAPS: usize = 3;

/// Elements of a row of features.
pub(super) const fn width(mels: usize) -> usize {
    TAPS * TAPS * mels + 1
}

/// Appends the rows `[positions, width]` of a window of frames `[2 · positions, mels]`.
///
/// A row has the inputs of the first convolution at the frames `2t - 1`, `2t` and `2t + 1`, each
/// `[mels, taps]` with zeros outside of the window. Its last element is 0 where frame `2t - 1` is
/// outside, so that the second convolution reads zeros there, and 1 elsewhere.
pub(super) fn unfold(frames: &[f32], mels: usize, out: &mut Vec<f32>) {
    let count = frames.len() / mels;
    let begin = out.len();
    out.resize(begin + count / 2 * width(mels), 0.0);
    for (position, row) in out[begin..].chunks_exact_mut(width(mels)).enumerate() {
        for (tap, inputs) in row[..TAPS * TAPS * mels].chunks_exact_mut(TAPS * mels).enumerate() {
            for side in 0..TAPS {
                // the frame 2t - 2 + tap + side
                let frame = (2 * position + tap + side).checked_sub(2);
                let Some(frame) = frame.filter(|&frame| frame < count) else { continue };
                let values = &frames[frame * mels..(frame + 1) * mels];
                for (input, &value) in inputs[side..].iter_mut().step_by(TAPS).zip(values) {
                    *input = value;
                }
            }
        }
        row[TAPS * TAPS * mels] = if position == 0 { 0.0 } else { 1.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two mels, four frames: the rows are those that the definition of the convolutions gives.
    #[test]
    fn rows_of_a_short_window() {
        let mut rows = Vec::new();
        unfold(&[1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0], 2, &mut rows);
        let first =
            [0., 0., 1., 0., 0., 10., 0., 1., 2., 0., 10., 20., 1., 2., 3., 10., 20., 30., 0.];
        let second =
            [1., 2., 3., 10., 20., 30., 2., 3., 4., 20., 30., 40., 3., 4., 0., 30., 40., 0., 1.];
        assert_eq!(rows, [first, second].concat());
    }
}
