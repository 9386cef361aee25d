//! The loops over slabs, blocks and rows, and the choice of an instruction set.

use std::ops::Range;

use super::super::activations::ActivationKind;
use super::super::scratch;
use super::super::tile::BLOCK;
use super::coded::{BlockAt, RUN};
use super::layout::{OUTPUT_ALIGN, SLAB};
use super::lines::Lines;
use super::live::LiveBlock;
use super::sweeps::{Places, one_block};
use super::task::{Task, slabs, store};
#[cfg(target_arch = "x86_64")]
use crate::isa::InstructionSet;
use crate::isa::Isa;
use crate::simd::Portable8;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Ymm, Zmm};

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
    let Task { matrix, activations, live, lists: _, output } = task;
    if outputs.is_empty() || live.is_empty() {
        return;
    }
    assert!(outputs.end <= matrix.rows, "outputs beyond the matrix");
    assert!(outputs.start.is_multiple_of(OUTPUT_ALIGN), "outputs begin inside of a run");
    assert_eq!(activations.kind(), ActivationKind::I8, "activations of another kind");
    let most = live.iter().max().map_or(0, |&row| row as usize + 1);
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
            _ => run::<Portable8>(task, outputs),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2(task: &Task<'_>, outputs: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { run::<Ymm<false>>(task, outputs) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
unsafe fn avx_vnni(task: &Task<'_>, outputs: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { run::<Ymm<true>>(task, outputs) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512(task: &Task<'_>, outputs: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { run::<Zmm<false>>(task, outputs) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn avx512_vnni(task: &Task<'_>, outputs: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe { run::<Zmm<true>>(task, outputs) }
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn run<S: Lines>(task: &Task<'_>, outputs: Range<usize>) {
    let (lists, first) = task.lists;
    for (i, &row) in task.live.iter().enumerate() {
        let blocks = lists.blocks(first + i);
        // SAFETY: the caller's promise.
        unsafe {
            let block = |i: usize| &*blocks.add(i);
            one_row::<S>(task, row as usize, &block, outputs.clone());
        }
    }
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn one_row<'l, S: Lines>(
    task: &Task<'_>,
    row: usize,
    inputs: &impl Fn(usize) -> &'l LiveBlock,
    outputs: Range<usize>,
) {
    let blocks = task.matrix.cols / BLOCK;
    let mut memory = scratch::alloc(3 * SLAB * size_of::<f32>());
    let (sums, integers) = memory.split_at_mut(SLAB);
    for (slab, width, first, part) in slabs(task.matrix, outputs.clone()) {
        let sums = &mut sums[..part.len()];
        sums.fill(0.0);
        // SAFETY: the caller's promise; there are a sum and two integers for each output of the
        // part.
        unsafe {
            let place = |block: usize| Places::new(BlockAt::new(slab, width, block), inputs(block));
            let runs = part.start / RUN..part.end / RUN;
            let mut at = place(0);
            for block in 0..blocks {
                let next = (block + 1 < blocks).then(|| place(block + 1));
                let memory = [sums.as_mut_ptr(), integers.as_mut_ptr()];
                one_block::<S>(&at, inputs(block), runs.clone(), memory, next.as_ref());
                if let Some(next) = next {
                    at = next;
                }
            }
            store(&task.output, row, first + part.start, outputs.end, sums);
        }
    }
    scratch::free(memory);
}
