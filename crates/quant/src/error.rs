//! Errors of decoding and encoding.

use crate::DType;

/// The reason that elements could not be decoded or encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The number of elements is not a multiple of the block length.
    #[error("{len} elements do not fill blocks of {dtype}, expected a multiple of {}", dtype.block_len())]
    PartialBlock {
        /// The stored type.
        dtype: DType,
        /// The number of elements requested.
        len: usize,
    },
    /// The number of bytes does not match the number of elements.
    #[error("{len} elements of {dtype} have {found} bytes, expected {expected}")]
    ByteLength {
        /// The stored type.
        dtype: DType,
        /// The number of elements requested.
        len: usize,
        /// The bytes that these elements occupy.
        expected: usize,
        /// The bytes that were given.
        found: usize,
    },
    /// The type has a decoder but no encoder.
    #[error("{dtype} has no encoder, expected {}", encodable())]
    CannotEncode {
        /// The requested type.
        dtype: DType,
    },
    /// A block contains a NaN, an infinity, or values so large that its scale overflows.
    #[error(
        "elements {start} to {} cannot be encoded as {dtype}: found a NaN, an infinity or values \
         that overflow the block's scale",
        start + dtype.block_len() - 1
    )]
    OutOfRange {
        /// The requested type.
        dtype: DType,
        /// Index of the block's first element.
        start: usize,
    },
    /// The values are no whole number of rows that have as many columns as the importance.
    #[error(
        "{len} elements are no whole number of rows of {found} columns, which the importance has"
    )]
    ImportanceLength {
        /// The number of elements.
        len: usize,
        /// The number of importance values.
        found: usize,
    },
    /// An importance is negative, infinite or NaN.
    #[error("the importance of column {index} is {value}, expected a finite value of at least 0")]
    Importance {
        /// The column.
        index: usize,
        /// The importance found.
        value: String,
    },
}

/// Lists the types with an encoder.
fn encodable() -> String {
    let names: Vec<&str> =
        DType::ALL.iter().filter(|d| d.has_encoder()).map(|d| d.name()).collect();
    names.join(", ")
}
