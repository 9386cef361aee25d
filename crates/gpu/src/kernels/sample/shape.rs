//! The launch shapes of the kernels, and their WGSL.

use minijinja::{Value, context};
use pelton_graph::{Error, RECENT};
use pelton_sampling::{FixedParams, PENALTY_WINDOW_MAX, fixed_point};

use super::{
    call::TOP_AT,
    params::{FEW, FIELDS, Kind},
};
use crate::{device::KernelSource, kernels::template};

/// Threads of a workgroup: one for each candidate of a draw among few tokens.
const THREADS: usize = 2 * FEW;
/// Threads of a workgroup of `maxima.wgsl`: few, so that several workgroups share a core of the
/// GPU.
pub(super) const CHUNK_THREADS: usize = 64;
/// Chunks of a large vocabulary, about: one workgroup searches their best tokens, and the logits of
/// the chunks that it selects. On an H200 half as many take 20 to 50 % longer.
const CHUNKS: usize = 4096;
/// Iterations of four logits that each thread of a counting or summing dispatch makes. The sums of
/// a workgroup have 32 bits, of which a token adds 20.
const ITERATIONS: usize = 2;

/// Launch shape of the kernels for one vocabulary.
#[derive(Clone, Copy, Debug)]
pub(super) struct VocabShape {
    /// Elements of a row of logits.
    pub(super) vocab: usize,
    /// Ids below this can be drawn.
    pub(super) tokens: usize,
    /// The most biases of a draw.
    pub(super) bias: usize,
    /// Vectors of four logits.
    pub(super) fours: usize,
    /// Vectors of a chunk.
    pub(super) each: usize,
    /// Workgroups of `maxima.wgsl`.
    pub(super) maxima_groups: usize,
    pub(super) chunks: usize,
}

impl VocabShape {
    pub(super) fn of(vocab: usize, tokens: usize, bias: usize) -> Self {
        let fours = vocab.div_ceil(4);
        let each = fours.div_ceil(CHUNKS).max(1);
        let maxima_groups = fours.div_ceil(each * CHUNK_THREADS);
        let chunks = maxima_groups * CHUNK_THREADS;
        Self { vocab, tokens: tokens.min(vocab), bias, fours, each, maxima_groups, chunks }
    }

    /// Workgroups of dispatches in which a thread reads [`ITERATIONS`] vectors.
    pub(super) fn iteration_groups(&self) -> usize {
        self.fours.div_ceil(THREADS * ITERATIONS)
    }

    /// Workgroups of dispatches in which a thread reads one vector.
    pub(super) fn many_groups(&self) -> usize {
        self.fours.div_ceil(THREADS)
    }

    /// Saved raw logits of a want.
    pub(super) fn saved(&self) -> usize {
        self.bias + PENALTY_WINDOW_MAX
    }

    /// The WGSL of a kernel; `more` are the values that only this kernel has.
    pub(super) fn source(&self, name: &str, more: Value) -> Result<KernelSource, Error> {
        let Self { vocab, tokens, bias, each, chunks, .. } = *self;
        let shape = context! {
            vocab, tokens, bias, each, chunks,
            raw => false,
            saved => self.saved(),
            threads => THREADS,
            chunk_threads => CHUNK_THREADS,
            few => FEW,
            iterations => ITERATIONS,
            recent => RECENT,
            window => PENALTY_WINDOW_MAX,
            fields => FIELDS,
            top_at => TOP_AT,
            kinds => context! {
                likeliest => Kind::Likeliest as u32,
                few => Kind::Few as u32,
                many => Kind::Many as u32,
            },
            fraction => fixed_point::FRACTION,
            log2 => fixed_point::LOG2,
            exp2 => fixed_point::EXP2,
            far => FixedParams::FAR,
            natural => context! {
                mantissa => FixedParams::NATURAL.mantissa,
                exponent => FixedParams::NATURAL.exponent,
            },
        };
        template::render(&format!("sample/{name}.wgsl"), context! { ..more, ..shape })
    }
}
