//! LoRA adapters (arXiv 2106.09685): low-rank additions to matrices of a model.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use pelton_quant::DType;

use crate::checkpoint::{Checkpoint, Source, Tensor};
use crate::gguf::TensorEntry;
use crate::hf::lora as peft;
use crate::{Error, Problem};

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

/// The names of an addition's factors in a checkpoint: `a` `[rank, inputs]`, and `b`
/// `[outputs, rank]` times the scale, both in F32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoraTensors {
    /// The matrix's name.
    pub tensor: String,
    /// The name of `a`.
    pub a: String,
    /// The name of `b`.
    pub b: String,
    /// Rows of `a`.
    pub rank: usize,
}

impl Lora {
    /// Opens a GGUF adapter for a GGUF model, or a directory that PEFT saved for a Hugging Face
    /// directory. The two have rows of queries and keys in different orders, so an adapter of the
    /// other kind is refused.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is malformed, if the adapter is for another architecture or of
    /// another kind than LoRA, or if a factor has no counterpart or does not fit its matrix.
    pub fn open(path: impl AsRef<Path>, base: &Checkpoint) -> Result<Self, Error> {
        let path = path.as_ref();
        let rejected = |fault: String| Error::at(path, Problem::Adapter { fault });
        let matrices = match (path.is_dir(), base.source()) {
            (false, Source::Gguf) => gguf(&Checkpoint::open(path)?, base)?,
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
            (true, Source::Gguf) => {
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

    /// Adds the factors to a checkpoint, `b` times the matrix's scale and `strength`, under names
    /// that contain `number`.
    ///
    /// # Errors
    ///
    /// If the checkpoint has an adapter with this number.
    pub fn attach(
        self,
        base: &mut Checkpoint,
        number: usize,
        strength: f32,
    ) -> Result<Vec<LoraTensors>, Error> {
        let mut attached = Vec::with_capacity(self.matrices.len());
        for LoraMatrix { tensor, rank, scale, a, b } in self.matrices {
            let factor = scale * f64::from(strength);
            let b: Vec<f32> = b.into_iter().map(|v| (f64::from(v) * factor) as f32).collect();
            let names = ["a", "b"].map(|part| format!("lora.{number}.{tensor}.{part}"));
            for (name, shape, values) in [
                (&names[0], [a.len() / rank.max(1), rank], &a),
                (&names[1], [rank, b.len() / rank.max(1)], &b),
            ] {
                let bytes: Bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                let entry = TensorEntry::new(name.clone(), DType::F32, &shape, bytes);
                let fault = format!("{name:?} is too large");
                let entry =
                    entry.ok_or_else(|| Error::new(&self.file, Problem::Adapter { fault }))?;
                base.add(entry)?;
            }
            let [a, b] = names;
            attached.push(LoraTensors { tensor, a, b, rank });
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
