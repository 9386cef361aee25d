//! Opened and validated model files.
//!
//! Every count, length, offset and product is checked before it sizes an allocation. Arrays of
//! metadata stay in the memory map and are decoded when they are read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use bytes::Bytes;
use pelton_quant::DType;

use crate::gguf::{Shard, Split, TensorEntry, shard_path, stacked};
use crate::map::{MappedFiles, OpenFiles, is_missing};
use crate::metadata::Entries;
use crate::{Error, Metadata, Problem, Value, folder, ggml, hf, whisper};

/// The kind of file that a [`Checkpoint`] was read from.
///
/// The rows of query and key matrices are in the order of the original model in a Hugging Face
/// directory. GGUF converters permute them for some architectures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// A GGUF file, or one in several shards.
    #[default]
    Gguf,
    /// A ggml file of whisper.cpp.
    Ggml,
    /// A Hugging Face directory: `config.json` and safetensors files.
    HuggingFace,
}

/// A model: metadata and named tensors over memory-mapped files or bytes in memory.
///
/// Opening validates the header, the metadata and the tensor descriptions. The bytes of every
/// tensor are then present and have the size of its shape and type. It does not read the tensors'
/// data; the operating system pages them in on first use.
///
/// A file must not be modified while it is open: changes appear in the mapped bytes. Pages that a
/// truncated file no longer has are read as zeros, and [`check_files`](Checkpoint::check_files)
/// names the file afterwards. For that, the first map of a process on Linux or macOS installs a
/// handler of SIGBUS. It passes signals for other addresses on to the handler before. Replace a
/// file by a rename, which leaves the mapped one as it is.
#[derive(Debug)]
pub struct Checkpoint {
    source: Source,
    file_bytes: u64,
    metadata: Metadata,
    tensors: Vec<TensorEntry>,
    index: HashMap<String, usize>,
    files: MappedFiles,
}

impl Checkpoint {
    /// Opens a GGUF file, a ggml file of whisper.cpp or a Hugging Face directory.
    ///
    /// The first bytes of a file decide on its format, whatever its name.
    ///
    /// For a GGUF model split into several files, `path` is the first shard; the others are
    /// located in the same folder by their names.
    ///
    /// A directory without `config.json` that has one `.gguf` file, or no such file and one ggml
    /// file, stands for that file. A folder of a repository in the cache of the Hugging Face hub
    /// stands for its snapshot. Other directories have `config.json`, `model.safetensors` or the
    /// shards of `model.safetensors.index.json`, and `tokenizer.json` with its companions. It gives
    /// the metadata and tensors of its conversion to GGUF. The order of the rows of queries and
    /// keys (see [`Source`]) and the types of tensors differ. Tensors stay memory-mapped where
    /// names alone differ; those whose values or order differ, such as stacked experts, are copied
    /// into memory.
    ///
    /// # Errors
    /// If a file cannot be read or is malformed, or if the directory's architecture is unknown;
    /// see [`Problem`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let mut files = OpenFiles::default();
        let opened = Self::open_with(path.as_ref(), &mut files);
        // a file that was cut meanwhile may be any kind of fault
        let files = files.finish()?;
        opened.map(|opened| Self { files, ..opened })
    }

    fn open_with(path: &Path, files: &mut OpenFiles) -> Result<Self, Error> {
        if path.is_dir() {
            let model = folder::model_of(path)?;
            if model.is_file() {
                return Self::open_with(&model, files);
            }
            let contents = hf::open(&model, files)?;
            return Self::of_folder(&model, contents, MappedFiles::default());
        }
        let rejected = |problem| Error::at(path, problem);

        let bytes = files.map(path).map_err(rejected)?;
        if ggml::is_ggml(&bytes) {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let name = stem.map(|stem| stem.strip_prefix("ggml-").unwrap_or(stem));
            let contents = ggml::parse(&bytes, name).map_err(rejected)?;
            return Self::of_ggml(path.display().to_string(), contents, bytes.len());
        }
        let first = Shard::parse(&bytes).map_err(rejected)?;
        let mut file_bytes = bytes.len() as u64;
        let mut tensors = first.tensors;
        let split = Split::of(&first.metadata).map_err(rejected)?;
        if let Some(split) = split.filter(Split::has_others) {
            split.require_first(path).map_err(rejected)?;
            require_shards(path, split.count).map_err(rejected)?;
            for number in 1..split.count {
                let path = shard_path(path, number, split.count).map_err(rejected)?;
                let rejected = |problem| Error::at(&path, problem);
                let (shard, shard_bytes) = read_shard(&path, files).map_err(rejected)?;
                split.require_shard(number, &shard.metadata).map_err(rejected)?;
                tensors.extend(shard.tensors);
                file_bytes += shard_bytes;
            }
            split.require_all(tensors.len()).map_err(rejected)?;
        }

        Self::of_gguf(path.display().to_string(), first.metadata, tensors, file_bytes)
    }

    /// Opens a model in memory: a `Vec<u8>` or another type that converts to [`Bytes`] without a
    /// copy. `name` stands for the file name in error messages.
    ///
    /// # Errors
    /// If the bytes are malformed or only one shard of a model; see [`Problem`].
    pub fn from_bytes(name: &str, bytes: impl Into<Bytes>) -> Result<Self, Error> {
        let rejected = |problem| Error::new(name, problem);
        let bytes = bytes.into();
        if ggml::is_ggml(&bytes) {
            let contents = ggml::parse(&bytes, None).map_err(rejected)?;
            return Self::of_ggml(name.to_owned(), contents, bytes.len());
        }
        let shard = Shard::parse(&bytes).map_err(rejected)?;
        let split = Split::of(&shard.metadata).map_err(rejected)?;
        if let Some(split) = split.filter(Split::has_others) {
            return Err(rejected(Problem::ShardInMemory { count: split.count }));
        }
        Self::of_gguf(name.to_owned(), shard.metadata, shard.tensors, bytes.len() as u64)
    }

    fn of_gguf(
        name: String,
        metadata: Entries,
        tensors: Vec<TensorEntry>,
        file_bytes: u64,
    ) -> Result<Self, Error> {
        let metadata = Metadata::new(name, metadata);
        let mut tensors = stacked(tensors);
        whisper::complete(&metadata, &mut tensors);
        Self::new(Source::Gguf, metadata, tensors, file_bytes)
    }

    fn of_ggml(name: String, contents: ggml::Contents, file_bytes: usize) -> Result<Self, Error> {
        let metadata = Metadata::new(name, contents.metadata);
        Self::new(Source::Ggml, metadata, contents.tensors, file_bytes as u64)
    }

    fn new(
        source: Source,
        metadata: Metadata,
        tensors: Vec<TensorEntry>,
        file_bytes: u64,
    ) -> Result<Self, Error> {
        let mut index = HashMap::new();
        for (position, tensor) in tensors.iter().enumerate() {
            match index.entry(tensor.name.clone()) {
                Entry::Vacant(vacant) => vacant.insert(position),
                Entry::Occupied(taken) => {
                    let tensor = taken.key().clone();
                    return Err(metadata.error(Problem::DuplicateTensor { tensor }));
                }
            };
        }
        let files = MappedFiles::default();
        Ok(Self { source, file_bytes, metadata, tensors, index, files })
    }

    /// The model of a Hugging Face directory.
    pub(crate) fn of_folder(
        folder: &Path,
        contents: hf::Contents,
        files: MappedFiles,
    ) -> Result<Self, Error> {
        let hf::Contents { metadata, tensors, file_bytes } = contents;
        let metadata = Metadata::new(folder.display().to_string(), metadata);
        let made = Self::new(Source::HuggingFace, metadata, tensors, file_bytes)?;
        Ok(Self { files, ..made })
    }

    /// The same model with the tensors that `change` makes of its own.
    pub(crate) fn with_all(
        self,
        change: impl FnOnce(Vec<TensorEntry>) -> Result<Vec<TensorEntry>, Problem>,
    ) -> Result<Self, Error> {
        let Self { source, file_bytes, metadata, tensors, index: _, files } = self;
        let tensors = change(tensors).map_err(|problem| metadata.error(problem))?;
        let made = Self::new(source, metadata, tensors, file_bytes)?;
        Ok(Self { files, ..made })
    }

    /// Adds a tensor.
    pub(crate) fn add(&mut self, tensor: TensorEntry) -> Result<(), Error> {
        if self.index.insert(tensor.name.clone(), self.tensors.len()).is_some() {
            return Err(self.metadata.error(Problem::DuplicateTensor { tensor: tensor.name }));
        }
        self.tensors.push(tensor);
        Ok(())
    }

    /// The mapped files, which tell whether one of them has changed.
    pub fn files(&self) -> &MappedFiles {
        &self.files
    }

    /// Whether the files are those that were opened: neither cut nor written to since.
    ///
    /// # Errors
    /// [`Problem::Changed`] with the name of one that is not.
    pub fn check_files(&self) -> Result<(), Error> {
        self.files.check()
    }

    /// Adds the files of tensors that are added.
    pub(crate) fn add_files(&mut self, files: &MappedFiles) {
        self.files = self.files.with(files);
    }

    /// All tensors.
    pub(crate) fn into_tensors(self) -> Vec<TensorEntry> {
        self.tensors
    }

    /// Path of the file as passed to [`open`](Self::open), or the name of a model in memory.
    pub fn name(&self) -> &str {
        self.metadata.file()
    }

    /// Replaces the type and bytes of the tensors for which `change` gives others.
    pub(crate) fn with_tensors(
        mut self,
        mut change: impl FnMut(&Tensor<'_>) -> Result<Option<(DType, Bytes)>, Problem>,
    ) -> Result<Self, Error> {
        for entry in &mut self.tensors {
            let changed = change(&Tensor::of(entry));
            if let Some((dtype, bytes)) = changed.map_err(|fault| self.metadata.error(fault))? {
                entry.dtype = dtype;
                entry.bytes = bytes;
            }
        }
        Ok(self)
    }

    /// Adds values to the metadata, each in place of the key's own if the file has the key.
    #[must_use]
    pub fn with_metadata(mut self, values: impl IntoIterator<Item = (String, Value)>) -> Self {
        for (key, value) in values {
            self.metadata.replace(&key, value);
        }
        self
    }

    /// The kind of file that the model was read from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Total size of the model's files in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The model's metadata; for a split model, that of the first shard.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors, in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> {
        self.tensors.iter().map(Tensor::of)
    }

    /// The tensor with this name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let &position = self.index.get(name)?;
        self.tensors.get(position).map(Tensor::of)
    }

    /// Index of a tensor in [`tensors`](Self::tensors), for [`tensor_at`](Self::tensor_at).
    pub fn tensor_index(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The tensor with this index in [`tensors`](Self::tensors), without a lookup by name.
    ///
    /// # Panics
    /// If `index` is not below the number of tensors.
    pub fn tensor_at(&self, index: usize) -> Tensor<'_> {
        Tensor::of(&self.tensors[index])
    }

    /// The tensor with this name, which must have this shape (innermost dimension first).
    ///
    /// Trailing dimensions of 1 are ignored, as in ggml: `[64]` and `[64, 1]` are equal.
    ///
    /// # Errors
    /// If there is no such tensor or its shape differs.
    pub fn require(&self, name: &str, shape: &[usize]) -> Result<Tensor<'_>, Error> {
        let Some(tensor) = self.tensor(name) else {
            return Err(self.metadata.error(Problem::MissingTensor {
                tensor: name.to_owned(),
                expected: shape.to_vec(),
            }));
        };
        if without_trailing_ones(tensor.shape) != without_trailing_ones(shape) {
            return Err(self.metadata.error(Problem::TensorShape {
                tensor: name.to_owned(),
                found: tensor.shape.to_vec(),
                expected: shape.to_vec(),
            }));
        }
        Ok(tensor)
    }
}

fn without_trailing_ones(shape: &[usize]) -> &[usize] {
    let len = shape.iter().rposition(|&dim| dim != 1).map_or(0, |last| last + 1);
    &shape[..len]
}

/// A tensor of an open [`Checkpoint`], whose bytes have exactly the size of its shape and type.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Tensor<'a> {
    /// The tensor's name, such as `blk.0.attn_q.weight`.
    pub name: &'a str,
    /// Storage type of the elements.
    pub dtype: DType,
    /// One to four dimensions in GGUF's order: `shape[0]` is the innermost, the length of a
    /// row. All are at least 1.
    pub shape: &'a [usize],
    /// The stored elements in row order. Their address may have any alignment.
    pub bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    fn of(entry: &'a TensorEntry) -> Self {
        Self { name: &entry.name, dtype: entry.dtype, shape: entry.shape(), bytes: &entry.bytes }
    }

    /// Elements per row, the innermost dimension.
    pub fn row_len(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Number of rows: the product of all dimensions but the innermost.
    pub fn rows(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// Decodes all elements, in row order.
    ///
    /// # Panics
    /// If the fields were modified and no longer match each other.
    pub fn decode(&self) -> Vec<f32> {
        let mut numbers = vec![0.0; self.row_len() * self.rows()];
        if let Err(error) = pelton_quant::decode(self.dtype, self.bytes, &mut numbers) {
            unreachable!(
                "the size of {:?} was checked when its file was opened: {error}",
                self.name
            )
        }
        numbers
    }
}

/// Shards that are looked for before the first is read: a damaged count may be any number.
const SHARDS_COUNTED: u64 = 10_000;

/// Checks that the shards after the first are there.
fn require_shards(first: &Path, count: u64) -> Result<(), Problem> {
    let (mut missing, mut name) = (0, None);
    for number in 1..count.min(SHARDS_COUNTED) {
        let path = shard_path(first, number, count)?;
        if is_missing(&path) {
            missing += 1;
            name.get_or_insert(path);
        }
    }
    match name.as_deref().and_then(Path::file_name) {
        Some(name) => {
            let first = name.to_string_lossy().into_owned();
            Err(Problem::MissingShards { missing, count, first })
        }
        None => Ok(()),
    }
}

/// Maps and parses one file; also returns its size in bytes.
fn read_shard(path: &Path, files: &mut OpenFiles) -> Result<(Shard, u64), Problem> {
    let bytes = files.map(path)?;
    Ok((Shard::parse(&bytes)?, bytes.len() as u64))
}
