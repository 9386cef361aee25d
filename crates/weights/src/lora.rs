//! LoRA adapters (arXiv 2106.09685): low-rank additions to matrices of a model.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use pelton_quant::DType;

use crate::checkpoint::{Checkpoint, Source, Tensor};
use crate::gguf::TensorEntry;
use crate::hf::lora as peft;
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

/// The addition to one matrix.
#[derive(Debug)]
pub struct LoraMatrix {
    /// The matrix's name in the model's checkpoint.
    pub tensor: String,
    /// Rows of `a`.
    pub rank: usize,
    /// The factor of `b`: `alpha / rank`, or with rsLoRA `alpha / √rank`.
    pub scale: f64,
    /// `[rank, inputs]`.
    a: Vec<f32>,
    /// `[outputs, rank]`.
    b: Vec<f32>,
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
    /// Opens a GGUF adapter for a GGUF model, or a directory that PEFT saved for a Hugging Face
    /// directory. The two have rows of queries and keys in different orders, so an adapter of the
    /// other kind is refused.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is malformed, or if the adapter is for another architecture or
    /// of another kind than LoRA. Also if a factor has no counterpart or does not fit its matrix.
    pub fn open(path: impl AsRef<Path>, base: &Checkpoint) -> Result<Self, Error> {
        let path = path.as_ref();
        let rejected = |fault: String| Error::at(path, Problem::Adapter { fault });
        let matrices = match (path.is_dir(), base.source()) {
            (false, Source::Gguf | Source::Ggml) => gguf(&Checkpoint::open(path)?, base)?,
            (true, Source::HuggingFace) => {
                let pairs = peft::open(path, Path::new(base.name()))?;
                pairs
                    .into_iter()
                    .map(LoraMatrix::of_peft)
                    .collect::<Result<_, _>>()
                    .map_err(rejected)?
            }
            (false, Source::HuggingFace) => {
                return Err(rejected(
                    "is a file, expected a directory as that of the model".into(),
                ));
            }
            (true, Source::Gguf | Source::Ggml) => {
                return Err(rejected("is a directory, expected a GGUF file as the model".into()));
            }
        };
        for matrix in &matrices {
            matrix.check(base).map_err(rejected)?;
        }
        if matrices.is_empty() {
            return Err(rejected("has no matrix, expected at least one".into()));
        }
        Ok(Self { file: path.display().to_string(), matrices })
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
            let (inputs, outputs) = (matrix.a.len() / matrix.rank, matrix.b.len() / matrix.rank);
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

impl LoraMatrix {
    fn of_peft(pair: peft::Pair) -> Result<Self, String> {
        let peft::Pair { tensor, a, b, scale } = pair;
        let ([rank, inputs], [outputs, same]) = (dims(&a.shape), dims(&b.shape));
        Self::new(tensor, [rank, inputs], [outputs, same], a.values, b.values, scale)
    }

    fn new(
        tensor: String,
        [rank, inputs]: [usize; 2],
        [outputs, same]: [usize; 2],
        a: Vec<f32>,
        b: Vec<f32>,
        scale: f64,
    ) -> Result<Self, String> {
        if rank != same || rank == 0 || a.len() != rank * inputs || b.len() != outputs * rank {
            return Err(format!(
                "has factors [{rank}, {inputs}] and [{outputs}, {same}] of {tensor:?}, expected \
                 equal ranks"
            ));
        }
        if a.iter().chain(&b).any(|value| !value.is_finite()) || !scale.is_finite() {
            return Err(format!("has values for {tensor:?} that are not finite"));
        }
        Ok(Self { tensor, rank, scale, a, b })
    }

    /// Compares the factors with their matrix.
    fn check(&self, base: &Checkpoint) -> Result<(), String> {
        let found = [self.a.len() / self.rank, self.b.len() / self.rank];
        match base.tensor(&self.tensor) {
            Some(matrix) if matrix.shape == found => Ok(()),
            Some(matrix) => Err(format!(
                "has factors for {found:?} of {:?}, expected {:?} as in the model",
                self.tensor, matrix.shape
            )),
            None => Err(format!("is for {:?}, which the model does not have", self.tensor)),
        }
    }
}

fn dims(shape: &[usize]) -> [usize; 2] {
    match *shape {
        [outer, inner] => [outer, inner],
        _ => [0, 0],
    }
}

/// The matrices of a GGUF adapter (llama.cpp, `src/llama-adapter.cpp`).
fn gguf(adapter: &Checkpoint, base: &Checkpoint) -> Result<Vec<LoraMatrix>, Error> {
    let metadata = adapter.metadata();
    let architecture = base.metadata().string("general.architecture")?;
    for (key, expected) in [
        ("general.type", "adapter"),
        ("adapter.type", "lora"),
        ("general.architecture", architecture),
    ] {
        let found = metadata.string(key)?;
        if found != expected {
            return Err(metadata.invalid(key, found, format!("{expected:?}")));
        }
    }
    if metadata.get("adapter.alora.invocation_tokens").is_some() {
        let expected = "an adapter that holds for all tokens".to_owned();
        return Err(metadata.invalid("adapter.alora.invocation_tokens", "present", expected));
    }
    // the scale is that of the user alone where a file has the alpha 0
    let alpha = f64::from(metadata.f32("adapter.lora.alpha")?);
    let rejected = |fault: String| Error::new(adapter.name(), Problem::Adapter { fault });

    let mut factors: BTreeMap<&str, [Option<Tensor<'_>>; 2]> = BTreeMap::new();
    for tensor in adapter.tensors() {
        let ends = [".lora_a", ".lora_b"];
        let found =
            ends.iter().enumerate().find_map(|(i, end)| Some((i, tensor.name.strip_suffix(end)?)));
        let Some((i, name)) = found else {
            let name = tensor.name;
            return Err(rejected(format!("has the tensor {name:?}, expected .lora_a or .lora_b")));
        };
        factors.entry(name).or_default()[i] = Some(tensor);
    }
    let mut matrices = Vec::with_capacity(factors.len());
    for (name, pair) in factors {
        let [Some(a), Some(b)] = pair else {
            let missing = if pair[0].is_none() { "lora_a" } else { "lora_b" };
            return Err(rejected(format!("has no {name}.{missing}")));
        };
        if name == "token_embd.weight" || a.shape.len() > 2 || b.shape.len() > 2 {
            return Err(rejected(format!(
                "is for {name:?}, expected the matrix of a linear layer"
            )));
        }
        let shape = |tensor: &Tensor<'_>| [tensor.rows(), tensor.row_len()];
        let rank = a.rows();
        let scale = if alpha == 0.0 { 1.0 } else { alpha / rank as f64 };
        let matrix =
            LoraMatrix::new(name.to_owned(), shape(&a), shape(&b), a.decode(), b.decode(), scale);
        matrices.push(matrix.map_err(rejected)?);
    }
    Ok(matrices)
}
