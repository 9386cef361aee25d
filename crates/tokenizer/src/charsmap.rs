//! SentencePiece's normalization table, `precompiled_charsmap`.
//!
//! The layout (google/sentencepiece, `src/normalizer.cc`, `EncodePrecompiledCharsMap`): the size
//! in bytes of a double array, little-endian in 32 bits; the double array of Darts-clone
//! (s-yata/darts-clone, `include/darts.h`), 32 bits per unit; the replacements, each with a
//! NUL terminator. The double array maps sequences of characters to offsets among the replacements.

use crate::Error;

/// A table of sequences of characters and their replacements.
#[derive(Debug)]
pub(crate) struct Charsmap {
    units: Vec<Unit>,
    replacements: Vec<u8>,
}

/// One element of the double array.
#[derive(Clone, Copy, Debug)]
struct Unit(u32);

impl Unit {
    fn has_value(self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    fn value(self) -> u32 {
        self.0 & 0x7fff_ffff
    }

    /// The byte of the transition to this unit, with a bit that is set in units with values only.
    fn label(self) -> u32 {
        self.0 & 0x8000_00ff
    }

    /// Offset of the children relative to this unit.
    fn offset(self) -> u32 {
        (self.0 >> 10) << ((self.0 & 0x200) >> 6)
    }
}

impl Charsmap {
    /// Parses a table; an empty one has no replacements.
    ///
    /// # Errors
    /// If the sizes are inconsistent or the replacements are not UTF-8.
    pub(crate) fn new(bytes: &[u8]) -> Result<Self, Error> {
        let rejected = |fault| Error::Charsmap { fault };
        if bytes.is_empty() {
            return Ok(Self { units: Vec::new(), replacements: Vec::new() });
        }
        let (size, rest) =
            bytes.split_first_chunk().ok_or(rejected("is shorter than its header of 4 bytes"))?;
        let size = u32::from_le_bytes(*size) as usize;
        if !size.is_multiple_of(4) {
            return Err(rejected("has a double array that is not a whole number of 32-bit units"));
        }
        let (units, replacements) =
            rest.split_at_checked(size).ok_or(rejected("is shorter than its header declares"))?;
        if replacements.last() != Some(&0) {
            return Err(rejected("does not end with a NUL byte"));
        }
        if str::from_utf8(replacements).is_err() {
            return Err(rejected("has replacements that are not UTF-8"));
        }
        let units = units.as_chunks().0.iter().map(|unit| Unit(u32::from_le_bytes(*unit)));
        Ok(Self { units: units.collect(), replacements: replacements.to_vec() })
    }

    /// The longest replaced sequence at the start of a text: its length in bytes and its
    /// replacement.
    ///
    /// # Errors
    /// If an offset in the table is out of range.
    pub(crate) fn longest(&self, text: &[u8]) -> Result<Option<(usize, &[u8])>, Error> {
        self.search(text, false)
    }

    /// The replacement of the shortest replaced sequence at the start of a text.
    ///
    /// # Errors
    /// If an offset in the table is out of range.
    pub(crate) fn shortest(&self, text: &[u8]) -> Result<Option<&[u8]>, Error> {
        Ok(self.search(text, true)?.map(|(_, replacement)| replacement))
    }

    fn search(&self, text: &[u8], shortest: bool) -> Result<Option<(usize, &[u8])>, Error> {
        if self.units.is_empty() {
            return Ok(None);
        }
        let unit = |at: u32| {
            self.units
                .get(at as usize)
                .copied()
                .ok_or(Error::Charsmap { fault: "points outside its double array" })
        };
        let mut found = None;
        let mut at = unit(0)?.offset();
        for (&byte, length) in text.iter().zip(1..) {
            at ^= u32::from(byte);
            let here = unit(at)?;
            // NUL terminates keys, so no key contains one.
            if byte == 0 || here.label() != u32::from(byte) {
                break;
            }
            at ^= here.offset();
            if here.has_value() {
                found = Some((length, unit(at)?.value()));
                if shortest {
                    break;
                }
            }
        }
        let Some((length, offset)) = found else { return Ok(None) };
        let outside = Error::Charsmap { fault: "points outside its replacements" };
        let tail = self.replacements.get(offset as usize..).ok_or(outside)?;
        // The replacements end with a NUL byte, so the search succeeds.
        let end = tail.iter().position(|&byte| byte == 0).unwrap_or(tail.len());
        Ok(Some((length, &tail[..end])))
    }
}
