//! Errors of reading and writing model files.

use std::fmt;
use std::io;
use std::path::Path;

use pelton_quant::DType;

use crate::ValueType;

/// An error of a model file: the file's name and the [`Problem`].
#[derive(Debug)]
pub struct Error {
    file: String,
    problem: Problem,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.problem)
    }
}

/// The source is the error of the system, not the [`Problem`], which the message has.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.problem)
    }
}

impl Error {
    pub(crate) fn new(file: &str, problem: Problem) -> Self {
        Self { file: file.to_owned(), problem }
    }

    pub(crate) fn at(path: &Path, problem: Problem) -> Self {
        Self { file: path.display().to_string(), problem }
    }

    /// Name of the rejected file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The problem found in the file.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

/// The cause of an [`Error`], without the file's name.
///
/// Each variant carries the key or tensor concerned, the value found and the value expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system failed to open, stat or map the file.
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The output of a [`GgufWriter`](crate::GgufWriter) failed.
    #[error("cannot be written: {0}")]
    Write(#[source] io::Error),

    /// The file was changed while it was mapped.
    #[error("the file {how} while it was in use: load it again")]
    Changed {
        /// The change.
        how: String,
    },

    /// The file is empty.
    #[error("the file is empty, expected a model: download it again")]
    Empty,
    /// The file is a Git LFS pointer: a few lines that stand for a large file in a Git checkout.
    #[error("a Git LFS pointer, expected the file itself: run `git lfs pull` in its folder")]
    LfsPointer,
    /// A file of another format.
    #[error("{what}, expected a GGUF file: {advice}")]
    Foreign {
        /// The format.
        what: &'static str,
        /// The next step.
        advice: &'static str,
    },
    /// A folder with a LoRA adapter and without a model.
    #[error(
        "the folder has a LoRA adapter and no model, expected its base model: load that and add the adapter"
    )]
    AdapterFolder,
    /// A folder with several models.
    #[error("the folder has {count} models, expected one: give the path of one of {found}")]
    SeveralModels {
        /// The number of models.
        count: usize,
        /// The names of the first ones.
        found: String,
    },
    /// Files next to a model of which each could be its vision tower.
    #[error("{found} fit the model as its vision tower: keep one, or name it")]
    SeveralTowers {
        /// The files.
        found: String,
    },
    /// A vision tower of an unknown kind.
    #[error("the vision tower '{tower}' is not supported; docs/models.md lists those that are")]
    UnknownTower {
        /// The projector that the file names.
        tower: String,
    },
    /// A folder with a vision tower that lacks the settings of its pictures.
    #[error(
        "lacks preprocessor_config.json, the settings of pictures: download it into the folder"
    )]
    NoPictureSettings,
    /// Files of a model in several shards that do not exist.
    #[error("{missing} of {count} shards {} missing: download {first} into the folder",
        if *missing == 1 { "is" } else { "are" })]
    MissingShards {
        /// The number of missing files.
        missing: u64,
        /// The number of files.
        count: u64,
        /// The name of the first one that is missing.
        first: String,
    },

    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it begins with \"{}\", expected \"GGUF\"", found.escape_ascii())]
    Magic {
        /// The first bytes of the file, at most four.
        found: Vec<u8>,
    },
    /// A big-endian GGUF file.
    #[error("a big-endian GGUF file, expected a little-endian one")]
    BigEndian,
    /// An unsupported GGUF version.
    #[error("GGUF version {found}, expected 2 or 3")]
    Version {
        /// The version in the header.
        found: u32,
    },
    /// A count in the header exceeds what the file can contain, or the limit of a million.
    #[error("the header announces {found} {what}, expected at most {most} in a file of this size")]
    Count {
        /// `"tensors"` or `"metadata keys"`.
        what: &'static str,
        /// The count in the header.
        found: u64,
        /// The largest count that fits in the rest of the file, at most 2^20.
        most: u64,
    },
    /// The file ends within a field.
    #[error("the file is cut inside {what} ({} of at least {} bytes): download it again",
        at.saturating_add(*left), at.saturating_add(*needed))]
    Truncated {
        /// The field being read.
        what: String,
        /// Size of the field in bytes.
        needed: u64,
        /// Offset of the field in bytes from the start of the file.
        at: u64,
        /// Bytes between that offset and the end of the file.
        left: u64,
    },

    /// An invalid metadata key or tensor name.
    #[error("{what} {name:?} is {fault}")]
    Name {
        /// `"metadata key"` or `"tensor name"`.
        what: String,
        /// The name, truncated and with bytes that are not UTF-8 replaced.
        name: String,
        /// The violated rule.
        fault: &'static str,
    },
    /// A metadata key that occurs twice.
    #[error("metadata key {key:?} occurs twice, expected once")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A tensor name that occurs twice, within a shard or across shards.
    #[error("tensor {tensor:?} occurs twice, expected once")]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
    },

    /// A metadata value type that GGUF does not define.
    #[error("metadata key {key:?} has type {found}, expected 0 to 12")]
    ValueTypeId {
        /// The key.
        key: String,
        /// The type id in the file.
        found: u32,
    },
    /// A boolean stored as a byte other than 0 and 1.
    #[error("metadata key {key:?} has a bool of {found}, expected 0 or 1")]
    Bool {
        /// The key.
        key: String,
        /// The byte in the file.
        found: u8,
    },
    /// Arrays nested too deeply.
    #[error("metadata key {key:?} nests arrays more than {limit} deep")]
    Nesting {
        /// The key.
        key: String,
        /// The deepest nesting that is accepted.
        limit: u32,
    },
    /// `general.alignment` is out of range.
    #[error(
        "general.alignment is {found}, expected a u32 that is a power of two from 8 to {limit}"
    )]
    Alignment {
        /// The value, or its type.
        found: String,
        /// The largest accepted alignment.
        limit: usize,
    },

    /// A number of dimensions outside 1 to 4.
    #[error("tensor {tensor:?} has {found} dimensions, expected 1 to 4")]
    Dimensions {
        /// The tensor.
        tensor: String,
        /// The number of dimensions in the file.
        found: u32,
    },
    /// A shape with a dimension of 0 or with more elements than memory can address.
    #[error("tensor {tensor:?} has shape {shape:?}: {fault}")]
    Shape {
        /// The tensor.
        tensor: String,
        /// The shape in the file.
        shape: Vec<u64>,
        /// The violated rule.
        fault: &'static str,
    },
    /// A row length that is not a multiple of the block length.
    #[error(
        "tensor {tensor:?} has rows of {row}, expected a multiple of {dtype}'s block of {block}"
    )]
    RowLength {
        /// The tensor.
        tensor: String,
        /// Elements per row.
        row: u64,
        /// The tensor's type.
        dtype: DType,
        /// Elements per block of that type.
        block: usize,
    },
    /// An unsupported or unknown element type.
    #[error("tensor {tensor:?} has type {found}, expected one of {supported}")]
    DType {
        /// The tensor.
        tensor: String,
        /// The type's name, or its id if it is unknown.
        found: String,
        /// The supported types.
        supported: String,
    },
    /// An offset that is not a multiple of the alignment.
    #[error("tensor {tensor:?} has offset {offset}, expected a multiple of {alignment}")]
    Misaligned {
        /// The tensor.
        tensor: String,
        /// Its offset in the data section.
        offset: u64,
        /// The file's alignment.
        alignment: usize,
    },
    /// Tensors that extend past the end of the file, as after a download that was cut off.
    #[error("the file is incomplete: {}; {tensor:?} is the first tensor that is cut off; download the file again",
        Share { found: *found, whole: *whole })]
    Incomplete {
        /// The first tensor that ends after the file.
        tensor: String,
        /// The size of the file in bytes.
        found: u64,
        /// The size in bytes that its tensors need.
        whole: u64,
    },
    /// Two tensors whose bytes overlap.
    #[error("tensors {first:?} and {second:?} overlap, expected disjoint byte ranges")]
    Overlap {
        /// The tensor with the lower offset.
        first: String,
        /// The tensor that begins inside the first.
        second: String,
    },

    /// A later shard of a split model in place of the first.
    #[error("shard {number} of a split model of {count}, expected the first shard{hint}")]
    NotFirstShard {
        /// The shard's number, counted from 1.
        number: u64,
        /// Number of shards of the model.
        count: u64,
        /// Name of the first shard, if it follows from the file's name.
        hint: String,
    },
    /// A split model whose other shards cannot be located by the first shard's name.
    #[error(
        "the first of {count} shards has no name of the form NAME-00001-of-{count:05}.gguf, so the others cannot be located"
    )]
    ShardName {
        /// Number of shards of the model.
        count: u64,
    },
    /// A shard of a split model opened from memory.
    #[error("one of {count} shards, expected a complete model in memory")]
    ShardInMemory {
        /// Number of shards of the model.
        count: u64,
    },
    /// A shard whose keys do not match its position in the split.
    #[error("{key} is {found}, expected {expected}")]
    Shard {
        /// `split.no`, `split.count` or `split.tensors.count`.
        key: &'static str,
        /// The value in the shard.
        found: String,
        /// The value that follows from the first shard.
        expected: u64,
    },
    /// A total number of tensors in all shards that differs from `split.tensors.count`.
    #[error("the shards have {found} tensors in total, expected {expected} (split.tensors.count)")]
    SplitTensors {
        /// Number of tensors in all shards.
        found: usize,
        /// The count in the first shard.
        expected: u64,
    },

    /// A required key that is missing.
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
        /// The type in the file, with the value of a scalar.
        found: String,
        /// The type that was expected.
        expected: &'static str,
    },
    /// A string that is not UTF-8.
    #[error("metadata key {key:?} has a string{place} that is not UTF-8")]
    Utf8 {
        /// The key.
        key: String,
        /// The element's index in an array, or empty.
        place: String,
    },
    /// A value that is out of range or contradicts the rest of the model.
    #[error("metadata key {key:?} is {found}, expected {expected}")]
    InvalidValue {
        /// The key.
        key: String,
        /// The value.
        found: String,
        /// The valid values.
        expected: String,
    },
    /// A required tensor that is missing.
    #[error("tensor {tensor:?} is missing, expected one of shape {expected:?}")]
    MissingTensor {
        /// The tensor.
        tensor: String,
        /// The shape that was expected, innermost dimension first.
        expected: Vec<usize>,
    },
    /// A tensor with an unexpected shape.
    #[error("tensor {tensor:?} has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// The tensor.
        tensor: String,
        /// The shape in the file, innermost dimension first.
        found: Vec<usize>,
        /// The shape that was expected.
        expected: Vec<usize>,
    },

    /// A tensor that cannot be quantized.
    #[error("tensor {tensor:?} cannot be encoded as {dtype}: {fault}")]
    Quantize {
        /// The tensor.
        tensor: String,
        /// The type that it should have.
        dtype: DType,
        /// The encoder's fault.
        fault: String,
    },

    /// A file of the importance of columns that is malformed or does not fit the model.
    #[error("the importance file has {found}")]
    Importance {
        /// The contents found, and those expected.
        found: String,
    },

    /// A file above the size limit of its kind.
    #[error("the file has {found} bytes, expected at most {limit}")]
    FileSize {
        /// Size of the file in bytes.
        found: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file that is not JSON of the expected form.
    #[error("not the expected JSON: {fault}")]
    Json {
        /// The fault, with line and column.
        fault: String,
    },
    /// A required key of a JSON file that is missing.
    #[error("{key:?} is missing, expected {expected}")]
    ConfigMissing {
        /// The key.
        key: String,
        /// The valid values.
        expected: &'static str,
    },
    /// An invalid value in a JSON file.
    #[error("{key:?} is {found}, expected {expected}")]
    ConfigValue {
        /// The key.
        key: String,
        /// The value, truncated.
        found: String,
        /// The valid values.
        expected: String,
    },
    /// A model of an architecture without a mapping to GGUF names.
    #[error("architecture {found} is not supported; docs/models.md lists those that are")]
    Architecture {
        /// The name of the class in `config.json`.
        found: String,
        /// The supported classes.
        supported: String,
    },
    /// A folder without a safetensors file.
    #[error(
        "the folder has no model.safetensors and no model.safetensors.index.json, expected one of them"
    )]
    NoWeights,
    /// An inconsistent index of shards.
    #[error("the index is inconsistent: {fault}")]
    Index {
        /// The fault.
        fault: String,
    },
    /// An invalid header of a safetensors file.
    #[error("the safetensors header {fault}")]
    SafetensorsHeader {
        /// The fault.
        fault: String,
    },
    /// An invalid tensor of a safetensors file, or one that does not fit the configuration.
    #[error("tensor {tensor:?} {fault}")]
    SafetensorsTensor {
        /// The tensor's name in the file.
        tensor: String,
        /// The fault.
        fault: String,
    },
    /// A tensor that has no name in GGUF.
    #[error("tensor {tensor:?} is not known of architecture {architecture:?}")]
    UnknownTensor {
        /// The tensor's name in the file.
        tensor: String,
        /// The architecture's name in GGUF.
        architecture: &'static str,
    },

    /// An adapter that does not fit the model.
    #[error("the adapter {fault}")]
    Adapter {
        /// The fault.
        fault: String,
    },

    /// A file of sorted buckets that does not fit the model.
    #[error("the file {fault}")]
    Buckets {
        /// The fault.
        fault: String,
    },

    /// A field of a ggml file of Whisper that is out of range or contradicts the rest of the file.
    #[error("{field} of the ggml file is {found}, expected {expected}")]
    GgmlField {
        /// The field, by its name in whisper.cpp.
        field: String,
        /// The value in the file.
        found: String,
        /// The valid values.
        expected: String,
    },
    /// A vocabulary that is not one of Whisper.
    #[error("the vocabulary has {fault}, expected Whisper's")]
    WhisperVocabulary {
        /// The fault.
        fault: String,
    },

    /// A write with the wrong number of bytes for the next tensor, or after the last tensor.
    #[error("tensor {tensor:?} was written with {found} bytes, expected {expected}")]
    TensorBytes {
        /// The next tensor in the order of declaration.
        tensor: String,
        /// The number of bytes written.
        found: usize,
        /// The number of bytes of its shape and type.
        expected: usize,
    },
    /// `general.alignment` set after a tensor's offset was assigned.
    #[error("general.alignment was set after a tensor, expected it before")]
    LateAlignment,
    /// An array value with elements of different types.
    #[error("an array of {expected} cannot contain an element of type {found}")]
    MixedArray {
        /// The element type of the array.
        expected: ValueType,
        /// The type of the other element.
        found: ValueType,
    },
}

/// A part of a size: `95 of 391 MiB`.
struct Share {
    found: u64,
    whole: u64,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        let (found, whole) = (self.found / MIB, self.whole / MIB);
        match found < whole {
            true => write!(f, "{found} of {whole} MiB"),
            false => write!(f, "{} of {} bytes", self.found, self.whole),
        }
    }
}
