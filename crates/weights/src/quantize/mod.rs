//! Quantization of a checkpoint's matrices: in memory while it is loaded, or to a GGUF file.

mod choice;
mod conversion;
mod importance;
mod importance_sums;
mod mix;
mod rows;

pub use conversion::Conversion;
pub use importance::Importance;
pub use importance_sums::ImportanceSums;
pub use mix::Quantize;

use crate::{Checkpoint, Error};
use choice::{Entry, Facts};
use conversion::default_threads;
use rows::Rows;

impl Checkpoint {
    /// Quantizes the matrices of F32, F16 and BF16 into memory; all other tensors stay as they
    /// are. Norms, biases, routers, positions and convolutions are never quantized.
    ///
    /// Rows whose length is no multiple of a type's block get a type with smaller blocks, as in
    /// llama.cpp: for example Q5_0 for Q4_K, Q8_0 for Q6_K, and F16 where no smaller type fits.
    ///
    /// `progress` is called now and then with the bytes of the file's matrices that are quantized
    /// so far, and with the bytes of all that are to be quantized.
    ///
    /// # Errors
    /// If a tensor has values that its type cannot represent, such as NaN.
    pub fn quantized(
        self,
        to: Quantize,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Self, Error> {
        let facts = Facts::of(&self, false)?;
        let entries: Vec<_> =
            self.tensors().map(|tensor| Entry { name: tensor.name, shape: tensor.shape }).collect();
        let types = choice::types(to, &facts, &entries);
        let wanted: Vec<_> = self
            .tensors()
            .zip(types)
            .map(|(tensor, dtype)| {
                dtype.filter(|dtype| choice::is_float(&tensor) && *dtype != tensor.dtype)
            })
            .collect();
        let changed = self.tensors().zip(&wanted).filter(|(_, wanted)| wanted.is_some());
        let total = changed.map(|(tensor, _)| tensor.bytes.len() as u64).sum();
        let (mut done, mut wanted) = (0, wanted.into_iter());
        let threads = default_threads();
        self.with_tensors(|tensor| {
            let Some(dtype) = wanted.next().flatten() else { return Ok(None) };
            let bytes = dtype.bytes_of(tensor.row_len() * tensor.rows()).unwrap_or_default();
            let mut all = Vec::with_capacity(bytes);
            let rows = Rows { tensor: *tensor, dtype, importance: None, order: None, threads };
            rows.encode(|part, bytes| {
                all.extend_from_slice(part);
                done += bytes;
                progress(done, total);
                Ok(())
            })?;
            Ok(Some((dtype, all.into())))
        })
    }
}
