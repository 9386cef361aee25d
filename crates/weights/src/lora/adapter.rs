//! An adapter for a model.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use bytes::Bytes;
use pelton_quant::DType;

use super::gguf;
use super::matrix::LoraMatrix;
use crate::checkpoint::{Checkpoint, Source};
use crate::gguf::TensorEntry;
use crate::hf::lora::{self as peft, Base};
use crate::interleaved::heads_of;
use crate::map::OpenFiles;
use crate::{Error, Problem};

/// Ranks are filled up with zeros to a multiple of this, the length of blocks of most formats.
const RANK_UNIT: usize = 32;

/// An adapter for a model: for each of some matrices `[outputs, inputs]` two factors `a` and `b`,
/// with which the product is `y + b·(a·x)`.
#[derive(Debug)]
pub struct Lora {
    file: String,
    matrices: Vec<LoraMatrix>,
}

/// The names of the factors of one matrix in a checkpoint, of all adapters: `a`
/// `[adapters, rank, inputs]` and `b` `[adapters, outputs, rank]` times the scale, both in F32. The
/// factors of an adapter without this matrix, or of a lower rank, have zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoraTensors {
    /// The matrix's name.
    pub tensor: String,
    /// The name of `a`.
    pub a: String,
    /// The name of `b`.
    pub b: String,
    /// Rows of `a` of one adapter.
    pub rank: usize,
    /// Adapters.
    pub adapters: usize,
}

impl Lora {
    /// Opens an adapter: a GGUF file, or a directory that PEFT saved. The model may be of either
    /// kind. Where their orders of the rows of queries and keys differ, the adapter takes that of
    /// the model.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is malformed, or if the adapter is for another architecture or
    /// of another kind than LoRA. Also if a factor has no counterpart or does not fit its matrix.
    pub fn open(path: impl AsRef<Path>, base: &Checkpoint) -> Result<Self, Error> {
        let path = path.as_ref();
        let rejected = |fault: String| Error::at(path, Problem::Adapter { fault });
        let is_file_of_peft = path.extension().is_some_and(|end| end == "safetensors");
        let folder = if is_file_of_peft { path.parent() } else { Some(path) };
        let folder = folder.filter(|folder| folder.join(peft::SETTINGS).is_file() || path.is_dir());
        let (mut matrices, found) = match folder {
            Some(folder) => (of_peft(folder, base)?, Source::HuggingFace),
            None => {
                let adapter = Checkpoint::open(path)?;
                let matrices = gguf::read(&adapter, base);
                // values of a file that was cut are zeros
                adapter.check_files()?;
                (matrices?, Source::Gguf)
            }
        };
        for matrix in &mut matrices {
            matrix.check(base).map_err(rejected)?;
            to_order(matrix, base, found, base.source()).map_err(rejected)?;
        }
        if matrices.is_empty() {
            return Err(rejected("has no matrix, expected at least one".into()));
        }
        Ok(Self { file: path.display().to_string(), matrices })
    }

    /// Writes the adapter as a GGUF file for the model's GGUF file, with factors of F32, F16 or
    /// BF16; `base` is the model that it was opened for. Returns `out`.
    ///
    /// # Errors
    ///
    /// If a value is beyond the range of the type, or if `out` fails.
    pub fn write_gguf<W: Write>(
        &self,
        base: &Checkpoint,
        dtype: DType,
        out: W,
    ) -> Result<W, Error> {
        let rejected = |problem| Error::new(&self.file, problem);
        let mut matrices = self.matrices.clone();
        for matrix in &mut matrices {
            to_order(matrix, base, base.source(), Source::Gguf)
                .map_err(|fault| rejected(Problem::Adapter { fault }))?;
        }
        let architecture = base.metadata().string("general.architecture")?;
        gguf::write(&matrices, architecture, dtype, out).map_err(rejected)
    }

    /// Path of the adapter.
    pub fn name(&self) -> &str {
        &self.file
    }

    /// The additions.
    pub fn matrices(&self) -> &[LoraMatrix] {
        &self.matrices
    }

    /// Adds the factors of adapters to a checkpoint: for each matrix that one of them changes two
    /// tensors with the factors of all.
    ///
    /// # Errors
    ///
    /// If the checkpoint has such tensors, or if they are too large.
    pub fn attach(adapters: &[Self], base: &mut Checkpoint) -> Result<Vec<LoraTensors>, Error> {
        let mut matrices: BTreeMap<&str, Vec<(usize, &LoraMatrix)>> = BTreeMap::new();
        for (number, adapter) in adapters.iter().enumerate() {
            for matrix in &adapter.matrices {
                matrices.entry(&matrix.tensor).or_default().push((number, matrix));
            }
        }
        let mut attached = Vec::with_capacity(matrices.len());
        for (tensor, factors) in matrices {
            let Some(&(first, matrix)) = factors.first() else { continue };
            let [inputs, outputs] = matrix.sizes();
            let ranks = factors.iter().map(|(_, matrix)| matrix.rank);
            let rank = ranks.max().unwrap_or(1).next_multiple_of(RANK_UNIT);
            let file = &adapters[first].file;
            let names = ["a", "b"].map(|part| format!("lora.{tensor}.{part}"));
            let shapes = [[inputs, rank, adapters.len()], [rank, outputs, adapters.len()]];
            let rejected =
                || Error::new(file, Problem::Adapter { fault: format!("{tensor:?} is too large") });
            let len = |shape: &[usize; 3]| {
                let len = shape.iter().try_fold(4usize, |len, &n| len.checked_mul(n));
                Some(len.filter(|&len| len <= isize::MAX as usize)? / 4)
            };
            let mut values = Vec::with_capacity(2);
            for shape in &shapes {
                values.push(vec![0.0f32; len(shape).ok_or_else(rejected)?]);
            }
            for (number, LoraMatrix { rank: own, scale, a, b, .. }) in factors {
                let to = &mut values[0][number * rank * inputs..];
                to[..a.len()].copy_from_slice(a);
                let to = values[1][number * rank * outputs..].chunks_mut(rank);
                for (to, from) in to.zip(b.chunks(*own)) {
                    for (to, &from) in to.iter_mut().zip(from) {
                        *to = (f64::from(from) * scale) as f32;
                    }
                }
            }
            for ((name, shape), values) in names.iter().zip(&shapes).zip(&values) {
                let bytes: Bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                let entry = TensorEntry::new(name.clone(), DType::F32, shape, bytes);
                base.add(entry.ok_or_else(rejected)?)?;
            }
            let [a, b] = names;
            let (tensor, adapters) = (tensor.to_owned(), adapters.len());
            attached.push(LoraTensors { tensor, a, b, rank, adapters });
        }
        Ok(attached)
    }
}

/// The matrices of a directory that PEFT saved, in its order of rows.
fn of_peft(folder: &Path, base: &Checkpoint) -> Result<Vec<LoraMatrix>, Error> {
    let mut files = OpenFiles::default();
    let of = Base {
        metadata: base.metadata(),
        folder: (base.source() == Source::HuggingFace).then(|| Path::new(base.name())),
        has: &|tensor| base.tensor(tensor).is_some(),
    };
    let pairs = peft::open(folder, &of, &mut files);
    // values of a file that was cut are zeros
    files.finish()?;
    let matrices = pairs?.into_iter().map(LoraMatrix::of_peft).collect::<Result<_, _>>();
    matrices.map_err(|fault| Error::at(folder, Problem::Adapter { fault }))
}

/// Gives the outputs of a matrix the order of the rows of a kind of files.
fn to_order(
    matrix: &mut LoraMatrix,
    base: &Checkpoint,
    from: Source,
    to: Source,
) -> Result<(), String> {
    let is_directory = |source| source == Source::HuggingFace;
    if is_directory(from) == is_directory(to) {
        return Ok(());
    }
    let heads = heads_of(base.metadata(), &matrix.tensor).map_err(|error| error.to_string())?;
    heads.map_or(Ok(()), |heads| matrix.reorder(heads, is_directory(from)))
}
