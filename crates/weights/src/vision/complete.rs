//! The form of a tower's tensors that plans read.
//!
//! - A still repeats its one frame, so the matrices of two frames are summed (Qwen).
//! - Factors of a branch's result (`ls1`, `ls2`) multiply the rows of its last matrix.
//! - Gemma 3's projection is stored with its inputs as rows, and turned.
//! - Gemma 4's patches have the colours of a pixel side by side. Files have one colour after
//!   another, also in the norm before the matrix of patches ("unified").
//!
//! Changed tensors become F32, so that nothing is rounded again.

use std::collections::HashMap;

use bytes::Bytes;
use pelton_quant::DType;

use crate::gguf::TensorEntry;
use crate::{Checkpoint, Error, Problem, clip};

/// Colours of a pixel.
const COLOURS: usize = 3;
const PATCHES: &str = "v.patch_embd.weight";
const SECOND_FRAME: &str = "v.patch_embd.weight.1";
const GEMMA_PROJECTION: &str = "mm.input_projection.weight";

/// The factors of a branch, and the matrix whose rows they multiply.
const FACTORS: [(&str, &str); 2] = [("ls1", "attn_out"), ("ls2", "ffn_down")];

pub(super) fn completed(tower: Checkpoint) -> Result<Checkpoint, Error> {
    let projector = clip::projector(tower.metadata());
    let (is_turned, by_pixel) =
        (projector == Some("gemma3"), projector.is_some_and(|name| name.starts_with("gemma4")));
    tower.with_all(|tensors| {
        let mut all = Tensors::new(tensors);
        all.sum_frames()?;
        all.multiply_branches()?;
        if is_turned {
            all.turn(GEMMA_PROJECTION)?;
        }
        if by_pixel {
            all.colours_last()?;
        }
        Ok(all.tensors)
    })
}

struct Tensors {
    tensors: Vec<TensorEntry>,
}

impl Tensors {
    fn new(tensors: Vec<TensorEntry>) -> Self {
        Self { tensors }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.tensors.iter().position(|tensor| tensor.name == name)
    }

    fn sum_frames(&mut self) -> Result<(), Problem> {
        let Some(second) = self.find(SECOND_FRAME) else { return Ok(()) };
        let second = self.tensors.remove(second);
        let Some(first) = self.find(PATCHES) else {
            let expected = second.shape().to_vec();
            return Err(Problem::MissingTensor { tensor: PATCHES.to_owned(), expected });
        };
        let first = &mut self.tensors[first];
        if first.shape() != second.shape() {
            return Err(shape_fault(&second, first.shape().to_vec()));
        }
        let values = decoded(first).into_iter().zip(decoded(&second)).map(|(a, b)| a + b);
        let shape = first.shape().to_vec();
        *first = f32_tensor(&first.name, &shape, values)?;
        Ok(())
    }

    fn multiply_branches(&mut self) -> Result<(), Problem> {
        let mut factors = HashMap::new();
        self.tensors.retain(|tensor| {
            let of = FACTORS.iter().find_map(|(name, matrix)| {
                let layer = tensor.name.strip_suffix(".weight")?.strip_suffix(name)?;
                layer.starts_with("v.blk.").then(|| format!("{layer}{matrix}"))
            });
            let Some(matrix) = of else { return true };
            factors.insert(matrix, tensor.clone());
            false
        });
        for (matrix, factors) in factors {
            let name = format!("{matrix}.weight");
            let Some(weight) = self.find(&name) else {
                let expected = vec![1, factors.shape()[0]];
                return Err(Problem::MissingTensor { tensor: name, expected });
            };
            let values = decoded(&factors);
            for index in [Some(weight), self.find(&format!("{matrix}.bias"))].into_iter().flatten()
            {
                let tensor = &mut self.tensors[index];
                let shape = tensor.shape().to_vec();
                // a vector has one element a row
                let row = if index == weight { shape[0] } else { 1 };
                if shape.iter().product::<usize>() != row * values.len() {
                    let mut expected = shape;
                    if let Some(last) = expected.last_mut() {
                        *last = values.len();
                    }
                    return Err(shape_fault(tensor, expected));
                }
                let old = decoded(tensor);
                let rows = old.chunks_exact(row).zip(&values);
                let new = rows.flat_map(|(row, factor)| row.iter().map(move |x| x * factor));
                *tensor = f32_tensor(&tensor.name, &shape, new)?;
            }
        }
        Ok(())
    }

    /// Patches `[.., colours, rows, columns]`, which may be one dimension, with the colours last.
    fn colours_last(&mut self) -> Result<(), Problem> {
        for name in [PATCHES, "v.patch_norm.1.weight", "v.patch_norm.1.bias"] {
            let Some(index) = self.find(name) else { continue };
            let tensor = &mut self.tensors[index];
            let shape = match tensor.shape() {
                &[columns, rows, COLOURS, outputs] => vec![columns * rows * COLOURS, outputs],
                &[len] | &[len, _] if len.is_multiple_of(COLOURS) => tensor.shape().to_vec(),
                _ => continue,
            };
            let (old, plane) = (decoded(tensor), shape[0] / COLOURS);
            let new = old.chunks_exact((plane * COLOURS).max(1)).flat_map(|patch| {
                let pixel = move |at| (0..COLOURS).map(move |colour| patch[colour * plane + at]);
                (0..plane).flat_map(pixel)
            });
            *tensor = f32_tensor(name, &shape, new)?;
        }
        Ok(())
    }

    fn turn(&mut self, name: &str) -> Result<(), Problem> {
        let Some(index) = self.find(name) else { return Ok(()) };
        let tensor = &mut self.tensors[index];
        let &[columns, rows] = tensor.shape() else {
            return Err(shape_fault(tensor, vec![1, 1]));
        };
        let old = decoded(tensor);
        let new = (0..columns).flat_map(|column| {
            let old = &old;
            (0..rows).map(move |row| old[row * columns + column])
        });
        *tensor = f32_tensor(name, &[rows, columns], new)?;
        Ok(())
    }
}

fn decoded(tensor: &TensorEntry) -> Vec<f32> {
    let mut values = vec![0.0; tensor.shape().iter().product()];
    // the size was checked when the file was opened
    let decoded = pelton_quant::decode(tensor.dtype, &tensor.bytes, &mut values);
    debug_assert!(decoded.is_ok(), "{decoded:?}");
    values
}

fn f32_tensor(
    name: &str,
    shape: &[usize],
    values: impl Iterator<Item = f32>,
) -> Result<TensorEntry, Problem> {
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    TensorEntry::new(name.to_owned(), DType::F32, shape, Bytes::from(bytes)).ok_or_else(|| {
        Problem::TensorShape { tensor: name.to_owned(), found: shape.to_vec(), expected: vec![1] }
    })
}

fn shape_fault(tensor: &TensorEntry, expected: Vec<usize>) -> Problem {
    Problem::TensorShape { tensor: tensor.name.clone(), found: tensor.shape().to_vec(), expected }
}
