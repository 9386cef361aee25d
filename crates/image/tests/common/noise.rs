//! Noise that scripts and tests make alike, and digests.

use pelton_image::Picture;
use sha2::{Digest, Sha256};

/// Knuth's linear congruential generator, its upper eight bits: `make_resized.py`.
pub(crate) fn noise(width: u32, height: u32) -> Picture {
    let mut state = 1_u64;
    let bytes = (0..width * height * 3).map(|_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    });
    Picture::new(width, height, bytes.collect()).unwrap()
}

/// The SHA-256 of bytes, in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
