//! The greatest of many values.

/// The index of the greatest value, the lowest on a tie; `None` if every value is NaN.
pub(crate) fn greatest(logits: &[f32]) -> Option<u32> {
    /// Values that are compared by one vector operation.
    const LANES: usize = 16;
    /// Values among which the index of the greatest one is looked for at the end.
    const CHUNK: usize = 1024;
    let mut greatest = f32::NEG_INFINITY;
    let mut at = 0;
    for (i, chunk) in logits.chunks(CHUNK).enumerate() {
        let mut most = [greatest; LANES];
        for vector in chunk.chunks(LANES) {
            for (most, &logit) in most.iter_mut().zip(vector) {
                *most = if logit > *most { logit } else { *most };
            }
        }
        let most = most.into_iter().fold(greatest, f32::max);
        if most > greatest {
            (greatest, at) = (most, i * CHUNK);
        }
    }
    logits[at..].iter().position(|&logit| logit == greatest).map(|i| (at + i) as u32)
}
