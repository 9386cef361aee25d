//! The size of a block: stored, with deflate's fixed codes or with codes of its own.

use super::huffman::Code;
use super::matches::Symbol;

/// The symbol that ends a block.
const END: usize = 256;
/// Symbols of literals, the end and lengths.
const LITERALS: usize = 286;
const DISTANCES: usize = 30;
/// Symbols of code lengths: 0 to 15, a repetition of the last and two of zeros.
const LENGTHS: usize = 19;
/// The order in which lengths of codes of code lengths are written (RFC 1951, 3.2.7).
const ORDER: [usize; LENGTHS] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// Bits of the kind of a block and of whether it is the last one.
const KIND_BITS: usize = 3;

/// The cost of a block's symbols.
pub(super) struct Block {
    /// Bits of the form with fixed codes.
    fixed: usize,
    /// Bits of the form with codes of its own.
    own: usize,
    /// Bytes of the text.
    bytes: usize,
}

impl Block {
    /// The cost of symbols.
    pub(super) fn of(symbols: &[Symbol]) -> Self {
        let mut literals = [0; LITERALS];
        let mut distances = [0; DISTANCES];
        let mut extra_bits = 0;
        let mut bytes = 0;
        for &symbol in symbols {
            bytes += symbol.bytes();
            match symbol {
                Symbol::Literal(byte) => literals[usize::from(byte)] += 1,
                Symbol::Match { length, distance } => {
                    let (code, bits) = length_code(length);
                    literals[code] += 1;
                    let (far, far_bits) = distance_code(distance);
                    distances[far] += 1;
                    extra_bits += bits + far_bits;
                }
            }
        }
        literals[END] += 1;
        let fixed_bits = |(symbol, count): (usize, &usize)| count * fixed_length(symbol);
        let fixed: usize = literals.iter().enumerate().map(fixed_bits).sum();
        let matches: usize = distances.iter().sum();
        let (literal, distance) = (Code::of(&literals, 15), Code::of(&distances, 15));
        let own =
            literal.bits(&literals) + distance.bits(&distances) + tree_bits(&literal, &distance);
        Self { fixed: fixed + 5 * matches + extra_bits, own: own + extra_bits, bytes }
    }

    /// Bits of the stream after this block, which follows `bits` others.
    pub(super) fn end(&self, bits: usize) -> usize {
        let whole = |bits: usize| usize::div_ceil(bits + KIND_BITS, 8);
        let best = whole(self.own).min(whole(self.fixed));
        if self.bytes + 4 <= best {
            // the lengths of a stored block begin at a byte
            8 * (usize::div_ceil(bits + KIND_BITS, 8) + 4 + self.bytes)
        } else if whole(self.fixed) == best {
            bits + KIND_BITS + self.fixed
        } else {
            bits + KIND_BITS + self.own
        }
    }
}

/// The length in bits of a fixed code (RFC 1951, 3.2.6).
fn fixed_length(symbol: usize) -> usize {
    match symbol {
        144..=255 => 9,
        256..=279 => 7,
        _ => 8,
    }
}

/// The symbol of a match's length, and its extra bits.
fn length_code(length: usize) -> (usize, usize) {
    let over = length - 3;
    match over {
        0..8 => (257 + over, 0),
        255.. => (285, 0),
        _ => {
            let bits = over.ilog2() as usize - 2;
            (257 + 4 * bits + (over >> bits), bits)
        }
    }
}

/// The symbol of a match's distance, and its extra bits.
fn distance_code(distance: usize) -> (usize, usize) {
    let over = distance - 1;
    match over {
        0..4 => (over, 0),
        _ => {
            let bits = over.ilog2() as usize - 1;
            (2 * bits + (over >> bits), bits)
        }
    }
}

/// Bits of the description of two codes.
fn tree_bits(literals: &Code, distances: &Code) -> usize {
    let mut counts = [0; LENGTHS];
    let mut extra_bits = 0;
    for code in [literals, distances] {
        extra_bits += count_lengths(&code.lengths, &mut counts);
    }
    let code = Code::of(&counts, 7);
    let written = |&&symbol: &&usize| code.lengths.get(symbol).is_some_and(|&bits| bits > 0);
    let trailing = ORDER.iter().rev().take_while(|symbol| !written(symbol)).count();
    let order = (LENGTHS - trailing).max(4);
    14 + 3 * order + code.bits(&counts) + extra_bits
}

/// Counts the symbols that describe code lengths. Returns their extra bits.
fn count_lengths(lengths: &[usize], counts: &mut [usize; LENGTHS]) -> usize {
    let mut extra_bits = 0;
    let mut last = None;
    let mut at = 0;
    while at < lengths.len() {
        let length = lengths[at];
        let most = match (length, last == Some(length)) {
            (0, _) => 138,
            (_, true) => 6,
            (_, false) => 7,
        };
        let run = lengths[at..].iter().take(most).take_while(|&&same| same == length).count();
        let (least, spelled) = match (length, last == Some(length)) {
            (0, _) => (3, 0),
            (_, true) => (3, 0),
            // the first of a run is written by itself
            (_, false) => (4, 1),
        };
        if run < least {
            counts[length] += run;
        } else {
            counts[length] += spelled;
            let (symbol, bits) = match (length, run) {
                (0, ..=10) => (17, 3),
                (0, _) => (18, 7),
                _ => (16, 2),
            };
            counts[symbol] += 1;
            extra_bits += bits;
        }
        last = Some(length);
        at += run;
    }
    extra_bits
}
