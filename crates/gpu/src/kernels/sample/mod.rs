//! Sampling on the GPU: the tokens that `pelton_sampling::Sampler` draws, bit for bit.
//!
//! A pass draws for any number of wants at once; a dispatch has one want along y. The steps are:
//!
//! 1. log-probabilities of the raw logits, if a want has them (`log_sum.wgsl`, `top.wgsl`);
//! 2. biases and penalties, in place (`adjust.wgsl`);
//! 3. the likeliest token of each chunk of the vocabulary (`maxima.wgsl`), without masked tokens;
//! 4. the draw: the likeliest token (`argmax.wgsl`), or a draw among few tokens by one workgroup a
//!    want (`few.wgsl`). A draw among many is a radix search for the cuts of top-k and top-p, one
//!    digit a dispatch (`count.wgsl`), and a draw by many workgroups (`many.wgsl`).
//!
//! The end of each draw makes the token the input of the row's next pass (`record.wgsl`), so repeats
//! need nothing from the host. Workgroups of wants of another kind exit at once.

mod call;
mod params;
mod results;
mod steps;

use std::sync::Arc;

use minijinja::{Value, context};
use pelton_graph::{Error, Pass, RECENT};
use pelton_sampling::{FixedParams, PENALTY_WINDOW_MAX, Sampled, fixed_point};

pub(crate) use self::call::SampleCall;
use self::{
    params::{FEW, FIELDS, Kind, Params},
    steps::{Memory, Steps},
};
use crate::{
    device::{Device, Kernel, KernelSource, Mirror},
    kernels::template,
};

/// Threads of a workgroup: one for each candidate of a draw among few tokens.
const THREADS: usize = 2 * FEW;
/// Threads of a workgroup of `maxima.wgsl`: few, so that several workgroups share a core of the
/// GPU.
const CHUNK_THREADS: usize = 64;
/// Chunks of a large vocabulary, about: one workgroup searches their best tokens, and the logits of
/// the chunks that it selects. On an H200 half as many take 20 to 50 % longer.
const CHUNKS: usize = 4096;
/// Iterations of four logits that each thread of a counting or summing dispatch makes. The sums of
/// a workgroup have 32 bits, of which a token adds 20.
const ITERATIONS: usize = 2;
/// Bytes of the struct `Search`.
const SEARCH_BYTES: usize = 64;
/// Bytes of the three histograms of a want.
const BINS_BYTES: usize = 3 * 2 * 2048 * 4;
/// Bytes of a pair of a key and a token, and of a 64-bit sum.
const PAIR_BYTES: usize = 8;
/// Bytes of a want's state.
const STATE_BYTES: usize = 8;

/// A kernel, its buffers, and the workgroups of one want.
#[derive(Debug)]
struct Step {
    kernel: Arc<Kernel>,
    bindings: wgpu::BindGroup,
    groups: u32,
}

impl Step {
    fn record(&self, pass: &mut wgpu::ComputePass<'_>, call: &SampleCall) {
        self.kernel.record(pass, &self.bindings, [self.groups, call.wants as u32, 1]);
    }
}

/// The buffers that sampling shares with the rest of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleBuffers<'a> {
    /// Logits `[wants, vocab]`, f32: one row for each distinct row of the wants, in their order.
    /// Biases and penalties change them in place.
    pub(crate) logits: &'a wgpu::Buffer,
    /// The ring of sampled tokens `[slots, RECENT]`, u32: the token at position `p` of a slot is at
    /// `p % RECENT`.
    pub(crate) recent: &'a wgpu::Buffer,
    /// The rows `[rows, 4]` of the pass, u32: token (`u32::MAX` for the sampled one), position,
    /// slot, 0. A draw advances its row to the next position.
    pub(crate) rows: &'a wgpu::Buffer,
}

/// Launch shape of the kernels for one vocabulary.
#[derive(Clone, Copy, Debug)]
struct VocabShape {
    /// Elements of a row of logits.
    vocab: usize,
    /// Ids below this can be drawn.
    tokens: usize,
    /// The most biases of a draw.
    bias: usize,
    /// Vectors of four logits.
    fours: usize,
    /// Vectors of a chunk.
    each: usize,
    /// Workgroups of `maxima.wgsl`.
    maxima_groups: usize,
    chunks: usize,
}

impl VocabShape {
    fn of(vocab: usize, tokens: usize, bias: usize) -> Self {
        let fours = vocab.div_ceil(4);
        let each = fours.div_ceil(CHUNKS).max(1);
        let maxima_groups = fours.div_ceil(each * CHUNK_THREADS);
        let chunks = maxima_groups * CHUNK_THREADS;
        Self { vocab, tokens: tokens.min(vocab), bias, fours, each, maxima_groups, chunks }
    }

    /// Workgroups of dispatches in which a thread reads [`ITERATIONS`] vectors.
    fn iteration_groups(&self) -> usize {
        self.fours.div_ceil(THREADS * ITERATIONS)
    }

    /// Workgroups of dispatches in which a thread reads one vector.
    fn many_groups(&self) -> usize {
        self.fours.div_ceil(THREADS)
    }

    /// Saved raw logits of a want.
    fn saved(&self) -> usize {
        self.bias + PENALTY_WINDOW_MAX
    }

    /// The WGSL of a kernel; `more` are the values that only this kernel has.
    fn source(&self, name: &str, more: Value) -> Result<KernelSource, Error> {
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
            top_at => call::TOP_AT,
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

/// The sources of all kernels for several shapes, for the test that they translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    let groups = context! { groups => 7 };
    let kernels = [
        ("adjust", Value::default()),
        ("argmax", context! { begin => false, count => 77, kind => "LIKELIEST" }),
        ("argmax", context! { begin => true, count => 77, kind => "MANY" }),
        ("count", groups.clone()),
        ("drawn", Value::default()),
        ("few", Value::default()),
        ("log_sum", groups.clone()),
        ("many", groups.clone()),
        ("maxima", Value::default()),
        ("maxima", context! { raw => true }),
        ("top", context! { raw => true, ..groups }),
    ];
    let of = |(vocab, tokens)| {
        let all = kernels.iter();
        all.map(move |(name, more)| {
            let label = format!("{name} of {vocab}, {more}");
            (label, VocabShape::of(vocab, tokens, 9).source(name, more.clone()).unwrap())
        })
    };
    [(33, 33), (1000, 998), (151_936, 151_669)].into_iter().flat_map(of).collect()
}

/// Pipelines and buffers for sampling from one vocabulary.
#[derive(Debug)]
pub(crate) struct Sample {
    host: Params,
    params: wgpu::Buffer,
    state: wgpu::Buffer,
    /// The state after the passes that were prepared.
    state_then: Mirror,
    results: wgpu::Buffer,
    tokens: usize,
    /// The maxima of raw logits.
    raw_maxima: Step,
    log_sum: Step,
    top: Step,
    adjust: Step,
    maxima: Step,
    /// The best of the chunks' best tokens.
    likeliest: Step,
    few: Step,
    /// Starts a search with the best of the chunks' best tokens.
    begin: Step,
    /// A stage of a search that reads the first, or the second, of two states.
    count: [Step; 2],
    many: [Step; 2],
    /// The best of the workgroups' draws.
    last: Step,
    /// The raw logit of the drawn token.
    drawn: Step,
}

impl Sample {
    /// Compiles the kernels and allocates the memory for passes of up to `wants` sampled wants, each
    /// with up to `bias` biases, over logits of `vocab` elements a row. Ids from `tokens` on are
    /// never drawn.
    pub(crate) fn new(
        device: &Device,
        vocab: usize,
        tokens: usize,
        wants: usize,
        bias: usize,
        buffers: SampleBuffers<'_>,
    ) -> Result<Self, Error> {
        let shape = VocabShape::of(vocab, tokens, bias);
        let memory = Memory::new(device, &shape, wants)?;
        let words = params::most_words(vocab, wants, bias);
        let params = device.buffer("sampling parameters", 4 * words as u64)?;
        let results = device.buffer("sampled tokens", results::most_bytes(wants))?;
        let mut steps = Steps::new(device, shape, &memory, buffers, [&params, &results]);

        let VocabShape { maxima_groups, chunks, .. } = shape;
        let (many_groups, iteration_groups) = (shape.many_groups(), shape.iteration_groups());
        let none = Value::default;
        let iterations = || context! { groups => iteration_groups };
        let of_many = || context! { groups => many_groups };
        let argmax = |begin, count, kind| context! { begin, count, kind };
        let likeliest = argmax(false, chunks, "LIKELIEST");
        let begin = argmax(true, chunks, "MANY");
        let last = argmax(false, many_groups, "MANY");
        let [first, second] = &memory.searches;
        let mut count = |from, to| {
            let own = [("before", from), ("after", to)];
            steps.step("count", iterations(), iteration_groups, &own)
        };
        let count = [count(first, second)?, count(second, first)?];
        let mut many = |from| steps.step("many", of_many(), many_groups, &[("before", from)]);
        let many = [many(first)?, many(second)?];
        let (best, draws) = (("pairs", &memory.best), ("pairs", &memory.draws));
        let sample = Self {
            raw_maxima: steps.step("maxima", context! { raw => true }, maxima_groups, &[])?,
            log_sum: steps.step("log_sum", iterations(), iteration_groups, &[])?,
            top: steps.step("top", context! { raw => true, ..iterations() }, 1, &[])?,
            adjust: steps.step("adjust", none(), 1, &[])?,
            maxima: steps.step("maxima", none(), maxima_groups, &[])?,
            likeliest: steps.step("argmax", likeliest, 1, &[best])?,
            few: steps.step("few", none(), 1, &[])?,
            begin: steps.step("argmax", begin, 1, &[best, ("searches", first)])?,
            count,
            many,
            last: steps.step("argmax", last, 1, &[draws])?,
            drawn: steps.step("drawn", none(), 1, &[])?,
            host: Params { words: Vec::with_capacity(words), state: Vec::with_capacity(2 * wants) },
            tokens: shape.tokens,
            params: params.clone(),
            state: memory.state.clone(),
            state_then: Mirror::default(),
            results: results.clone(),
        };
        steps.compile()?;
        Ok(sample)
    }

    /// Writes the parameters of a pass that has been checked, after the submission of the pass
    /// before it. Returns the dispatches that it needs; they are recorded for each of its repeats.
    pub(crate) fn prepare(&mut self, device: &Device, pass: &Pass<'_>) -> SampleCall {
        let call = self.host.fill(pass, self.tokens);
        if call.wants > 0 {
            let Params { words, state } = &self.host;
            device.queue.write_buffer(&self.params, 0, bytemuck::cast_slice(words));
            self.state_then.write(device, &self.state, state);
            let (indices, _) = self.state_then.words_mut().as_chunks_mut::<2>();
            for index in indices.iter_mut().take(call.wants) {
                let [low, high] = *index;
                let next =
                    (u64::from(high) << 32 | u64::from(low)).wrapping_add(pass.repeat.into());
                *index = params::halves(next);
            }
        }
        call
    }

    /// The parameters and the states of the draws that were written last.
    pub(crate) fn written(&self) -> [Vec<u32>; 2] {
        [self.host.words.clone(), self.host.state.clone()]
    }

    /// Writes parameters and states of draws.
    pub(crate) fn write(&self, device: &Device, [params, state]: [&[u32]; 2]) {
        let write = |buffer: &wgpu::Buffer, words: &[u32]| {
            device.queue.write_buffer(buffer, 0, bytemuck::cast_slice(words));
        };
        write(&self.params, params);
        write(&self.state, state);
    }

    /// Records the draws of one repeat, after the kernels that write the logits.
    pub(crate) fn record(&self, pass: &mut wgpu::ComputePass<'_>, call: &SampleCall) {
        if call.wants == 0 {
            return;
        }
        if call.log_probs.is_some() {
            self.raw_maxima.record(pass, call);
            self.log_sum.record(pass, call);
            self.top.record(pass, call);
        }
        if call.adjust {
            self.adjust.record(pass, call);
        }
        // the maxima of raw logits are also those of logits that nothing changes
        if call.log_probs.is_none() || call.adjust || call.masks {
            self.maxima.record(pass, call);
        }
        if call.likeliest {
            self.likeliest.record(pass, call);
        }
        if call.few {
            self.few.record(pass, call);
        }
        if let Some(stages) = call.many {
            self.begin.record(pass, call);
            for stage in 0..stages {
                self.count[stage % 2].record(pass, call);
            }
            self.many[stages % 2].record(pass, call);
            self.last.record(pass, call);
        }
        if call.log_probs.is_some() {
            self.drawn.record(pass, call);
        }
    }

    /// The results `[repeat, wants]` of the last pass that was recorded, to be copied to the host
    /// after it.
    pub(crate) fn results(&self) -> &wgpu::Buffer {
        &self.results
    }

    /// Bytes of the results of a pass.
    pub(crate) fn result_bytes(&self, call: &SampleCall, repeat: u32) -> u64 {
        results::bytes(call, repeat)
    }

    /// Appends the results `[repeat, wants]` of a pass, read from [`results`](Self::results).
    pub(crate) fn parse(
        &self,
        call: &SampleCall,
        repeat: u32,
        bytes: &[u8],
        out: &mut Vec<Sampled>,
    ) {
        results::parse(call, repeat, bytes, out);
    }
}

#[cfg(test)]
mod tests;
