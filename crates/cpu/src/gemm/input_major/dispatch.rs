//! The loops over slabs, blocks and rows, and the choice of an instruction set.

use std::ops::Range;

use pelton_graph::Phase;
use pelton_quant::DType;

use super::super::activations::{ActivationKind, Block};
use super::super::formats::{Q4_0, Q4_1, Q4K, Q5K, Q6K, Q8_0};
use super::super::scratch;
use super::super::tile::{BLOCK, Tile};
use super::coded::{BlockAt, Coded, NestedQ8_0, RUN};
use super::columns::{self, BF16, Column, F16, F32, PARTIAL};
use super::inputs::{All, BlockInputs};
use super::layout::{OUTPUT_ALIGN, SLAB};
use super::lines::Lines;
use super::live::{CHUNK, LiveBlock, LiveColumn};
use super::sweeps::{Places, one_block};
use super::task::{Task, slabs, store};
use super::tiles::{self, ROWS};
#[cfg(target_arch = "x86_64")]
use crate::isa::InstructionSet;
use crate::isa::Isa;
use crate::simd::Portable8;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Ymm, Zmm};

/// Rows of effort 1 that are multiplied with a run of outputs before the next run.
const STRIP: usize = 128;

/// Computes the outputs `outputs` of a product.
///
/// # Safety
/// During the call no other thread writes the activations or the live inputs of these rows, nor
/// accesses the results of `outputs`; both have been prepared.
///
/// # Panics
/// If the activations are of the wrong kind or have no room for a row, `outputs` reaches beyond the
/// matrix, or begins at no multiple of [`OUTPUT_ALIGN`].
pub unsafe fn multiply(isa: Isa, task: &Task<'_>, outputs: Range<usize>) {
    let Task { matrix, activations, dense, live, lists: _, output } = task;
    if outputs.is_empty() || dense.is_empty() && live.is_empty() {
        return;
    }
    assert!(outputs.end <= matrix.rows, "outputs beyond the matrix");
    assert!(outputs.start.is_multiple_of(OUTPUT_ALIGN), "outputs begin inside of a run");
    assert_eq!(activations.kind(), ActivationKind::of(matrix.dtype), "activations of another kind");
    let most = dense.iter().chain(*live).max().map_or(0, |&row| row as usize + 1);
    assert!(activations.has_room(most, matrix.cols), "more than the activations have room for");
    assert!(output.stride >= matrix.rows, "results of different rows overlap");
    assert!(output.bias.is_none_or(|bias| bias.len() == matrix.rows), "bias of another length");
    // SAFETY: the instructions exist; the promises are checked above or the caller's.
    unsafe {
        match isa.set() {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => avx2(task, outputs),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::AvxVnni => avx_vnni(task, outputs),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => avx512(task, outputs),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512Vnni => avx512_vnni(task, outputs),
            // `Portable`, and the sets of other architectures
            _ => run::<Portable8, 1>(task, outputs),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2(task: &Task<'_>, outputs: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { run::<Ymm<false>, 1>(task, outputs) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
unsafe fn avx_vnni(task: &Task<'_>, outputs: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { run::<Ymm<true>, 1>(task, outputs) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512(task: &Task<'_>, outputs: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { run::<Zmm<false>, 2>(task, outputs) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn avx512_vnni(task: &Task<'_>, outputs: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { run::<Zmm<true>, 2>(task, outputs) }
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn run<S: Lines, const NR: usize>(task: &Task<'_>, outputs: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe {
        match task.matrix.dtype {
            _ if task.matrix.is_nested() => coded::<S, NestedQ8_0, NR>(task, outputs),
            DType::Q4_0 => coded::<S, Q4_0, NR>(task, outputs),
            DType::Q4_1 => coded::<S, Q4_1, NR>(task, outputs),
            DType::Q8_0 => coded::<S, Q8_0, NR>(task, outputs),
            DType::Q4_K => coded::<S, Q4K, NR>(task, outputs),
            DType::Q5_K => coded::<S, Q5K, NR>(task, outputs),
            DType::Q6_K => coded::<S, Q6K, NR>(task, outputs),
            DType::F16 => floats_of_phase::<S, F16>(task, outputs),
            DType::BF16 => floats_of_phase::<S, BF16>(task, outputs),
            DType::F32 => floats_of_phase::<S, F32>(task, outputs),
            // `InputMajor::new` makes no other
            _ => {}
        }
    }
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn coded<S: Lines, K: Coded, const NR: usize>(task: &Task<'_>, outputs: Range<usize>) {
    const { assert!(tiles::is_known::<<K as Coded>::Coding>()) };
    let Task { activations, dense, live, lists, .. } = task;
    // SAFETY: the caller's promise.
    unsafe {
        if let [row] = dense {
            let block =
                |i: usize| All(&*activations.blocks().add(activations.place(*row as usize, i)));
            one_row::<S, K, All<'_>>(task, *row as usize, &block, outputs.clone());
        } else if !dense.is_empty() {
            many_rows::<S, K, NR>(task, outputs.clone());
        }
        let Some((lists, first)) = lists else { return };
        for (i, &row) in live.iter().enumerate() {
            let blocks = lists.blocks(first + i);
            let block = |i: usize| &*blocks.add(i);
            one_row::<S, K, &LiveBlock>(task, row as usize, &block, outputs.clone());
        }
    }
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn one_row<S: Lines, K: Coded, I: BlockInputs>(
    task: &Task<'_>,
    row: usize,
    inputs: &impl Fn(usize) -> I,
    outputs: Range<usize>,
) {
    let blocks = task.matrix.cols / BLOCK;
    let mut memory = scratch::alloc(3 * SLAB * size_of::<f32>());
    let (sums, integers) = memory.split_at_mut(SLAB);
    for (slab, width, first, part) in slabs(task.matrix, outputs.clone()) {
        let sums = &mut sums[..part.len()];
        sums.fill(0.0);
        // SAFETY: the caller's promise; there are a sum and two integers for each output of the part.
        unsafe {
            let place = |block: usize| {
                Places::new::<K>(BlockAt::new::<K>(slab, width, block), inputs(block))
            };
            let runs = part.start / RUN..part.end / RUN;
            let mut at = place(0);
            for block in 0..blocks {
                let next = (block + 1 < blocks).then(|| place(block + 1));
                let memory = [sums.as_mut_ptr(), integers.as_mut_ptr()];
                one_block::<S, K>(&at, inputs(block), runs.clone(), memory, next.as_ref());
                if let Some(next) = next {
                    at = next;
                }
            }
            store(&task.output, row, first + part.start, outputs.end, sums);
        }
    }
    scratch::free(memory);
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn many_rows<S: Lines, K: Coded, const NR: usize>(task: &Task<'_>, outputs: Range<usize>) {
    let Task { matrix, activations, dense, output, .. } = task;
    let blocks = matrix.cols / BLOCK;
    let tiles = RUN / S::LANES * size_of::<Tile<S>>();
    let mut memory = scratch::alloc(tiles + STRIP * RUN * size_of::<f32>());
    let (to, sums) = memory.split_at_mut(tiles / size_of::<f32>());
    let to = to.as_mut_ptr().cast::<Tile<S>>();
    for (slab, width, first, part) in slabs(matrix, outputs.clone()) {
        for run in part.start / RUN..part.end / RUN {
            for strip in dense.chunks(STRIP) {
                let sums = &mut sums[..strip.len().next_multiple_of(ROWS) * RUN];
                sums.fill(0.0);
                for block in 0..blocks {
                    // SAFETY: the caller's promise; there is room for the tiles of a run, aligned,
                    // and a sum for each output of each row, those that repeat the last included.
                    unsafe {
                        tiles::unpack::<S, K>(&BlockAt::new::<K>(slab, width, block), run, to);
                        for (rows, sums) in strip.chunks(ROWS).zip(sums.chunks_mut(ROWS * RUN)) {
                            let mut x: [*const Block; ROWS] = [std::ptr::null(); ROWS];
                            for (r, x) in x.iter_mut().enumerate() {
                                let row = rows[r.min(rows.len() - 1)] as usize;
                                *x = activations.blocks().add(activations.place(row, block));
                            }
                            tiles::add::<S, K, NR>(to, x, sums.as_mut_ptr());
                        }
                    }
                }
                let mut ordered = [0.0; RUN];
                for (rows, sums) in strip.chunks(ROWS).zip(sums.chunks(ROWS * RUN)) {
                    for (r, &row) in rows.iter().enumerate() {
                        // the sums of each panel of tiles are `[NR, ROWS, LANES]`
                        for (tile, lanes) in ordered.chunks_mut(S::LANES).enumerate() {
                            lanes
                                .copy_from_slice(&sums[(tile * ROWS + r) * S::LANES..][..S::LANES]);
                        }
                        let first = first + run * RUN;
                        // SAFETY: the caller's promise.
                        unsafe { store(output, row as usize, first, outputs.end, &ordered) };
                    }
                }
            }
        }
    }
    scratch::free(memory);
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn floats_of_phase<S: Lines, E: Column>(task: &Task<'_>, outputs: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe {
        match task.activations.phase() {
            Phase::Prompt | Phase::Mixed { .. } | Phase::Encode => floats::<S, E>(task, outputs),
            Phase::Decode => floats_of_decoding::<S, E>(task, outputs),
        }
    }
}

/// The sums of rows of decoding: run by run of the outputs, and row by row.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn floats_of_decoding<S: Lines, E: Column>(task: &Task<'_>, outputs: Range<usize>) {
    let Task { matrix, dense, live, lists, .. } = task;
    let mut all = [LiveColumn { input: 0, x: 0.0 }; CHUNK];
    let mut memory = scratch::alloc(PARTIAL * RUN * size_of::<f32>());
    for (slab, width, first, part) in slabs(matrix, outputs.clone()) {
        let stride = width * E::BYTES;
        for (run, i) in part
            .clone()
            .step_by(RUN)
            .flat_map(|run| (0..dense.len() + live.len()).map(move |i| (run, i)))
        {
            let partial = &mut memory[..PARTIAL * RUN];
            partial.fill(0.0);
            let row = if i < dense.len() { dense[i] } else { live[i - dense.len()] } as usize;
            for chunk in 0..matrix.cols.div_ceil(CHUNK) {
                // SAFETY: the caller's promise; activations are padded to a multiple of 32 inputs.
                unsafe {
                    let columns = match lists {
                        Some((lists, of)) if i >= dense.len() => {
                            lists.columns(of + i - dense.len(), chunk)
                        }
                        _ => {
                            let inputs = chunk * CHUNK..matrix.cols.min((chunk + 1) * CHUNK);
                            let x = row_of(task, row, inputs.start);
                            for (i, to) in all[..inputs.len()].iter_mut().enumerate() {
                                let input = (inputs.start + i) as u32;
                                *to = LiveColumn { input, x: *x.add(i) };
                            }
                            &all[..inputs.len()]
                        }
                    };
                    let from = slab.add(run * E::BYTES);
                    columns::add_to_lanes::<S, E>(from, stride, columns, partial.as_mut_ptr());
                }
            }
            // SAFETY: the caller's promise; there are as many partial sums.
            unsafe {
                columns::sum_lanes::<S>(partial.as_mut_ptr());
                store(&task.output, row, first + run, outputs.end, &partial[..RUN]);
            }
        }
    }
    scratch::free(memory);
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn floats<S: Lines, E: Column>(task: &Task<'_>, outputs: Range<usize>) {
    let Task { matrix, dense, live, lists, .. } = task;
    let chunks = matrix.cols.div_ceil(CHUNK);
    let mut all = [LiveColumn { input: 0, x: 0.0 }; CHUNK];
    // SAFETY: the caller's promise; activations are padded to a multiple of 32 inputs.
    unsafe {
        if let [row] = dense {
            // as many lines as there are: those of a list of all inputs
            for (slab, width, first, part) in slabs(matrix, outputs.clone()) {
                let mut totals = scratch::alloc(SLAB * size_of::<f32>());
                totals[..part.len()].fill(0.0);
                for chunk in 0..chunks {
                    let inputs = chunk * CHUNK..matrix.cols.min((chunk + 1) * CHUNK);
                    let x = row_of(task, *row as usize, inputs.start);
                    for (i, to) in all[..inputs.len()].iter_mut().enumerate() {
                        *to = LiveColumn { input: (inputs.start + i) as u32, x: *x.add(i) };
                    }
                    let from = slab.add(part.start * E::BYTES);
                    let stride = width * E::BYTES;
                    let live = &all[..inputs.len()];
                    columns::one_chunk::<S, E>(from, stride, part.len(), live, totals.as_mut_ptr());
                }
                let totals_of = &totals[..part.len()];
                store(&task.output, *row as usize, first + part.start, outputs.end, totals_of);
                scratch::free(totals);
            }
        } else if !dense.is_empty() {
            many_columns::<S, E>(task, outputs.clone());
        }
        let Some((lists, first_list)) = lists else { return };
        for (slab, width, first, part) in slabs(matrix, outputs.clone()) {
            for (i, &row) in live.iter().enumerate() {
                let mut totals = scratch::alloc(SLAB * size_of::<f32>());
                totals[..part.len()].fill(0.0);
                for chunk in 0..chunks {
                    let live = lists.columns(first_list + i, chunk);
                    let from = slab.add(part.start * E::BYTES);
                    let stride = width * E::BYTES;
                    columns::one_chunk::<S, E>(from, stride, part.len(), live, totals.as_mut_ptr());
                }
                let totals_of = &totals[..part.len()];
                store(&task.output, row as usize, first + part.start, outputs.end, totals_of);
                scratch::free(totals);
            }
        }
    }
}

/// The activations of a row from input `input` on, the first of a chunk.
///
/// # Safety
/// There are such activations.
unsafe fn row_of(task: &Task<'_>, row: usize, input: usize) -> *const f32 {
    let place = task.activations.place(row, input / BLOCK);
    // SAFETY: the caller's promise.
    unsafe { task.activations.floats().add(place * BLOCK) }
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn many_columns<S: Lines, E: Column>(task: &Task<'_>, outputs: Range<usize>) {
    let Task { matrix, dense, output, .. } = task;
    let mut totals = scratch::alloc(STRIP * RUN * size_of::<f32>());
    for (slab, width, first, part) in slabs(matrix, outputs.clone()) {
        for run in part.step_by(RUN) {
            for strip in dense.chunks(STRIP) {
                let totals = &mut totals[..strip.len().next_multiple_of(ROWS) * RUN];
                totals.fill(0.0);
                for input in (0..matrix.cols).step_by(CHUNK) {
                    for (rows, totals) in strip.chunks(ROWS).zip(totals.chunks_mut(ROWS * RUN)) {
                        let stride = width * E::BYTES;
                        // SAFETY: the caller's promise; there is a total for each output of each
                        // row, those that repeat the last included.
                        unsafe {
                            let from = slab.add(input * stride + run * E::BYTES);
                            let row = |r: usize| rows[r.min(rows.len() - 1)] as usize;
                            let x = [0, 1, 2, 3].map(|r| row_of(task, row(r), input));
                            let (inputs, to) = (matrix.cols - input, totals.as_mut_ptr());
                            columns::many_chunk::<S, E>(from, stride, RUN, inputs, x, to, RUN);
                        }
                    }
                }
                for (i, &row) in strip.iter().enumerate() {
                    let totals = &totals[i * RUN..][..RUN];
                    // SAFETY: the caller's promise.
                    unsafe { store(output, row as usize, first + run, outputs.end, totals) };
                }
            }
        }
    }
    scratch::free(totals);
}
