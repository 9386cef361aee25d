//! A picture as a tower takes it.

use std::ops::Range;

use pelton_image::Prepared;
use sha2::{Digest, Sha256};

/// The identity of a picture: the digest of what a tower takes of it.
pub(super) type Key = [u8; 32];

/// A picture as a tower takes it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(super) key: Key,
    pub(super) prepared: Prepared,
    /// The numbers of its rows; `None` if there are none left.
    pub(super) numbers: Option<Range<u32>>,
}

/// The key of a prepared picture: its patches, and the grids that they lie in.
pub(super) fn key(prepared: &Prepared) -> Key {
    let Prepared { pixels, width, grids, tiles, tokens } = prepared;
    let mut digest = Sha256::new();
    for number in [*width, *tokens, grids.len()] {
        digest.update((number as u64).to_le_bytes());
    }
    let grids = grids.iter().flat_map(|grid| [grid.rows, grid.columns, grid.merge]);
    for number in grids.chain([tiles.0, tiles.1]) {
        digest.update(number.to_le_bytes());
    }
    let mut bytes = [0; 4096];
    for chunk in pixels.chunks(bytes.len() / 4) {
        for (to, value) in bytes.chunks_exact_mut(4).zip(chunk) {
            to.copy_from_slice(&value.to_le_bytes());
        }
        digest.update(&bytes[..4 * chunk.len()]);
    }
    digest.finalize().into()
}
