//! Signals that scripts and tests make alike, bit for bit.

/// Uniform noise in [-1, 1): Knuth's linear congruential generator, its upper 24 bits.
pub(crate) fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 40) as f64 / f64::from(1 << 23) - 1.0) as f32
        })
        .collect()
}
