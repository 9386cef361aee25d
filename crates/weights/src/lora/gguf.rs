//! Adapters in GGUF files (llama.cpp, `src/llama-adapter.cpp`).

use std::collections::BTreeMap;
use std::io::Write;

use pelton_quant::{DType, encode};

use super::matrix::LoraMatrix;
use crate::{Checkpoint, Error, GgufWriter, Problem, Tensor};

/// The matrices of a GGUF adapter, in the order of rows of GGUF files.
pub(super) fn read(adapter: &Checkpoint, base: &Checkpoint) -> Result<Vec<LoraMatrix>, Error> {
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

/// Writes an adapter with factors of F32, F16 or BF16. The scales of single matrices that the
/// file's one alpha does not give are factors of their `b`.
pub(super) fn write<W: Write>(
    matrices: &[LoraMatrix],
    architecture: &str,
    dtype: DType,
    out: W,
) -> Result<W, Problem> {
    // an alpha of 0 stands for a scale of 1
    let alpha_of = |matrix: &LoraMatrix| matrix.scale * matrix.rank as f64;
    let alpha = matrices.iter().map(alpha_of).find(|&alpha| alpha as f32 != 0.0).unwrap_or(1.0);
    let alpha = alpha as f32;
    let mut writer = GgufWriter::new();
    writer.set("general.type", "adapter")?;
    writer.set("general.architecture", architecture)?;
    writer.set("adapter.type", "lora")?;
    writer.set("adapter.lora.alpha", alpha)?;
    for matrix in matrices {
        let ([inputs, outputs], rank) = (matrix.sizes(), matrix.rank);
        writer.declare(&format!("{}.lora_a", matrix.tensor), dtype, &[inputs, rank])?;
        writer.declare(&format!("{}.lora_b", matrix.tensor), dtype, &[rank, outputs])?;
    }
    let mut body = writer.begin(out)?;
    let encoded = |matrix: &LoraMatrix, values: &[f32]| {
        let mut bytes = Vec::with_capacity(values.len() * dtype.block_bytes());
        encode(dtype, values, &mut bytes).map_err(|error| Problem::Quantize {
            tensor: matrix.tensor.clone(),
            dtype,
            fault: error.to_string(),
        })?;
        Ok(bytes)
    };
    for matrix in matrices {
        body.write(&encoded(matrix, &matrix.a)?)?;
        let factor = alpha_of(matrix) / f64::from(alpha);
        // one that differs by the rounding of alpha is that alpha
        if (factor - 1.0).abs() < 1e-6 {
            body.write(&encoded(matrix, &matrix.b)?)?;
        } else {
            let scaled = |&value: &f32| (f64::from(value) * factor) as f32;
            let values: Vec<f32> = matrix.b.iter().map(scaled).collect();
            body.write(&encoded(matrix, &values)?)?;
        }
    }
    body.finish()
}
