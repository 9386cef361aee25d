//! Encoding of a tensor's rows in parts, on several threads.

use std::thread;

use pelton_quant::{DType, decode, encode, encode_weighted};

use crate::interleaved::HeadOrder;
use crate::{Problem, Tensor};

/// Bytes of a tensor that are encoded between two writes.
const PART_BYTES: usize = 32 << 20;

/// The rows of a tensor in another type.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) tensor: Tensor<'a>,
    pub(super) dtype: DType,
    /// The importance of the columns `[columns]`, or of each matrix's `[columns, matrices]`.
    pub(super) importance: Option<&'a [f32]>,
    pub(super) order: Option<HeadOrder>,
    pub(super) threads: usize,
}

impl Rows<'_> {
    /// Elements of a row; a vector that is reordered has rows of one element.
    fn len(&self) -> usize {
        let vector = self.tensor.shape.len() < 2 && self.order.is_some();
        if vector { 1 } else { self.tensor.row_len() }
    }

    fn count(&self) -> usize {
        self.tensor.row_len() * self.tensor.rows() / self.len()
    }

    /// Encodes all rows and passes the parts in order to `write`, with the stored bytes that each
    /// was made of.
    pub(super) fn encode(
        &self,
        mut write: impl FnMut(&[u8], u64) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let stored = self.len() * self.tensor.dtype.block_bytes() / self.tensor.dtype.block_len();
        let rows = (PART_BYTES / stored).clamp(1, self.count());
        if self.dtype == self.tensor.dtype && self.order.is_none() {
            return self
                .tensor
                .bytes
                .chunks(rows * stored)
                .try_for_each(|part| write(part, part.len() as u64));
        }
        let encoded = self.len() / self.dtype.block_len() * self.dtype.block_bytes();
        let mut out = vec![0; rows * encoded];
        for first in (0..self.count()).step_by(rows) {
            let rows = rows.min(self.count() - first);
            let out = &mut out[..rows * encoded];
            self.encode_part(first, rows, out).map_err(|fault| Problem::Quantize {
                tensor: self.tensor.name.to_owned(),
                dtype: self.dtype,
                fault,
            })?;
            write(out, (rows * stored) as u64)?;
        }
        Ok(())
    }

    /// Encodes `rows` rows from `first` on; each thread takes neighbouring ones.
    fn encode_part(&self, first: usize, rows: usize, out: &mut [u8]) -> Result<(), String> {
        let of_thread = rows.div_ceil(self.threads.max(1));
        let chunk_bytes = out.len() / rows * of_thread;
        thread::scope(|scope| {
            let chunks = out.chunks_mut(chunk_bytes).enumerate();
            let workers: Vec<_> = chunks
                .map(|(i, out)| scope.spawn(move || self.encode_rows(first + i * of_thread, out)))
                .collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(result) => result,
                Err(_) => Err("a thread panicked".to_owned()),
            })
        })
    }

    /// Encodes the rows from `first` on that fill `out`.
    fn encode_rows(&self, first: usize, out: &mut [u8]) -> Result<(), String> {
        let (len, from) = (self.len(), self.tensor.dtype);
        let stored = len / from.block_len() * from.block_bytes();
        let encoded = len / self.dtype.block_len() * self.dtype.block_bytes();
        let (mut values, mut bytes) = (vec![0.0; len], Vec::with_capacity(encoded));
        for (row, out) in (first..).zip(out.chunks_exact_mut(encoded)) {
            let fault = |fault: String| format!("row {row}: {fault}");
            let source = self.order.map_or(row, |order| order.source(row));
            let range = source * stored..(source + 1) * stored;
            decode(from, &self.tensor.bytes[range], &mut values)
                .map_err(|e| fault(e.to_string()))?;
            bytes.clear();
            match self.importance_of(row) {
                None => encode(self.dtype, &values, &mut bytes),
                Some(importance) => encode_weighted(self.dtype, &values, importance, &mut bytes),
            }
            .map_err(|e| fault(e.to_string()))?;
            if self.dtype.block_len() == 1 {
                finite(&values, self.dtype).map_err(fault)?;
            }
            out.copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// The importance of a row's columns.
    fn importance_of(&self, row: usize) -> Option<&[f32]> {
        let (all, len) = (self.importance?, self.len());
        let matrices = all.len() / len;
        let matrix = if matrices > 1 { row / self.tensor.shape.get(1)? } else { 0 };
        all.get(matrix * len..(matrix + 1) * len)
    }
}

/// Refuses values that a float type cannot represent: the float encoders keep NaN and round to
/// infinity.
fn finite(values: &[f32], dtype: DType) -> Result<(), String> {
    // f16 rounds to infinity from here on
    let limit = if dtype == DType::F16 { 65_520.0 } else { f32::INFINITY };
    match values.iter().position(|v| v.is_nan() || v.abs() >= limit) {
        Some(column) => Err(format!(
            "column {column} is {}, expected a finite value within the range of {dtype}",
            values[column]
        )),
        None => Ok(()),
    }
}
