//! Choosing the next token on the device.
//!
//! There are three ways. The likeliest token is the best of the bests of chunks. A draw among few
//! tokens is made by one workgroup (`few.wgsl`). A draw among many first searches for the cuts that
//! top-k and top-p make, a digit a pass, and then draws everywhere at once. Each of them makes the
//! choice of `pelton_sampling::Sampler`, and prepares the next pass: a chain of passes needs the
//! host for nothing.

use std::{cell::RefCell, sync::Arc};

use minijinja::{Value, context};
use pelton_graph::{Choice, Error};
use pelton_sampling::{Rule, fixed};

use crate::{
    device::{Access, Device, Kernel},
    source,
};

/// Threads of a workgroup.
const THREADS: usize = 256;
/// Threads of a workgroup that looks for the bests of chunks: few, so that it has company.
const CHUNK_THREADS: usize = 64;
/// Chunks that a large vocabulary is cut into, about: their bests and the logits of the chunks that
/// are then chosen are searched by one workgroup. On an H200 half as many take 20 to 50 % longer.
const CHUNKS: usize = 4096;
/// Up to how many tokens one workgroup draws among few: the search leaves up to twice as many, one
/// for each of its threads.
const FEW: usize = THREADS / 2;
/// How often each thread of a counting pass takes four logits. The sums of a workgroup are 32 bits,
/// of which a token adds 20.
const TURNS: usize = 2;
/// Passes that search for one cut.
const LEVELS: usize = 5;
/// Bytes of the struct `Search`.
const SEARCH_BYTES: u64 = 64;
/// Bytes of the three histograms.
const BINS_BYTES: u64 = 3 * 2 * 2048 * 4;

/// A kernel, the buffers that it works on, and how many workgroups it needs.
#[derive(Debug)]
struct Step {
    kernel: Arc<Kernel>,
    bindings: wgpu::BindGroup,
    groups: u32,
}

impl Step {
    fn record(&self, pass: &mut wgpu::ComputePass<'_>) {
        self.kernel.record(pass, &self.bindings, [self.groups, 1, 1]);
    }
}

/// The buffers through which choosing meets the rest of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    /// The logits of one row.
    pub(crate) logits: &'a wgpu::Buffer,
    /// The rows of the pass, of four numbers each: token, position, sequence, 0. The first one's
    /// token is replaced, and its position moved on.
    pub(crate) rows: &'a wgpu::Buffer,
    /// Where the tokens that are chosen go, one after the other; `NO_TOKEN` where no logit was a
    /// number. Whoever begins a chain sees to it that there is room.
    pub(crate) tokens: &'a wgpu::Buffer,
}

/// How a vocabulary is shared out.
#[derive(Clone, Copy, Debug)]
struct Shape {
    vocab: usize,
    /// Logits are read four at a time.
    fours: usize,
    /// Fours of a chunk.
    each: usize,
    /// Workgroups that look for the bests of chunks.
    maxima_groups: usize,
    chunks: usize,
}

impl Shape {
    fn of(vocab: usize) -> Self {
        let fours = vocab.div_ceil(4);
        let each = fours.div_ceil(CHUNKS);
        let maxima_groups = fours.div_ceil(each * CHUNK_THREADS);
        Self { vocab, fours, each, maxima_groups, chunks: maxima_groups * CHUNK_THREADS }
    }

    /// The WGSL of a kernel; `more` is what it alone needs to know.
    fn source(&self, name: &str, more: Value) -> Result<String, Error> {
        let Self { vocab, each, chunks, .. } = *self;
        let shape = context! {
            vocab, each, chunks,
            threads => THREADS,
            chunk_threads => CHUNK_THREADS,
            few => FEW,
            turns => TURNS,
            fraction => fixed::FRACTION,
            log2 => fixed::LOG2,
            exp2 => fixed::EXP2,
            far => Rule::FAR,
            natural => context! {
                mantissa => Rule::NATURAL.mantissa,
                exponent => Rule::NATURAL.exponent,
            },
        };
        source::render(&format!("sample/{name}.wgsl"), context! { ..more, ..shape })
    }
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, String)> {
    let none = Value::default;
    let kernels = [
        ("argmax", context! { begin => false, count => 77 }),
        ("argmax", context! { begin => true, count => 77 }),
        ("count", none()),
        ("few", none()),
        ("many", none()),
        ("maxima", none()),
    ];
    let of = |vocab| {
        let all = kernels.iter();
        all.map(move |(name, more)| {
            let label = format!("{name} of {vocab}, {more}");
            (label, Shape::of(vocab).source(name, more.clone()).unwrap())
        })
    };
    [33, 1000, 151_936].into_iter().flat_map(of).collect()
}

/// What is compiled and allocated for choosing from one vocabulary.
#[derive(Debug)]
pub(crate) struct Sample {
    rule: wgpu::Buffer,
    state: wgpu::Buffer,
    maxima: Step,
    /// The best of the chunks' bests.
    likeliest: Step,
    few: Step,
    /// Begins a search with the best of the chunks' bests.
    begin: Step,
    /// A pass of a search that reads the first, or the second, of two states.
    count: [Step; 2],
    many: [Step; 2],
    /// The best draw.
    last: Step,
    vocab: usize,
}

/// What is recorded for each token of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Likeliest,
    Few,
    /// With this many passes that search for cuts.
    Many(usize),
}

impl Sample {
    pub(crate) fn new(device: &Device, vocab: usize, around: Around<'_>) -> Result<Self, Error> {
        use Access::{Read, ReadWrite};
        let shape = Shape::of(vocab);
        let Shape { fours, maxima_groups, chunks, .. } = shape;
        let many_groups = fours.div_ceil(THREADS);
        let pair = 8;
        let best = device.buffer("bests of chunks", (chunks * pair) as u64)?;
        let draws = device.buffer("draws", (many_groups * pair) as u64)?;
        let bins = device.buffer("histograms", BINS_BYTES)?;
        let search = [0, 1].map(|_| device.buffer("search", SEARCH_BYTES));
        let [first, second] = search;
        let (first, second) = (first?, second?);
        let rule = device.buffer("rule", 32)?;
        let state = device.buffer("sampling state", 16)?;
        let Around { logits, rows, tokens } = around;

        let kernels = RefCell::new(Vec::new());
        let step = |name: &str, more: Value, groups: usize, on: &[(Access, &wgpu::Buffer)]| {
            let source = shape.source(name, more)?;
            let access: Vec<Access> = on.iter().map(|(access, _)| *access).collect();
            let buffers: Vec<_> = on.iter().map(|(_, b)| b.as_entire_buffer_binding()).collect();
            let kernel = Arc::new(device.kernel_to_compile(name, &source, &access));
            kernels.borrow_mut().push(Arc::clone(&kernel));
            let bindings = device.bind(name, &kernel, &buffers)?;
            Ok::<Step, Error>(Step { kernel, bindings, groups: groups as u32 })
        };
        let none = Value::default;
        let record = [(ReadWrite, rows), (ReadWrite, tokens), (ReadWrite, &state)];
        let argmax = |pairs, count: usize| {
            let on = [&[(Read, pairs)], record.as_slice()].concat();
            step("argmax", context! { begin => false, count }, 1, &on)
        };
        let count = |before, after| {
            let on = [
                (Read, logits),
                (Read, &rule),
                (Read, before),
                (ReadWrite, after),
                (ReadWrite, &bins),
            ];
            step("count", none(), fours.div_ceil(THREADS * TURNS), &on)
        };
        let many = |before| {
            let on = [
                (Read, logits),
                (Read, &rule),
                (Read, &state),
                (Read, before),
                (Read, &bins),
                (ReadWrite, &draws),
            ];
            step("many", none(), many_groups, &on)
        };
        let few_on = [&[(Read, logits), (Read, &best), (Read, &rule)], record.as_slice()].concat();
        let begin_on = [(Read, &best), (Read, &rule), (ReadWrite, &first), (ReadWrite, &bins)];
        let sample = Self {
            maxima: step("maxima", none(), maxima_groups, &[(Read, logits), (ReadWrite, &best)])?,
            likeliest: argmax(&best, chunks)?,
            few: step("few", none(), 1, &few_on)?,
            begin: step("argmax", context! { begin => true, count => chunks }, 1, &begin_on)?,
            count: [count(&first, &second)?, count(&second, &first)?],
            many: [many(&first)?, many(&second)?],
            last: argmax(&draws, many_groups)?,
            vocab,
            rule: rule.clone(),
            state: state.clone(),
        };
        device.compile_all(&kernels.borrow())?;
        Ok(sample)
    }

    /// Says how the tokens of a chain are to be chosen, and to write them from the beginning of
    /// the buffer of tokens. Returns what is to be recorded for each.
    pub(crate) fn begin(&self, device: &Device, choice: &Choice) -> Way {
        let halves = |number: u64| [number as u32, (number >> 32) as u32];
        let [low, high] = halves(choice.index);
        device.queue.write_buffer(&self.state, 0, bytemuck::cast_slice(&[low, high, 0]));
        let Choice { temperature, top_k, top_p, min_p, seed, .. } = *choice;
        let Some(rule) = Rule::new(temperature, top_k, top_p, min_p) else {
            return Way::Likeliest;
        };
        let [low, high] = halves(seed);
        let Rule { top_k, top_p, reach, scale } = rule;
        let exponent = scale.exponent as u32;
        let numbers = [low, high, top_k, top_p, reach, scale.mantissa, exponent, 0];
        device.queue.write_buffer(&self.rule, 0, bytemuck::cast_slice(&numbers));
        match top_k as usize {
            ..=FEW => Way::Few,
            k => {
                let cuts = usize::from(k < self.vocab) + usize::from(top_p < u32::MAX);
                Way::Many(cuts * LEVELS)
            }
        }
    }

    /// Records the choice of one token.
    pub(crate) fn record(&self, pass: &mut wgpu::ComputePass<'_>, way: Way) {
        self.maxima.record(pass);
        match way {
            Way::Likeliest => self.likeliest.record(pass),
            Way::Few => self.few.record(pass),
            Way::Many(searches) => {
                self.begin.record(pass);
                for i in 0..searches {
                    self.count[i % 2].record(pass);
                }
                self.many[searches % 2].record(pass);
                self.last.record(pass);
            }
        }
    }
}

#[cfg(test)]
mod tests;
