//! Conversion of a checkpoint to a GGUF file with other types.

use std::io::Write;
use std::thread;

use pelton_quant::DType;

use super::choice::{self, Entry, Facts, fitting, is_convolution, is_exempt, is_float};
use super::rows::Rows;
use super::{Importance, Quantize};
use crate::interleaved::{HeadOrder, heads_of};
use crate::{Checkpoint, Error, GgufWriter, Problem, Source, Tensor, Value};

/// The number of threads that encode if none is given.
pub(super) fn default_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The version of the block layouts, `GGML_QNT_VERSION` in `ggml.h`.
const QUANTIZATION_VERSION: u32 = 2;

/// A GGUF file to be made of a checkpoint: the type of each tensor.
///
/// The file is written in one pass: tensors are read from the memory map, encoded in parts of some
/// MiB on all threads, and written in order.
///
/// ```no_run
/// use pelton_weights::{Checkpoint, Conversion, Quantize};
///
/// let model = Checkpoint::open("model-f16.gguf")?;
/// let conversion = Conversion::quantize(&model, Quantize::Q4_K_M, None)?;
/// let file = std::io::BufWriter::new(std::fs::File::create("model-q4_k_m.gguf").unwrap());
/// conversion.write(file, |done, of| println!("{done} of {of} bytes"))?;
/// # Ok::<(), pelton_weights::Error>(())
/// ```
#[derive(Debug)]
pub struct Conversion<'a> {
    model: &'a Checkpoint,
    /// The types of the tensors, in the model's order.
    types: Vec<DType>,
    file_type: u32,
    importance: Option<&'a Importance>,
    /// Metadata in place of the model's.
    keys: Vec<(String, Value)>,
    threads: usize,
}

impl<'a> Conversion<'a> {
    /// The matrices of F32, F16 and BF16 in the types of a mixture; all others keep theirs. Tensors
    /// that no mixture changes are F32 in the file of a Hugging Face directory.
    ///
    /// # Errors
    /// If `general.architecture` is missing, or if an importance does not fit a matrix.
    pub fn quantize(
        model: &'a Checkpoint,
        to: Quantize,
        importance: Option<&'a Importance>,
    ) -> Result<Self, Error> {
        let facts = Facts::of(model, importance.is_some())?;
        let entries: Vec<_> = model.tensors().map(|tensor| entry(&tensor)).collect();
        let mixed = choice::types(to, &facts, &entries);
        let types = model.tensors().zip(mixed).map(|(tensor, mixed)| match mixed {
            Some(dtype) if is_float(&tensor) => dtype,
            Some(_) => tensor.dtype,
            None => kept(model, &tensor),
        });
        let found = Self {
            types: types.collect(),
            file_type: to.file_type(),
            importance,
            keys: Vec::new(),
            threads: default_threads(),
            model,
        };
        for (tensor, _) in found.tensors() {
            found.importance_of(&tensor)?;
        }
        Ok(found)
    }

    /// The matrices of F32, F16 and BF16 in `matrices`, or in their own types; vectors, norms,
    /// routers and other small tensors in F32. Quantized matrices keep their types.
    ///
    /// # Errors
    /// If `general.architecture` is missing.
    pub fn convert(model: &'a Checkpoint, matrices: Option<DType>) -> Result<Self, Error> {
        model.metadata().string("general.architecture")?;
        let types = model.tensors().map(|tensor| match matrices {
            _ if !is_float(&tensor) => tensor.dtype,
            _ if is_exempt(entry(&tensor)) => DType::F32,
            _ if is_convolution(tensor.name) => tensor.dtype,
            Some(dtype) => fitting(dtype, tensor.row_len()),
            None => tensor.dtype,
        });
        let types: Vec<_> = types.collect();
        let largest = model.tensors().zip(&types).max_by_key(|(tensor, _)| tensor.bytes.len());
        let file_type = match matrices.or(largest.map(|(_, dtype)| *dtype)) {
            Some(DType::F16) => Quantize::F16,
            Some(DType::BF16) => Quantize::BF16,
            Some(DType::Q8_0) => Quantize::Q8_0,
            _ => Quantize::F32,
        };
        let file_type = file_type.file_type();
        let (keys, threads) = (Vec::new(), default_threads());
        Ok(Self { model, types, file_type, importance: None, keys, threads })
    }

    /// Sets the number of threads that encode, at least 1; by default that of all cores.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets a key of the file's metadata that the model has, in place of its value.
    #[must_use]
    pub fn key(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.keys.push((key.to_owned(), value.into()));
        self
    }

    /// Gives the matrices whose names match `pattern` another type; `*` stands for any characters.
    /// Returns the number of matrices.
    ///
    /// # Errors
    /// If no matrix matches, or if the type's blocks do not divide a row.
    pub fn set_type(&mut self, pattern: &str, dtype: DType) -> Result<usize, Error> {
        let mut changed = 0;
        let refused = |tensor: &str, fault: String| Problem::Quantize {
            tensor: tensor.to_owned(),
            dtype,
            fault,
        };
        for (tensor, of) in self.model.tensors().zip(&mut self.types) {
            let fits = matches(pattern, tensor.name) && is_float(&tensor);
            if !fits || is_exempt(entry(&tensor)) || is_convolution(tensor.name) {
                continue;
            }
            if !dtype.has_encoder() || !tensor.row_len().is_multiple_of(dtype.block_len()) {
                let fault = format!(
                    "its rows have {} elements, expected a type with an encoder whose blocks divide them",
                    tensor.row_len()
                );
                return Err(self.model.metadata().error(refused(tensor.name, fault)));
            }
            *of = dtype;
            changed += 1;
        }
        match changed {
            0 => {
                let fault = "no matrix of F32, F16 or BF16 has this name".to_owned();
                Err(self.model.metadata().error(refused(pattern, fault)))
            }
            changed => Ok(changed),
        }
    }

    /// The tensors with their types in the file.
    pub fn tensors(&self) -> impl Iterator<Item = (Tensor<'a>, DType)> {
        self.model.tensors().zip(self.types.iter().copied())
    }

    /// Writes the file to `out`, which should be buffered, and returns it. `progress` is called
    /// with the bytes of the model's tensors that are done and all of them.
    ///
    /// # Errors
    /// If a tensor has values that its type cannot represent, such as NaN, or if `out` fails. Also
    /// if a file of the model has changed since it was opened.
    pub fn write<W: Write>(&self, out: W, progress: impl FnMut(u64, u64)) -> Result<W, Error> {
        let written = self.write_all(out, progress);
        // a write of bytes that a cut file no longer has fails with another error
        self.model.check_files().and(written)
    }

    fn write_all<W: Write>(&self, out: W, mut progress: impl FnMut(u64, u64)) -> Result<W, Error> {
        let rejected = |problem| self.model.metadata().error(problem);
        let mut writer = GgufWriter::new();
        self.set_keys(&mut writer).map_err(rejected)?;
        for (tensor, dtype) in self.tensors() {
            writer.declare(tensor.name, dtype, tensor.shape).map_err(rejected)?;
        }
        let mut body = writer.begin(out).map_err(rejected)?;
        let total = self.tensors().map(|(tensor, _)| tensor.bytes.len() as u64).sum();
        let mut done = 0;
        for (tensor, dtype) in self.tensors() {
            let importance = self.importance_of(&tensor)?;
            let order = self.order_of(&tensor)?;
            let rows = Rows { tensor, dtype, importance, order, threads: self.threads };
            rows.encode(|part, bytes| {
                body.write_part(part)?;
                done += bytes;
                progress(done, total);
                Ok(())
            })
            .map_err(rejected)?;
        }
        body.finish().map_err(rejected)
    }

    /// The model's keys but for those of a split, and the type of the file.
    fn set_keys(&self, writer: &mut GgufWriter) -> Result<(), Problem> {
        const REPLACED: [&str; 2] = ["general.file_type", "general.quantization_version"];
        for (key, value) in self.model.metadata().iter() {
            if !REPLACED.contains(&key) && !key.starts_with("split.") {
                let replaced = self.keys.iter().find(|(name, _)| name == key);
                writer.set(key, replaced.map_or(value, |(_, value)| value).clone())?;
            }
        }
        writer.set("general.file_type", self.file_type)?;
        writer.set("general.quantization_version", QUANTIZATION_VERSION)?;
        if let Some(importance) = self.importance {
            for key in ["quantize.imatrix.file", "quantize.imatrix.entries_count"] {
                if self.model.metadata().get(key).is_some() {
                    return Ok(());
                }
            }
            writer.set("quantize.imatrix.file", Value::from(importance.name()))?;
            writer.set("quantize.imatrix.entries_count", importance.len() as u32)?;
        }
        Ok(())
    }

    fn importance_of(&self, tensor: &Tensor<'_>) -> Result<Option<&'a [f32]>, Error> {
        let Some(importance) = self.importance else { return Ok(None) };
        importance.of(tensor).map_err(|problem| self.model.metadata().error(problem))
    }

    /// The order of a tensor's rows, if it is not that of the model.
    fn order_of(&self, tensor: &Tensor<'_>) -> Result<Option<HeadOrder>, Error> {
        let metadata = self.model.metadata();
        if self.model.source() != Source::HuggingFace {
            return Ok(None);
        }
        let heads = heads_of(metadata, tensor.name)?;
        let Some(heads) = heads else { return Ok(None) };
        let rows = if tensor.shape.len() < 2 { tensor.row_len() } else { tensor.rows() };
        let Some(order) = HeadOrder::new(rows, heads) else {
            let fault = format!("{rows} rows are no whole number of pairs in {heads} heads");
            let (tensor, dtype) = (tensor.name.to_owned(), tensor.dtype);
            return Err(metadata.error(Problem::Quantize { tensor, dtype, fault }));
        };
        Ok(Some(order))
    }
}

fn entry<'a>(tensor: &Tensor<'a>) -> Entry<'a> {
    Entry { name: tensor.name, shape: tensor.shape }
}

/// The type of a tensor that no mixture changes. GGUF files have the vectors of directories in F32.
fn kept(model: &Checkpoint, tensor: &Tensor<'_>) -> DType {
    let widened = model.source() == Source::HuggingFace && is_float(tensor);
    if widened && !is_convolution(tensor.name) { DType::F32 } else { tensor.dtype }
}

/// Whether a name has the form of a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, expected) in [
            ("blk.1.attn_v.weight", true),
            ("blk.1.attn_v", false),
            ("*", true),
            ("blk.*.attn_v.*", true),
            ("blk.*.attn_k.*", false),
            ("*.weight", true),
            ("*attn*", true),
            ("*.bias", false),
            ("blk.1.attn_v.weight*", true),
        ] {
            assert_eq!(matches(pattern, "blk.1.attn_v.weight"), expected, "{pattern}");
        }
    }
}
