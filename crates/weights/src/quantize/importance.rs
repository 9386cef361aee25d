//! The importance of the columns of a model's matrices: the mean squares of their inputs on some
//! text.

use std::collections::HashMap;
use std::path::Path;

use crate::read::read;
use crate::{Checkpoint, Error, Problem, Tensor};

/// Bytes of an old file that are read at most.
const MAX_BYTES: u64 = 4 << 30;

/// Names of tensors in a GGUF file of importance: the sums of squares `[columns, matrices]`, and
/// the numbers of rows `[1, matrices]`.
pub(super) const SUMS: &str = ".in_sum2";
pub(super) const COUNTS: &str = ".counts";

/// The importance of columns, by the matrices' names, as llama.cpp's `llama-imatrix` writes it.
///
/// For each matrix it has the mean square of the input of each column, `[columns, matrices]`.
#[derive(Clone, Debug)]
pub struct Importance {
    name: String,
    of: HashMap<String, Vec<f32>>,
}

impl Importance {
    /// Reads a GGUF file of importance (`general.type = imatrix`), or one of the older form `.dat`.
    ///
    /// # Errors
    /// If the file cannot be read, is malformed or has no importance.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let rejected = |problem| Error::at(path, problem);
        let bytes = read(path, MAX_BYTES)?;
        let of = match bytes.starts_with(b"GGUF") {
            true => from_gguf(&Checkpoint::from_bytes(&path.display().to_string(), bytes)?)
                .map_err(rejected)?,
            false => from_old(&bytes).map_err(rejected)?,
        };
        if of.is_empty() {
            return Err(rejected(fault("no matrix, expected tensors named *.in_sum2")));
        }
        for (name, values) in &of {
            if let Some(value) = values.iter().find(|v| !v.is_finite() || **v < 0.0) {
                let found = format!("{value} for {name:?}, expected finite values of at least 0");
                return Err(rejected(fault(found)));
            }
        }
        Ok(Self { name: path.display().to_string(), of })
    }

    /// The file's path.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The number of matrices.
    #[allow(clippy::len_without_is_empty, reason = "an importance is never empty")]
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// The importance of a tensor's columns, if the file has it.
    pub(super) fn of(&self, tensor: &Tensor<'_>) -> Result<Option<&[f32]>, Problem> {
        let Some(found) = self.of.get(tensor.name) else { return Ok(None) };
        let matrices: usize = tensor.shape.iter().skip(2).product();
        let columns = tensor.row_len();
        if found.len() != columns && found.len() != columns * matrices {
            return Err(fault(format!(
                "{} values for {:?}, expected {columns} columns of {matrices} matrices; it belongs to another model",
                found.len(),
                tensor.name
            )));
        }
        Ok(Some(found))
    }
}

pub(super) fn fault(found: impl Into<String>) -> Problem {
    Problem::Importance { found: found.into() }
}

fn from_gguf(file: &Checkpoint) -> Result<HashMap<String, Vec<f32>>, Problem> {
    let mut all = HashMap::new();
    for sums in file.tensors() {
        let Some(name) = sums.name.strip_suffix(SUMS) else { continue };
        let counts = file.tensor(&format!("{name}{COUNTS}"));
        let counts = counts.map(|counts| counts.decode()).unwrap_or_default();
        let (mut values, columns) = (sums.decode(), sums.row_len());
        if counts.len() * columns != values.len() {
            let found = format!("{} counts for {name:?}, expected {}", counts.len(), sums.rows());
            return Err(fault(found));
        }
        for (values, &count) in values.chunks_exact_mut(columns).zip(&counts) {
            // an expert that was never used has no importance
            let mean = |sum: f32| if count > 0.0 { sum / count } else { 1.0 };
            values.iter_mut().for_each(|value| *value = mean(*value));
        }
        all.insert(name.to_owned(), values);
    }
    Ok(all)
}

/// The older form: the number of entries, and for each the name, the number of calls, and sums; all
/// integers have four bytes, strings their length before them.
fn from_old(bytes: &[u8]) -> Result<HashMap<String, Vec<f32>>, Problem> {
    let mut rest = bytes;
    let mut all = HashMap::new();
    for _ in 0..integer(&mut rest)? {
        let length = integer(&mut rest)?;
        let name = String::from_utf8_lossy(taken(&mut rest, length)?).into_owned();
        let calls = integer(&mut rest)?.max(1) as f32;
        let length = integer(&mut rest)?;
        let values = taken(&mut rest, length.saturating_mul(4))?.as_chunks().0.iter();
        all.insert(name, values.map(|v| f32::from_le_bytes(*v) / calls).collect());
    }
    Ok(all)
}

/// The next four bytes, a number of at least 0.
fn integer(rest: &mut &[u8]) -> Result<usize, Problem> {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(taken(rest, 4)?);
    usize::try_from(i32::from_le_bytes(bytes)).map_err(|_| fault("a negative length"))
}

fn taken<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Problem> {
    let (first, after) = rest.split_at_checked(length).ok_or_else(|| {
        fault("another form or too few bytes, expected a GGUF file or an old .dat file")
    })?;
    *rest = after;
    Ok(first)
}
