//! Writing GGUF files.

use std::collections::HashSet;
use std::io::{self, Read, Write};

use pelton_quant::DType;

use super::dtype::dtype_id;
use super::limits::{
    ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC, MAX_DIMS, MAX_KEY_LEN, MAX_TENSOR_NAME_LEN,
    checked_name, stated_alignment,
};
use crate::metadata::Entries;
use crate::{Problem, Value};

/// The GGUF version of written files.
const VERSION: u32 = 3;

/// Builder of a GGUF file: metadata and tensor descriptions.
///
/// The tensors' bytes are written afterwards one by one, so that a model may be larger than
/// memory:
///
/// ```
/// use pelton_quant::DType;
/// use pelton_weights::GgufWriter;
///
/// let mut file = Vec::new();
/// let mut writer = GgufWriter::new();
/// writer.set("general.architecture", "llama")?;
/// writer.declare("output_norm.weight", DType::F32, &[2])?;
/// let mut body = writer.begin(&mut file)?;
/// body.write(&[0, 0, 128, 63, 0, 0, 128, 63])?;
/// body.finish()?;
/// assert_eq!(&file[..4], b"GGUF");
/// # Ok::<(), pelton_weights::Problem>(())
/// ```
#[derive(Clone, Debug)]
pub struct GgufWriter {
    metadata: Entries,
    tensors: Vec<Declared>,
    names: HashSet<String>,
    alignment: usize,
    /// Offset of the next tensor from the start of the data section.
    next_offset: u64,
}

#[derive(Clone, Debug)]
struct Declared {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    offset: u64,
    size: usize,
}

impl Default for GgufWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl GgufWriter {
    /// Creates a file without metadata or tensors, with the default alignment of 32.
    pub fn new() -> Self {
        Self {
            metadata: Entries::default(),
            tensors: Vec::new(),
            names: HashSet::new(),
            alignment: DEFAULT_ALIGNMENT,
            next_offset: 0,
        }
    }

    /// Adds a metadata key.
    ///
    /// `general.alignment` sets the file's alignment and must come before any tensor.
    ///
    /// # Errors
    /// If the key is empty, too long or exists already, or if the alignment is invalid.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<(), Problem> {
        checked_name(key.as_bytes(), MAX_KEY_LEN, "metadata key")?;
        let value = value.into();
        if key == ALIGNMENT_KEY {
            if !self.tensors.is_empty() {
                return Err(Problem::LateAlignment);
            }
            self.alignment = stated_alignment(&value)?;
        }
        if !self.metadata.insert(key, value) {
            return Err(Problem::DuplicateKey { key: key.to_owned() });
        }
        Ok(())
    }

    /// Adds a tensor description. The tensors' bytes are written in the order of declaration.
    /// `shape` is in GGUF's order, innermost dimension first.
    ///
    /// # Errors
    /// If the name is empty, too long or exists already, or if the shape does not have one to four
    /// dimensions above 0. Also if a row is not a whole number of blocks of `dtype`.
    pub fn declare(&mut self, name: &str, dtype: DType, shape: &[usize]) -> Result<(), Problem> {
        checked_name(name.as_bytes(), MAX_TENSOR_NAME_LEN, "tensor name")?;
        let tensor = || name.to_owned();
        if shape.is_empty() || shape.len() > MAX_DIMS {
            let found = u32::try_from(shape.len()).unwrap_or(u32::MAX);
            return Err(Problem::Dimensions { tensor: tensor(), found });
        }
        let mut stored = [1; MAX_DIMS];
        for (stored, &dim) in stored.iter_mut().zip(shape) {
            *stored = dim as u64;
        }
        let (_, size) = super::tensors::checked_size(&stored, dtype)
            .map_err(|fault| fault.of_tensor(name, &stored[..shape.len()], dtype))?;
        if !self.names.insert(tensor()) {
            return Err(Problem::DuplicateTensor { tensor: tensor() });
        }
        let offset = self.next_offset;
        self.next_offset = offset
            .checked_add(size as u64)
            .and_then(|end| end.checked_next_multiple_of(self.alignment as u64))
            .ok_or_else(|| Problem::Shape {
                tensor: tensor(),
                shape: stored.to_vec(),
                fault: "the offset of the next tensor overflows",
            })?;
        self.tensors.push(Declared { name: tensor(), dtype, shape: shape.to_vec(), offset, size });
        Ok(())
    }

    /// Writes the header, metadata and descriptions to `out`, which should be buffered.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn begin<W: Write>(self, mut out: W) -> Result<GgufBody<W>, Problem> {
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_le_bytes());
        head.extend((self.tensors.len() as u64).to_le_bytes());
        head.extend((self.metadata.iter().len() as u64).to_le_bytes());
        for (key, value) in self.metadata.iter() {
            put_string(&mut head, key);
            head.extend(value.value_type().id().to_le_bytes());
            value.encode(&mut head);
        }
        for tensor in &self.tensors {
            put_string(&mut head, &tensor.name);
            head.extend((tensor.shape.len() as u32).to_le_bytes());
            for &dim in &tensor.shape {
                head.extend((dim as u64).to_le_bytes());
            }
            head.extend(dtype_id(tensor.dtype).to_le_bytes());
            head.extend(tensor.offset.to_le_bytes());
        }
        head.resize(head.len().next_multiple_of(self.alignment), 0);
        out.write_all(&head).map_err(Problem::Write)?;
        let tensors = self.tensors.into_iter();
        Ok(GgufBody { out, tensors, written: 0, alignment: self.alignment })
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The data section of a GGUF file being written; see [`GgufWriter`].
#[derive(Debug)]
#[must_use = "a file without its tensors is not readable"]
pub struct GgufBody<W> {
    out: W,
    tensors: std::vec::IntoIter<Declared>,
    /// Bytes of the next tensor that are written.
    written: usize,
    alignment: usize,
}

impl<W: Write> GgufBody<W> {
    /// Writes the bytes of the next tensor in the order of declaration.
    ///
    /// # Errors
    /// [`Problem::TensorBytes`] if there is no next tensor or its size differs;
    /// [`Problem::Write`] if the output fails.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let Some(next) = self.tensors.as_slice().first() else {
            return Err(after_the_last(bytes));
        };
        if self.written != 0 || bytes.len() != next.size {
            return Err(Problem::TensorBytes {
                tensor: next.name.clone(),
                found: bytes.len(),
                expected: next.size,
            });
        }
        self.write_part(bytes)
    }

    /// Writes bytes of the next tensor after those that are written, up to its end at most. The
    /// tensor after it is next when all its bytes are there.
    ///
    /// # Errors
    /// As for [`write`](Self::write); a tensor has too many bytes as soon as one part goes past its
    /// end.
    pub fn write_part(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let Some(next) = self.tensors.as_slice().first() else {
            return Err(after_the_last(bytes));
        };
        let found = self.written.saturating_add(bytes.len());
        if found > next.size {
            let (tensor, expected) = (next.name.clone(), next.size);
            return Err(Problem::TensorBytes { tensor, found, expected });
        }
        self.out.write_all(bytes).map_err(Problem::Write)?;
        self.written = found;
        if found == next.size {
            let padding = next.size.next_multiple_of(self.alignment) - next.size;
            io::copy(&mut io::repeat(0).take(padding as u64), &mut self.out)
                .map_err(Problem::Write)?;
            self.tensors.next();
            self.written = 0;
        }
        Ok(())
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// [`Problem::TensorBytes`] if a tensor has not been written; [`Problem::Write`] if the output
    /// fails.
    pub fn finish(mut self) -> Result<W, Problem> {
        if let Some(next) = self.tensors.next() {
            let (tensor, expected) = (next.name, next.size);
            return Err(Problem::TensorBytes { tensor, found: self.written, expected });
        }
        self.out.flush().map_err(Problem::Write)?;
        Ok(self.out)
    }
}

fn after_the_last(bytes: &[u8]) -> Problem {
    let tensor = "after the last".to_owned();
    Problem::TensorBytes { tensor, found: bytes.len(), expected: 0 }
}
