//! Copies of matrices in input-major order.

use std::ops::Range;

use bytemuck::{Pod, bytes_of};
use memmap2::MmapMut;
use pelton_quant::{
    BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5K, BlockQ6K, BlockQ8_0, DType, decode, scale_min_k4,
};

use super::layout::{Fields, InputMajor, Slab, byte_of};
use crate::pool::{Pool, SharedMut};

/// Inputs of floats that one task copies.
const FLOATS: usize = 32;

/// The fields and codes of one super-block of one output.
#[derive(Clone)]
struct Unpacked {
    /// Fields of two bytes of the super-block.
    head: [[u8; 2]; 2],
    /// The bytes of the fields of each block, as many as the format has.
    blocks: [[u8; 4]; 8],
    /// Codes without a sign, but for those of eight bits.
    codes: [u8; 256],
}

impl Unpacked {
    fn of(dtype: DType, bytes: &[u8]) -> Self {
        let mut all = Self { head: [[0; 2]; 2], blocks: [[0; 4]; 8], codes: [0; 256] };
        match dtype {
            DType::Q4_0 => {
                let block: BlockQ4_0 = read(bytes);
                all.blocks[0][..2].copy_from_slice(bytes_of(&block.d));
                for (to, code) in all.codes.iter_mut().zip(block.codes()) {
                    *to = (code + 8) as u8;
                }
            }
            DType::Q4_1 => {
                let block: BlockQ4_1 = read(bytes);
                all.blocks[0][..2].copy_from_slice(bytes_of(&block.d));
                all.blocks[0][2..].copy_from_slice(bytes_of(&block.m));
                all.codes[..32].copy_from_slice(&block.codes());
            }
            DType::Q8_0 => {
                let block: BlockQ8_0 = read(bytes);
                all.blocks[0][..2].copy_from_slice(bytes_of(&block.d));
                all.codes[..32].copy_from_slice(&block.qs.map(|code| code as u8));
            }
            DType::Q4_K => {
                let block: BlockQ4K = read(bytes);
                all.head_k4(bytes_of(&block.d), bytes_of(&block.dmin), &block.scales);
                all.codes = block.codes();
            }
            DType::Q5_K => {
                let block: BlockQ5K = read(bytes);
                all.head_k4(bytes_of(&block.d), bytes_of(&block.dmin), &block.scales);
                all.codes = block.codes();
            }
            DType::Q6_K => {
                let block: BlockQ6K = read(bytes);
                all.head[0].copy_from_slice(bytes_of(&block.d));
                for (fields, scales) in all.blocks.iter_mut().zip(block.scales.chunks_exact(2)) {
                    [fields[0], fields[1]] = [scales[0] as u8, scales[1] as u8];
                }
                for (to, code) in all.codes.iter_mut().zip(block.codes()) {
                    *to = (code + 32) as u8;
                }
            }
            // `Fields::of` names no other type of blocks
            _ => {}
        }
        all
    }

    fn head_k4(&mut self, d: &[u8], dmin: &[u8], scales: &[u8; 12]) {
        self.head[0].copy_from_slice(d);
        self.head[1].copy_from_slice(dmin);
        for (i, fields) in self.blocks.iter_mut().enumerate() {
            (fields[0], fields[1]) = scale_min_k4(scales, i);
        }
    }
}

fn read<T: Pod>(bytes: &[u8]) -> T {
    bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()])
}

/// Writes one super-block of the output `output` of a slab to the super-block's place.
fn write(fields: &Fields, slab: &Slab, output: usize, from: &Unpacked, to: &mut [u8]) {
    let outputs = slab.outputs;
    let (run, place) = (output / 64, byte_of(output % 64));
    for (field, bytes) in from.head.iter().enumerate().take(fields.super_head / 2) {
        to[2 * (field * outputs + output)..][..2].copy_from_slice(bytes);
    }
    let blocks = to[fields.super_head * outputs..].chunks_exact_mut(fields.block(outputs));
    for ((block, codes), head) in blocks.zip(from.codes.chunks_exact(32)).zip(&from.blocks) {
        let (fields_of, lines) = block.split_at_mut(fields.block_head * outputs);
        if fields.super_head > 0 {
            for (field, &byte) in head.iter().enumerate().take(fields.block_head) {
                fields_of[field * outputs + output] = byte;
            }
        } else {
            for (field, bytes) in head.chunks_exact(2).enumerate().take(fields.block_head / 2) {
                fields_of[2 * (field * outputs + output)..][..2].copy_from_slice(bytes);
            }
        }
        let (line, upper) = (fields.line(outputs), fields.upper(outputs));
        let (lines, uppers) = lines.split_at_mut(32 * line);
        for (input, &code) in codes.iter().enumerate() {
            if fields.line_bits == 8 {
                lines[input * line + run * 64 + place] = code;
                continue;
            }
            let (chunk, half) = (run / 2, run % 2);
            lines[input * line + chunk * 64 + place] |= (code & 15) << (4 * half);
            let high = code >> 4;
            match fields.upper_bits {
                1 => {
                    let at = input * upper + chunk * 16 + place % 16;
                    uppers[at] |= high << (2 * (place / 16) + half);
                }
                4 => uppers[input * upper + chunk * 64 + place] |= high << (4 * half),
                2 => {
                    let at = input * upper + chunk * 32 + place % 32;
                    uppers[at] |= high << (4 * (place / 32) + 2 * half);
                }
                _ => {}
            }
        }
    }
}

impl InputMajor {
    /// Copies a matrix `[rows, cols]` whose rows lie one after the other. `None` if its type has no
    /// lines, its bytes are of another shape, or the system refuses the memory.
    pub fn new(dtype: DType, rows: usize, cols: usize, from: &[u8], pool: &Pool) -> Option<Self> {
        Self::with_fields(Fields::of(dtype)?, dtype, (rows, cols), from, pool)
    }

    /// As [`new`](Self::new), of Q8_0 with the halves of its codes apart.
    pub fn nested(rows: usize, cols: usize, from: &[u8], pool: &Pool) -> Option<Self> {
        Self::with_fields(Fields::NESTED, DType::Q8_0, (rows, cols), from, pool)
    }

    fn with_fields(
        fields: Fields,
        dtype: DType,
        (rows, cols): (usize, usize),
        from: &[u8],
        pool: &Pool,
    ) -> Option<Self> {
        let len = Self::bytes_of(dtype, rows, cols)?;
        let row_bytes = dtype.bytes_of(cols)?;
        if row_bytes.checked_mul(rows) != Some(from.len()) {
            return None;
        }
        let bytes = MmapMut::map_anon(len).ok()?;
        // fewer misses of address translation; without them it is as correct
        #[cfg(target_os = "linux")]
        let _ = bytes.advise(memmap2::Advice::HugePage);
        let slab = fields.slab(rows, pool.threads());
        let mut copy = Self { dtype, fields, rows, cols, slab, bytes, norms: vec![0.0; cols] };
        let slabs: Vec<Slab> = (0..rows.div_ceil(slab)).map(|i| copy.slab(i)).collect();
        let (to, norms) = (SharedMut::new(&mut copy.bytes[..]), SharedMut::new(&mut copy.norms));
        let inputs = if fields.inputs == 1 { FLOATS } else { fields.inputs };
        pool.run(|worker| {
            for unit in worker.split(cols.div_ceil(inputs), 1) {
                let inputs = unit * inputs..cols.min((unit + 1) * inputs);
                // SAFETY: one thread writes the norms of these inputs.
                let norms = unsafe { norms.slice_mut(inputs.clone()) };
                let mut squares = vec![0.0; inputs.len()];
                for slab in &slabs {
                    let size = fields.super_block(slab.outputs);
                    let blocks = inputs.start / fields.inputs..inputs.end / fields.inputs;
                    let place = slab.start + blocks.start * size..slab.start + blocks.end * size;
                    // SAFETY: one thread writes the super-blocks of these inputs.
                    let to = unsafe { to.slice_mut(place) };
                    copy_blocks(dtype, &fields, slab, rows, (from, row_bytes), &inputs, to);
                    add_squares(dtype, slab, rows, (from, row_bytes), &inputs, &mut squares);
                }
                for (norm, square) in norms.iter_mut().zip(squares) {
                    *norm = f64::sqrt(square) as f32;
                }
            }
        });
        Some(copy)
    }
}

/// The bytes of some inputs of a row.
fn part<'a>(
    dtype: DType,
    (from, row_bytes): (&'a [u8], usize),
    row: usize,
    inputs: &Range<usize>,
) -> &'a [u8] {
    let byte = |input: usize| input / dtype.block_len() * dtype.block_bytes();
    &from[row * row_bytes..][byte(inputs.start)..byte(inputs.end)]
}

/// Copies some inputs, one super-block or several floats, of all outputs of a slab.
fn copy_blocks(
    dtype: DType,
    fields: &Fields,
    slab: &Slab,
    rows: usize,
    from: (&[u8], usize),
    inputs: &Range<usize>,
    to: &mut [u8],
) {
    for output in 0..slab.outputs.min(rows - slab.first) {
        let bytes = part(dtype, from, slab.first + output, inputs);
        if fields.inputs > 1 {
            let mut unpacked = Unpacked::of(dtype, bytes);
            if *fields == Fields::NESTED {
                // the upper half, without a sign, comes first
                unpacked.codes = unpacked.codes.map(|code| (code ^ 0x80).rotate_left(4));
            }
            write(fields, slab, output, &unpacked, to);
            continue;
        }
        let size = dtype.block_bytes();
        for (input, element) in bytes.chunks_exact(size).enumerate() {
            let at = (input * slab.outputs + output) * size;
            to[at..at + size].copy_from_slice(element);
        }
    }
}

/// Adds the squares of some inputs of all outputs of a slab, in the order of the outputs.
fn add_squares(
    dtype: DType,
    slab: &Slab,
    rows: usize,
    from: (&[u8], usize),
    inputs: &Range<usize>,
    squares: &mut [f64],
) {
    let mut values = [0.0; 256];
    for output in 0..slab.outputs.min(rows - slab.first) {
        let values = &mut values[..inputs.len()];
        // the shapes have been checked
        if decode(dtype, part(dtype, from, slab.first + output, inputs), values).is_ok() {
            for (square, &value) in squares.iter_mut().zip(&*values) {
                *square += f64::from(value) * f64::from(value);
            }
        }
    }
}
