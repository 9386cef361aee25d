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
//! The end of each draw makes the token the input of the row's next pass (`record.wgsl`), so
//! repeats need nothing from the host. Workgroups of wants of another kind exit at once.

mod call;
mod params;
mod results;
mod shape;
mod steps;

use minijinja::{Value, context};
use pelton_graph::{Error, Pass};
use pelton_sampling::Sampled;

pub(crate) use self::{call::SampleCall, steps::SampleBuffers};
use self::{
    params::Params,
    shape::VocabShape,
    steps::{Memory, Step, Steps},
};
#[cfg(test)]
use crate::device::KernelSource;
use crate::device::{Device, Mirror, counted};

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

/// Bytes of the memory of sampling, and of the results among them, for the arguments of
/// [`Sample::new`].
pub(crate) fn bytes(
    vocab: usize,
    tokens: usize,
    wants: usize,
    bias: usize,
) -> Result<(u64, u64), Error> {
    let shape = VocabShape::of(vocab, tokens, bias);
    let memory = counted(|count| Memory::with(&shape, wants, count).map(|_| ()))?;
    let params = 4 * params::most_words(vocab, wants, bias) as u64;
    let results = results::most_bytes(wants);
    Ok((memory.saturating_add(params).saturating_add(results), results))
}

impl Sample {
    /// Compiles the kernels and allocates the memory for passes of up to `wants` sampled
    /// wants, each with up to `bias` biases, over logits of `vocab` elements a row. Ids from
    /// `tokens` on are never drawn.
    pub(crate) fn new(
        device: &Device,
        vocab: usize,
        tokens: usize,
        wants: usize,
        bias: usize,
        buffers: SampleBuffers<'_>,
    ) -> Result<Self, Error> {
        let shape = VocabShape::of(vocab, tokens, bias);
        let memory = Memory::with(&shape, wants, &mut |label, bytes| device.buffer(label, bytes))?;
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
