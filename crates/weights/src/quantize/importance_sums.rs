//! Collection of the importance of columns, and its GGUF file.

use std::collections::BTreeMap;
use std::io::Write;

use pelton_quant::DType;

use super::importance::{COUNTS, SUMS, fault};
use crate::{Array, GgufWriter, Problem, ValueType};

/// Sums of squares of the inputs of matrices, which a file of [`Importance`](super::Importance)
/// holds.
///
/// The form is that of llama.cpp's `llama-imatrix`, so that its `llama-quantize` reads the file
/// too.
#[derive(Clone, Debug, Default)]
pub struct ImportanceSums {
    of: BTreeMap<String, MatrixSums>,
}

/// The sums of a tensor's matrices.
#[derive(Clone, Debug)]
struct MatrixSums {
    /// `[matrices, columns]`.
    squares: Vec<f64>,
    /// The number of input vectors that were added for each matrix.
    counts: Vec<u64>,
}

impl ImportanceSums {
    /// Adds an input `[columns]` of one of a tensor's `matrices`. All inputs of a tensor have one
    /// length.
    pub fn add(&mut self, tensor: &str, matrices: usize, matrix: usize, input: &[f32]) {
        if !self.of.contains_key(tensor) {
            let squares = vec![0.0; matrices * input.len()];
            self.of.insert(tensor.to_owned(), MatrixSums { squares, counts: vec![0; matrices] });
        }
        let Some(sums) = self.of.get_mut(tensor) else { return };
        let squares = sums.squares.chunks_exact_mut(input.len()).nth(matrix);
        for (sum, &x) in squares.into_iter().flatten().zip(input) {
            *sum += f64::from(x) * f64::from(x);
        }
        sums.counts[matrix] += 1;
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether there has been no input.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The number of matrices that had no input, such as experts that no token chose, in tensors
    /// that had one.
    pub fn unused(&self) -> usize {
        self.of.values().flat_map(|sums| &sums.counts).filter(|&&count| count == 0).count()
    }

    /// Writes the file to `out`, which should be buffered, and returns it. `text` names the text
    /// that was read, in `windows` of `context` tokens.
    ///
    /// # Errors
    /// If a sum is not finite, a name of a tensor is too long, or `out` fails.
    pub fn write<W: Write>(
        &self,
        out: W,
        text: &str,
        windows: u32,
        context: u32,
    ) -> Result<W, Problem> {
        let mut writer = GgufWriter::new();
        writer.set("general.type", "imatrix")?;
        writer.set("imatrix.datasets", Array::new(ValueType::String, [text])?)?;
        writer.set("imatrix.chunk_count", windows)?;
        writer.set("imatrix.chunk_size", context)?;
        for (name, MatrixSums { squares, counts }) in &self.of {
            if let Some(sum) = squares.iter().find(|sum| !(**sum as f32).is_finite()) {
                return Err(fault(format!(
                    "a sum of squares of {sum} for {name:?}, expected finite ones"
                )));
            }
            let columns = squares.len() / counts.len().max(1);
            writer.declare(&format!("{name}{SUMS}"), DType::F32, &[columns, counts.len()])?;
            writer.declare(&format!("{name}{COUNTS}"), DType::F32, &[1, counts.len()])?;
        }
        let mut body = writer.begin(out)?;
        for MatrixSums { squares, counts } in self.of.values() {
            body.write(&bytes(squares.iter().map(|&sum| sum as f32)))?;
            body.write(&bytes(counts.iter().map(|&count| count as f32)))?;
        }
        body.finish()
    }
}

/// Values as a tensor of F32 stores them.
fn bytes(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}
