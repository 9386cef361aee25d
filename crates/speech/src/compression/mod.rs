//! The length of a text's zlib stream, by which a repetitive text is recognized.
//!
//! OpenAI divides the length of a text by that of `zlib.compress(text)`. The length depends on how
//! zlib searches for matches and builds its codes, and other implementations of deflate give other
//! lengths. So the algorithm of zlib's level 6 is repeated here, without writing the stream (RFC
//! 1951; the search of `deflate_slow`, the codes of `trees.c`). The lengths are equal to those of
//! zlib 1.2 and 1.3 for texts of at most 32 KiB, which is far above that of a window.

mod blocks;
mod huffman;
mod matches;

use blocks::Block;
use matches::{Symbol, symbols};

/// Symbols of a block: zlib's `lit_bufsize - 1` at memory level 8.
const BLOCK: usize = (1 << 14) - 1;
/// Bytes of the header and the checksum.
const FRAME: usize = 6;

/// The length of a text in bytes over that of its zlib stream.
pub fn compression_ratio(text: &str) -> f64 {
    text.len() as f64 / zlib_len(text.as_bytes()) as f64
}

/// The length in bytes of the stream that zlib makes at level 6.
fn zlib_len(bytes: &[u8]) -> usize {
    let symbols = symbols(bytes);
    let mut bits = 0;
    let mut rest = &*symbols;
    loop {
        // a full block is closed at once, so that an empty one may follow it
        let (block, after) = rest.split_at(rest.len().min(BLOCK));
        bits = Block::of(block).end(bits);
        if block.len() < BLOCK {
            return FRAME + usize::div_ceil(bits, 8);
        }
        rest = after;
    }
}

impl Symbol {
    /// Bytes of the text that the symbol stands for.
    fn bytes(self) -> usize {
        match self {
            Self::Literal(_) => 1,
            Self::Match { length, .. } => length,
        }
    }
}

#[cfg(test)]
mod tests;
