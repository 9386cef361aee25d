//! Copies of matrices in input-major order.

use bytemuck::bytes_of;
use memmap2::MmapMut;
use pelton_quant::{BlockQ8_0, DType};

use super::super::tile::BLOCK;
use super::layout::{self, InputMajor, Slab, byte_of, line, outputs_of_slab};
use crate::pool::{Pool, SharedMut};

/// Writes one block of the output `output` of a slab to the block's place.
fn write(slab: &Slab, output: usize, from: &BlockQ8_0, to: &mut [u8]) {
    let outputs = slab.outputs;
    let (scales, lines) = to.split_at_mut(2 * outputs);
    scales[2 * output..][..2].copy_from_slice(bytes_of(&from.d));
    let (uppers, lowers) = lines.split_at_mut(layout::lines(outputs));
    let (run, place) = (output / 64, byte_of(output % 64));
    let (chunk, shift) = (run / 2, 4 * (run % 2));
    for (input, &code) in from.qs.iter().enumerate() {
        let at = input * line(outputs) + chunk * 64 + place;
        // the upper half without a sign
        uppers[at] |= (code as u8 ^ 0x80) >> 4 << shift;
        lowers[at] |= (code as u8 & 15) << shift;
    }
}

impl InputMajor {
    /// Copies a matrix `[rows, cols]` of Q8_0 whose rows lie one after the other. `None` if its
    /// bytes are of another shape, or the system refuses the memory.
    pub fn new(rows: usize, cols: usize, from: &[u8], pool: &Pool) -> Option<Self> {
        let len = Self::bytes_of(rows, cols)?;
        let row_bytes = DType::Q8_0.bytes_of(cols)?;
        if row_bytes.checked_mul(rows) != Some(from.len()) {
            return None;
        }
        let bytes = MmapMut::map_anon(len).ok()?;
        // fewer misses of address translation; without them it is as correct
        #[cfg(target_os = "linux")]
        let _ = bytes.advise(memmap2::Advice::HugePage);
        let slab = outputs_of_slab(rows, pool.threads());
        let mut copy = Self { rows, cols, slab, bytes, norms: vec![0.0; cols] };
        let slabs: Vec<Slab> = (0..rows.div_ceil(slab)).map(|i| copy.slab(i)).collect();
        let (to, norms) = (SharedMut::new(&mut copy.bytes[..]), SharedMut::new(&mut copy.norms));
        let block_of = |row: usize, block: usize| -> BlockQ8_0 {
            let at = row * row_bytes + block * size_of::<BlockQ8_0>();
            bytemuck::pod_read_unaligned(&from[at..at + size_of::<BlockQ8_0>()])
        };
        pool.run(|worker| {
            for block in worker.split(cols / BLOCK, 1) {
                // SAFETY: one thread writes the norms of these inputs.
                let norms = unsafe { norms.slice_mut(block * BLOCK..(block + 1) * BLOCK) };
                let mut squares = [0.0_f64; BLOCK];
                for slab in &slabs {
                    let size = layout::block(slab.outputs);
                    let place = slab.start + block * size..slab.start + (block + 1) * size;
                    // SAFETY: one thread writes the blocks of these inputs.
                    let to = unsafe { to.slice_mut(place) };
                    for output in 0..slab.outputs.min(rows - slab.first) {
                        let from = block_of(slab.first + output, block);
                        write(slab, output, &from, to);
                        for (square, &code) in squares.iter_mut().zip(&from.qs) {
                            // as it is decoded
                            *square += f64::from(from.d.to_f32() * f32::from(code)).powi(2);
                        }
                    }
                }
                for (norm, square) in norms.iter_mut().zip(squares) {
                    *norm = square.sqrt() as f32;
                }
            }
        });
        Some(copy)
    }
}
