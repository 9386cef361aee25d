//! What can be wrong with a request to decode or encode.

use crate::DType;

/// Why numbers could not be decoded or encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The count of numbers is not a whole number of blocks.
    #[error("{dtype} stores numbers in blocks of {}, which {len} numbers do not fill", dtype.block_len())]
    PartialBlock {
        /// The stored type.
        dtype: DType,
        /// The count of numbers asked for.
        len: usize,
    },
    /// There are too few or too many bytes for that many numbers.
    #[error("{len} numbers of {dtype} take {expected} bytes, but there are {found}")]
    ByteLength {
        /// The stored type.
        dtype: DType,
        /// The count of numbers asked for.
        len: usize,
        /// The bytes that they take.
        expected: usize,
        /// The bytes that were given.
        found: usize,
    },
    /// The type can be read, but not written.
    #[error(
        "numbers cannot be encoded as {dtype}: only F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1 and \
         Q8_0 can be written"
    )]
    CannotEncode {
        /// The type asked for.
        dtype: DType,
    },
    /// A block holds a NaN, an infinity, or numbers so large that its f16 scale overflows.
    #[error(
        "numbers {start} to {} cannot be encoded as {dtype}: they hold a NaN or an infinity, or \
         are too large for the block's f16 scale",
        start + dtype.block_len() - 1
    )]
    OutOfRange {
        /// The type asked for.
        dtype: DType,
        /// Index of the block's first number.
        start: usize,
    },
}
