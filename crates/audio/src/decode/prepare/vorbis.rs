//! The setup header of Vorbis: what its codebooks would take in memory, before a decoder builds
//! them.
//!
//! A header of few bits can state books of millions of values (Vorbis I specification, sections
//! 3.2.1 and 4.2.4). The decoder builds for each book a table of its values, and a tree of blocks
//! that are looked up by up to 8 bits of a code at a time.

/// Bytes that the books of a file may take. Those of libvorbis take less than 3 MiB at each rate
/// and quality.
const MOST: u64 = 16 << 20;
/// Bytes of an identification header.
const IDENT: usize = 30;
/// Bytes of an entry: its length, code and number, and twice that for vectors which grow.
const ENTRY: u64 = 48;
/// Bytes of a block of a tree beside its table.
const BLOCK: u64 = 320;

/// Checks the headers of a file, as containers keep them for a decoder.
///
/// # Errors
///
/// The books take more memory than any real file needs. Faults of other kinds are the decoder's to
/// find.
pub(crate) fn check(headers: &[u8]) -> Result<(), String> {
    match setup(headers).map_or(0, |setup| Walk { bytes: setup, at: 0 }.books().bytes) {
        bytes if bytes > MOST => {
            let (found, most) = (bytes >> 20, MOST >> 20);
            Err(format!("its codebooks take at least {found} MiB, expected at most {most}"))
        }
        _ => Ok(()),
    }
}

/// The setup header behind its seven bytes of type and name. Headers are laced, or the
/// identification header and the setup header follow each other.
fn setup(headers: &[u8]) -> Option<&[u8]> {
    let setup = match headers {
        [2, sizes @ ..] => {
            let (mut rest, mut before) = (sizes, 0);
            for _ in 0..2 {
                let long = rest.iter().take_while(|byte| **byte == 255).count();
                before += 255 * long + usize::from(*rest.get(long)?);
                rest = &rest[long + 1..];
            }
            rest.get(before..)?
        }
        _ => headers.get(IDENT..)?,
    };
    setup.strip_prefix(b"\x05vorbis")
}

/// Bits of a setup header, from the lowest bit of each byte on.
struct Walk<'a> {
    bytes: &'a [u8],
    at: u64,
}

/// The memory of the books up to the first fault, where a decoder stops too.
struct Books {
    bytes: u64,
}

impl Walk<'_> {
    fn books(mut self) -> Books {
        let mut books = Books { bytes: 0 };
        let count = self.bits(8).unwrap_or(0) + 1;
        for _ in 0..count {
            // a book counts even if its bits end early: the decoder reserves its memory first
            if self.book(&mut books).is_none() || books.bytes > MOST {
                break;
            }
        }
        books
    }

    /// Walks a book. `None` at a fault.
    fn book(&mut self, books: &mut Books) -> Option<()> {
        if self.bits(24)? != 0x56_4342 {
            return None;
        }
        let (dimensions, entries) = (u64::from(self.bits(16)?), u64::from(self.bits(24)?));
        books.bytes += entries * ENTRY;
        if books.bytes > MOST {
            return None;
        }
        let lengths = self.lengths(entries)?;
        books.bytes += tree(&lengths);
        let kind = self.bits(4)?;
        if kind == 1 || kind == 2 {
            books.bytes += entries * dimensions * 4;
            self.skip(64)?;
            let width = u64::from(self.bits(4)?) + 1;
            self.skip(1)?;
            let values = if kind == 1 { root(entries, dimensions) } else { entries * dimensions };
            books.bytes += values * 4;
            self.skip(values * width)?;
        }
        Some(())
    }

    /// How many codes have each length.
    fn lengths(&mut self, entries: u64) -> Option<[u64; 33]> {
        let mut lengths = [0; 33];
        if self.bits(1)? == 1 {
            let (mut length, mut done) = (self.bits(5)? as usize + 1, 0);
            while done < entries {
                let width = u64::BITS - (entries - done).leading_zeros();
                let count = u64::from(self.bits(width)?);
                *lengths.get_mut(length)? += count;
                length += 1;
                done += count;
            }
            return (done == entries).then_some(lengths);
        }
        let is_sparse = self.bits(1)? == 1;
        for _ in 0..entries {
            if !is_sparse || self.bits(1)? == 1 {
                lengths[self.bits(5)? as usize + 1] += 1;
            }
        }
        Some(lengths)
    }

    fn bits(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for bit in 0..count {
            let byte = self.bytes.get(usize::try_from(self.at / 8).ok()?)?;
            value |= u32::from(byte >> (self.at % 8) & 1) << bit;
            self.at += 1;
        }
        Some(value)
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        self.at += count;
        (self.at <= self.bytes.len() as u64 * 8).then_some(())
    }
}

/// Bytes of the tree of a book. A block stands for codes that are longer than its depth, of which
/// it has at least two.
fn tree(lengths: &[u64; 33]) -> u64 {
    let longest = lengths.iter().rposition(|count| *count > 0).unwrap_or(0);
    let step = longest.clamp(4, 8);
    let deeper = (step..longest).step_by(step).map(|depth| {
        let codes: u64 = lengths[depth + 1..].iter().sum();
        codes.div_ceil(2).min(1 << depth)
    });
    (1 + deeper.sum::<u64>()) * ((8 << step) + BLOCK)
}

/// The greatest number whose power is at most `entries`.
fn root(entries: u64, dimensions: u64) -> u64 {
    let Ok(power) = u32::try_from(dimensions) else { return 0 };
    let fits = |value: u64| value.checked_pow(power).is_some_and(|found| found <= entries);
    let mut value = 0;
    let mut step = 1 << 24;
    while step > 0 && power > 0 {
        if fits(value + step) {
            value += step;
        }
        step /= 2;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_those_of_the_specification() {
        for (entries, dimensions, expected) in
            [(0, 2, 0), (1, 8, 1), (80, 4, 2), (81, 4, 3), (6561, 8, 3), (131_072, 1, 131_072)]
        {
            assert_eq!(root(entries, dimensions), expected, "{entries} {dimensions}");
        }
    }

    #[test]
    fn trees_are_counted_by_their_blocks() {
        let mut lengths = [0; 33];
        lengths[1] = 2;
        // a table of 4 bits
        assert_eq!(tree(&lengths), 128 + BLOCK);
        // 131,072 codes of 17 bits: 256 blocks below the first one, 65,536 below them
        let mut lengths = [0; 33];
        lengths[17] = 1 << 17;
        assert_eq!(tree(&lengths), (1 + 256 + 65_536) * (2_048 + BLOCK));
    }
}
