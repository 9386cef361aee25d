//! The conversion: reads a directory and writes a GGUF file.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pelton_quant::{DType, encode};
use pelton_weights::{Checkpoint, GgufWriter, Source, Tensor};

/// Architectures in whose GGUF files the two halves of a head's rows are interleaved, as
/// llama.cpp's rotary embedding of them expects it.
const INTERLEAVED: &[&str] =
    &["llama", "mistral3", "smollm3", "granite", "granitemoe", "minicpm", "internlm2"];

/// Options of a conversion.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Element type of the matrices.
    pub(crate) dtype: DType,
    /// `tokenizer.ggml.pre`, in place of the name that follows from `tokenizer.json`.
    pub(crate) pre: Option<String>,
}

/// Converts the model in `directory` to the file `output`.
pub(crate) fn convert(directory: &Path, output: &Path, options: &Options) -> Result<()> {
    let model = Checkpoint::open(directory)?;
    ensure!(model.source() == Source::HuggingFace, "{} is a file", directory.display());
    let architecture = model.metadata().string("general.architecture")?;
    let mut out = GgufWriter::new();
    for (key, value) in model.metadata().iter() {
        match (key, &options.pre) {
            ("tokenizer.ggml.pre", Some(pre)) => out.set(key, pre.as_str())?,
            _ => out.set(key, value.clone())?,
        }
    }
    out.set("general.file_type", file_type(options.dtype))?;
    // The version of the block layouts, `GGML_QNT_VERSION` in ggml.h.
    out.set("general.quantization_version", 2u32)?;

    let size = |key: &str| model.metadata().opt_usize(&format!("{architecture}.{key}"));
    let heads = size("attention.head_count")?;
    let kv_heads = size("attention.head_count_kv")?.or(heads);
    for tensor in model.tensors() {
        out.declare(tensor.name, dtype_of(&tensor, options.dtype), tensor.shape)?;
    }
    let file = File::create(output).with_context(|| output.display().to_string())?;
    let mut body = out.begin(BufWriter::new(file))?;
    for tensor in model.tensors() {
        let heads = match tensor.name {
            _ if !INTERLEAVED.contains(&architecture) => None,
            name if name.contains(".attn_q.") => heads,
            name if name.contains(".attn_k.") => kv_heads,
            _ => None,
        };
        let mut values = tensor.decode();
        if let Some(heads) = heads {
            let row_len = if tensor.shape.len() < 2 { 1 } else { tensor.row_len() };
            values = interleaved(&values, row_len, heads).context(tensor.name.to_owned())?;
        }
        let mut bytes = Vec::new();
        encode(dtype_of(&tensor, options.dtype), &values, &mut bytes)?;
        body.write(&bytes)?;
    }
    body.finish()?;
    Ok(())
}

/// The type of a tensor in the file: as in llama.cpp's converter, vectors and norms are F32, and
/// rows that are not a whole number of blocks become F16.
fn dtype_of(tensor: &Tensor<'_>, matrices: DType) -> DType {
    if tensor.shape.len() < 2 || tensor.name.ends_with("_norm.weight") {
        DType::F32
    } else if tensor.row_len().is_multiple_of(matrices.block_len()) {
        matrices
    } else {
        DType::F16
    }
}

/// `general.file_type`: `enum llama_ftype` in llama.h.
fn file_type(dtype: DType) -> u32 {
    match dtype {
        DType::F16 => 1,
        DType::Q8_0 => 7,
        DType::BF16 => 32,
        _ => 0,
    }
}

/// Interleaves the two halves of each head's rows: row `i` of the first half moves to `2i`, row
/// `i` of the second half to `2i + 1`.
fn interleaved(values: &[f32], row_len: usize, heads: usize) -> Result<Vec<f32>> {
    let rows: Vec<_> = values.chunks_exact(row_len).collect();
    ensure!(
        heads > 0 && rows.len().is_multiple_of(2 * heads),
        "{} rows are not a whole number of pairs in {heads} heads",
        rows.len()
    );
    let half = rows.len() / heads / 2;
    let pairs = |head: &[&[f32]]| -> Vec<f32> {
        let (first, second) = head.split_at(half);
        first.iter().zip(second).flat_map(|(a, b)| [*a, *b]).flatten().copied().collect()
    };
    Ok(rows.chunks_exact(2 * half).flat_map(pairs).collect())
}
