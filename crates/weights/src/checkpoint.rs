//! A model file that has been opened and checked.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;
use pelton_quant::DType;

use crate::gguf::{Part, Split, TensorEntry, part_path};
use crate::{Error, Metadata, Problem};

/// A model: metadata and named tensors, over memory-mapped files or bytes in the program.
///
/// Opening checks everything that a file claims about itself, so that the tensors' bytes are
/// all there and have the size that their shapes and types call for. It reads only the
/// descriptions; the tensors are read when they are used.
///
/// A file must not be changed while it is open: the operating system shows the change in the
/// mapped bytes, and ends the program where a file has become shorter.
#[derive(Debug)]
pub struct Checkpoint {
    file_bytes: u64,
    metadata: Metadata,
    tensors: Vec<TensorEntry>,
    index: HashMap<String, usize>,
}

impl Checkpoint {
    /// Opens a GGUF file. Of a model in several files, give the first; the others are found
    /// beside it by their names.
    ///
    /// # Errors
    /// If a file cannot be read or is malformed; see [`Problem`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let refused = |problem| Error::at(path, problem);

        let (first, mut file_bytes) = read_part(path).map_err(refused)?;
        let mut tensors = first.tensors;
        let split = Split::of(&first.metadata).map_err(refused)?;
        if let Some(split) = split.filter(Split::has_others) {
            split.require_first(path).map_err(refused)?;
            for number in 1..split.count {
                let path = part_path(path, number, split.count).map_err(refused)?;
                let refused = |problem| Error::at(&path, problem);
                let (part, part_bytes) = read_part(&path).map_err(refused)?;
                split.require_part(number, &part.metadata).map_err(refused)?;
                tensors.extend(part.tensors);
                file_bytes += part_bytes;
            }
            split.require_all(tensors.len()).map_err(refused)?;
        }

        let metadata = Metadata::new(path.display().to_string(), first.metadata);
        Self::new(metadata, tensors, file_bytes)
    }

    /// Opens a model in memory, a `Vec<u8>` or anything else that becomes [`Bytes`] without
    /// being copied. `name` is used in messages.
    ///
    /// # Errors
    /// If the bytes are malformed or only a part of a model; see [`Problem`].
    pub fn from_bytes(name: &str, bytes: impl Into<Bytes>) -> Result<Self, Error> {
        let refused = |problem| Error::new(name, problem);
        let bytes = bytes.into();
        let part = Part::parse(&bytes).map_err(refused)?;
        let split = Split::of(&part.metadata).map_err(refused)?;
        if let Some(split) = split.filter(Split::has_others) {
            return Err(refused(Problem::EmbeddedPart { count: split.count }));
        }
        let metadata = Metadata::new(name.to_owned(), part.metadata);
        Self::new(metadata, part.tensors, bytes.len() as u64)
    }

    fn new(metadata: Metadata, tensors: Vec<TensorEntry>, file_bytes: u64) -> Result<Self, Error> {
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
        Ok(Self { file_bytes, metadata, tensors, index })
    }

    /// The file that was opened, as it was given to [`open`](Self::open).
    pub fn name(&self) -> &str {
        self.metadata.file()
    }

    /// The size of the model's files together, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// What the model says about itself; of a split model, what the first part says.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Every tensor, in the order of the file or files.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> {
        self.tensors.iter().map(Tensor::of)
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let &position = self.index.get(name)?;
        self.tensors.get(position).map(Tensor::of)
    }

    /// The place of a tensor in [`tensors`](Self::tensors), for [`tensor_at`](Self::tensor_at).
    pub fn tensor_index(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The tensor at a place in [`tensors`](Self::tensors): what to use where there is no time to
    /// look a name up.
    ///
    /// # Panics
    /// If `index` is not below the number of tensors.
    pub fn tensor_at(&self, index: usize) -> Tensor<'_> {
        Tensor::of(&self.tensors[index])
    }

    /// The tensor of that name, which must have that shape (innermost dimension first).
    ///
    /// Dimensions of 1 at the end of a shape are of no account, as in ggml: `[64]` and
    /// `[64, 1]` are the same.
    ///
    /// # Errors
    /// If there is no such tensor or its shape is another.
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

/// A tensor of an open [`Checkpoint`]. Its bytes are exactly what its shape and type call for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Tensor<'a> {
    /// The tensor's name, such as `blk.0.attn_q.weight`.
    pub name: &'a str,
    /// How its numbers are stored.
    pub dtype: DType,
    /// One to four dimensions in GGUF's order: `shape[0]` is the innermost, the length of a
    /// row. None is 0.
    pub shape: &'a [usize],
    /// The numbers as they are stored, row after row. They may lie at any address.
    pub bytes: &'a [u8],
}

impl<'a> Tensor<'a> {
    fn of(entry: &'a TensorEntry) -> Self {
        Self { name: &entry.name, dtype: entry.dtype, shape: entry.shape(), bytes: &entry.bytes }
    }

    /// Numbers in a row, the innermost dimension.
    pub fn row_len(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// The number of rows: the product of all dimensions but the innermost.
    pub fn rows(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// All numbers, decoded.
    ///
    /// # Panics
    /// If the fields were altered so that they no longer fit together.
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

/// Maps and parses one file; also gives its size.
fn read_part(path: &Path) -> Result<(Part, u64), Problem> {
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path).map_err(Problem::Read)?.is_file() {
        return Err(Problem::Read(io::Error::other("not a regular file")));
    }
    let file = File::open(path).map_err(Problem::Read)?;
    // SAFETY: the map is only read. That nobody alters the file meanwhile cannot be ensured
    // here; the documentation of `Checkpoint` asks it of the caller, because a `&[u8]` or `&str`
    // into the map must not change while it is in use. Names are copied out, and lengths and
    // UTF-8 are checked at each use, so that a change between uses leads to an error.
    let map = unsafe { Mmap::map(&file) }.map_err(Problem::Read)?;
    let bytes = Bytes::from_owner(map);
    Ok((Part::parse(&bytes)?, bytes.len() as u64))
}
