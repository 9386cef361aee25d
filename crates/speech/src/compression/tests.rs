//! Lengths compared with those of Python's `zlib.compress`.

use super::zlib_len;

/// Texts that `tests/make_zlib.py` makes too, and the lengths of their streams.
#[test]
fn the_lengths_of_zlib() {
    let expected: Vec<usize> = include_str!("../../tests/fixtures/zlib.txt")
        .split_ascii_whitespace()
        .map(|length| length.parse().unwrap())
        .collect();
    let found: Vec<usize> = (0..expected.len()).map(|case| zlib_len(&text(case as u64))).collect();
    let wrong: Vec<_> = (0..expected.len()).filter(|&i| found[i] != expected[i]).collect();
    assert!(
        wrong.is_empty(),
        "{} of {}: cases {:?}",
        wrong.len(),
        expected.len(),
        &wrong[..wrong.len().min(20)]
    );
}

/// A text of words, letters or repeated phrases, from whole-number arithmetic.
fn text(case: u64) -> Vec<u8> {
    let mut state = case.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
    let mut next = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    let length = match case % 4 {
        0 => next(40),
        1 => next(400),
        2 => next(4000),
        _ => next(32_000),
    };
    let (kind, letters) = (next(5), 2 + next(200));
    let mut text: Vec<u8> = Vec::new();
    while (text.len() as u64) < length {
        match kind {
            0 => text.push(next(letters) as u8),
            1 => text.push((next(letters) * next(letters) / letters) as u8 + 32),
            2 => {
                // a copy of an earlier piece, or a new one
                let from = next(text.len() as u64 + 1) as usize;
                let piece: Vec<u8> = text[from..].iter().copied().take(next(30) as usize).collect();
                text.extend(piece);
                text.push(next(letters) as u8);
            }
            3 => {
                let word = next(letters);
                text.extend(format!(" word{}", word * word).bytes());
            }
            _ => text.extend("all work and no play ".bytes().take(1 + next(22) as usize)),
        }
    }
    text.truncate(length as usize);
    text
}
