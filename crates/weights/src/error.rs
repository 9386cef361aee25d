//! What can be wrong with a model file.

use std::io;
use std::path::Path;

use pelton_quant::DType;

use crate::ValueType;

/// A model file that cannot be used: which file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct Error {
    file: String,
    problem: Problem,
}

impl Error {
    pub(crate) fn new(file: &str, problem: Problem) -> Self {
        Self { file: file.to_owned(), problem }
    }

    pub(crate) fn at(path: &Path, problem: Problem) -> Self {
        Self { file: path.display().to_string(), problem }
    }

    /// The file that was refused.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What is wrong with it.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// What is wrong with a model file, without the file's name (see [`Error`]).
///
/// Each variant carries the key or tensor at fault, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system would not open, measure or map the file.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// The output of a [`GgufWriter`](crate::GgufWriter) failed.
    #[error("cannot be written: {0}")]
    Write(io::Error),

    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it begins with \"{}\", expected \"GGUF\"", found.escape_ascii())]
    Magic {
        /// The first bytes of the file, at most four.
        found: Vec<u8>,
    },
    /// A GGUF file for big-endian machines.
    #[error("a big-endian GGUF file, expected a little-endian one")]
    BigEndian,
    /// A GGUF version this reader does not know.
    #[error("GGUF version {found}, expected 2 or 3")]
    Version {
        /// The version in the header.
        found: u32,
    },
    /// The header counts more things than the file has room for, or than any model has.
    #[error("the header announces {found} {what}, expected at most {most} in a file of this size")]
    Count {
        /// `"tensors"` or `"metadata keys"`.
        what: &'static str,
        /// The count in the header.
        found: u64,
        /// The most that the rest of the file could hold, or a million.
        most: u64,
    },
    /// The file ends inside something.
    #[error("the file ends inside {what}: {needed} bytes needed at offset {at}, {left} left")]
    Truncated {
        /// What was being read.
        what: String,
        /// Bytes that it needs.
        needed: u64,
        /// Where it begins, in bytes from the start of the file.
        at: u64,
        /// Bytes between there and the end.
        left: u64,
    },

    /// A metadata key or tensor name that may not be used.
    #[error("{what} {name:?} is {fault}")]
    Name {
        /// `"metadata key"` or `"tensor name"`, with its number.
        what: String,
        /// The name, cut short and with odd bytes replaced.
        name: String,
        /// What is wrong with it, and the rule.
        fault: &'static str,
    },
    /// The same metadata key twice.
    #[error("metadata key {key:?} occurs twice, expected once")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The same tensor name twice, in one part or in two.
    #[error("tensor {tensor:?} occurs twice, expected once")]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
    },

    /// A metadata type that GGUF does not define.
    #[error("metadata key {key:?} has type {found}, expected 0 to 12")]
    ValueTypeId {
        /// The key.
        key: String,
        /// The type's number in the file.
        found: u32,
    },
    /// A truth value other than 0 and 1.
    #[error("metadata key {key:?} holds the truth value {found}, expected 0 or 1")]
    Bool {
        /// The key.
        key: String,
        /// The byte in the file.
        found: u8,
    },
    /// Arrays in arrays in arrays.
    #[error("metadata key {key:?} nests arrays more than {limit} deep")]
    Nesting {
        /// The key.
        key: String,
        /// The deepest that is read.
        limit: u32,
    },
    /// `general.alignment` is out of range.
    #[error(
        "general.alignment is {found}, expected a u32 that is a power of two from 8 to {limit}"
    )]
    Alignment {
        /// The value, or its type.
        found: String,
        /// The largest that is accepted.
        limit: usize,
    },

    /// A number of dimensions outside 1 to 4.
    #[error("tensor {tensor:?} has {found} dimensions, expected 1 to 4")]
    Dimensions {
        /// The tensor.
        tensor: String,
        /// The number in the file.
        found: u32,
    },
    /// A shape with a zero in it or with more bytes than fit in memory.
    #[error("tensor {tensor:?} has shape {shape:?}: {fault}")]
    Shape {
        /// The tensor.
        tensor: String,
        /// The shape in the file.
        shape: Vec<u64>,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A row that is not a whole number of blocks.
    #[error(
        "tensor {tensor:?} has rows of {row}, expected a multiple of {dtype}'s block of {block}"
    )]
    RowLength {
        /// The tensor.
        tensor: String,
        /// Elements in a row.
        row: u64,
        /// The tensor's type.
        dtype: DType,
        /// Elements in a block of that type.
        block: usize,
    },
    /// An element type that is known but not supported, or not known at all.
    #[error("tensor {tensor:?} has type {found}, expected one of {supported}")]
    DType {
        /// The tensor.
        tensor: String,
        /// The type's name, or its number where it has none.
        found: String,
        /// The types that are supported.
        supported: String,
    },
    /// An offset that is not a multiple of the alignment.
    #[error("tensor {tensor:?} lies at offset {offset}, expected a multiple of {alignment}")]
    Misaligned {
        /// The tensor.
        tensor: String,
        /// Its offset in the data section.
        offset: u64,
        /// The file's alignment.
        alignment: usize,
    },
    /// A tensor that runs past the end of the file.
    #[error(
        "tensor {tensor:?} needs {needed} bytes at offset {offset} of the tensor data, which has {available}"
    )]
    DataEnd {
        /// The tensor.
        tensor: String,
        /// Its offset in the data section.
        offset: u64,
        /// Its size in bytes.
        needed: u64,
        /// The size of the data section in bytes.
        available: u64,
    },
    /// Two tensors that share bytes.
    #[error("tensors {first:?} and {second:?} overlap, expected separate bytes")]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The tensor that begins inside it.
        second: String,
    },

    /// A later part of a split model where the first was expected.
    #[error("part {number} of a split model of {count}, expected the first part{hint}")]
    NotFirstPart {
        /// The part's number, from 1.
        number: u64,
        /// How many parts there are.
        count: u64,
        /// The name of the first part, where the file's own name tells it.
        hint: String,
    },
    /// A split model whose parts cannot be found from the first part's name.
    #[error(
        "the first of {count} parts, but not named NAME-00001-of-{count:05}.gguf, so the others cannot be found"
    )]
    PartName {
        /// How many parts there are.
        count: u64,
    },
    /// A part of a split model in memory, where there are no others.
    #[error("one of {count} parts, expected a model in one part")]
    EmbeddedPart {
        /// How many parts there are.
        count: u64,
    },
    /// A part that is not the part it should be.
    #[error("{key} is {found}, expected {expected}")]
    Part {
        /// `split.no`, `split.count` or `split.tensors.count`.
        key: &'static str,
        /// The value in the part.
        found: String,
        /// The value that the other parts call for.
        expected: u64,
    },
    /// Parts that together hold more or fewer tensors than they say.
    #[error("the parts hold {found} tensors together, expected {expected} (split.tensors.count)")]
    SplitTensors {
        /// The tensors in all parts.
        found: usize,
        /// What the first part says.
        expected: u64,
    },

    /// A key that must be there and is not.
    #[error("metadata key {key:?} is missing, expected {expected}")]
    MissingKey {
        /// The key.
        key: String,
        /// The type that was expected.
        expected: &'static str,
    },
    /// A key of the wrong type.
    #[error("metadata key {key:?} is {found}, expected {expected}")]
    KeyType {
        /// The key.
        key: String,
        /// The type in the file, for numbers with the value.
        found: String,
        /// The type that was expected.
        expected: &'static str,
    },
    /// A string that is not UTF-8.
    #[error("metadata key {key:?} holds a string{place} that is not UTF-8")]
    Utf8 {
        /// The key.
        key: String,
        /// The element's number in an array, or nothing.
        place: String,
    },
    /// A hyper-parameter that no model can have.
    #[error("metadata key {key:?} is {found}, expected {expected}")]
    Absurd {
        /// The key.
        key: String,
        /// The value.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// A tensor that must be there and is not.
    #[error("tensor {tensor:?} is missing, expected one of shape {expected:?}")]
    MissingTensor {
        /// The tensor.
        tensor: String,
        /// The shape that was expected, innermost dimension first.
        expected: Vec<usize>,
    },
    /// A tensor of the wrong shape.
    #[error("tensor {tensor:?} has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// The tensor.
        tensor: String,
        /// The shape in the file, innermost dimension first.
        found: Vec<usize>,
        /// The shape that was expected.
        expected: Vec<usize>,
    },

    /// A tensor written with the wrong number of bytes, too early or too late.
    #[error("tensor {tensor:?} was given {found} bytes, expected {expected}")]
    TensorBytes {
        /// The tensor whose turn it is.
        tensor: String,
        /// The bytes that were given.
        found: usize,
        /// The bytes that its shape and type call for.
        expected: usize,
    },
    /// `general.alignment` set for a file whose tensors have their places already.
    #[error("general.alignment was set after a tensor, expected it before")]
    LateAlignment,
    /// An array value whose elements are not all of one type.
    #[error("an array of {expected} cannot hold an element of type {found}")]
    MixedArray {
        /// The type of the elements before.
        expected: ValueType,
        /// The type of the odd one.
        found: ValueType,
    },
}
