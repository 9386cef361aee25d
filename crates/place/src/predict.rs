//! The predicted speed of a placement, from what a pass reads and multiplies and the measured
//! rates of its devices.
//!
//! ```text
//! a decoding pass:     W(n) / read  +  n · K(d) / cache  +  f · P / few  +  (n - 1 - f) · P / multiply  +  steps · step
//! a pass of a prompt:  W(m) / read  +  m · K(m/2) / cache  +  (m - 1) · B / multiply  +  steps · step
//! a streamed prompt:   Σ GPUs max(streamed bytes / up, m · B / multiply)
//! ```
//!
//! `n` are the sequences of a decoding pass, each at depth `d`, and `m` the rows of a prompt. `W`
//! are the bytes of weights that rows read, of experts those that they choose, and `K` those of
//! keys and values. `P` are two operations for each product of a row, and `B` those without the
//! output matrix. `f` are the rows after the first, up to [`FEW`]: the reading of the weights hides
//! the products of the first row, and a part of theirs.
//!
//! Times of devices add up, as do hops: a row goes from the GPU to the CPU and back for each
//! feed-forward there, and over each border between devices. Where several devices run one after
//! the other, its token takes one hop more.

use std::{fmt, time::Duration};

use pelton_graph::{
    KvType, Op, Phase, Plan, Rates, Rows, Step, WeightKind, cache_read, used_experts, weights_read,
};

/// Rows of a decoding pass whose products the reading of the weights hides partly.
pub const FEW: usize = 8;

/// The work of a pass on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Bytes of weights, keys and values that the rows read.
    pub bytes: f64,
    /// Those of keys and values.
    pub cached: f64,
    /// Operations of the rows after the first, up to [`FEW`], of a decoding pass.
    pub few: f64,
    /// Operations of further rows, and of all after the first of a prompt.
    pub many: f64,
    /// Steps.
    pub steps: usize,
    /// Hops of a row.
    pub hops: usize,
    /// Bytes of weights that each pass over a prompt streams to the device.
    pub streamed: f64,
    /// Operations of a row of a prompt, two for each product.
    pub operations: f64,
}

impl Work {
    /// The work of a decoding pass in which `streams` sequences at a depth get a token each. It
    /// hops for each part of the host, whose work is another device's.
    pub fn of(plan: &Plan, streams: usize, depth: usize, kv: KvType) -> Self {
        let mut work = Self { hops: plan.host.len(), ..Self::default() };
        let mut selected = 0.0;
        for i in plan.steps_of(Phase::Decode) {
            let step = &plan.steps[i];
            match plan.step_rows(step) {
                Rows::All => work.operations += operations(plan, step),
                Rows::Selected => selected += operations(plan, step),
            }
            match plan.host.iter().any(|part| part.steps.contains(&i)) {
                // all rows of a prompt together read all experts
                true => work.streamed += weights_read(plan, step, usize::MAX, 1.0),
                false => work.read(plan, step, (streams, depth), kv),
            }
        }
        let few = streams.min(FEW).saturating_sub(1) as f64;
        work.few = few * (work.operations + selected);
        work.many = (streams as f64 - 1.0 - few).max(0.0) * (work.operations + selected);
        work
    }

    /// The work of a pass over a prompt on a single device.
    pub fn of_prompt(plan: &Plan, rows: usize, kv: KvType) -> Self {
        let mut work = Self::default();
        for step in &plan.steps[plan.steps_of(Phase::Prompt)] {
            if plan.step_rows(step) == Rows::All {
                work.operations += operations(plan, step);
            }
            work.read(plan, step, (rows, rows / 2), kv);
        }
        work.many = (rows as f64 - 1.0).max(0.0) * work.operations;
        work
    }

    /// Adds a step, and what rows at a depth read in it.
    fn read(&mut self, plan: &Plan, step: &Step, (rows, depth): (usize, usize), kv: KvType) {
        let cached = rows as f64 * cache_read(plan, step, depth + 1, kv);
        self.bytes += weights_read(plan, step, rows, 1.0) + cached;
        self.cached += cached;
        self.steps += 1;
    }

    /// The work of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            cached: self.cached + other.cached,
            few: self.few + other.few,
            many: self.many + other.many,
            steps: self.steps + other.steps,
            hops: self.hops + other.hops,
            streamed: self.streamed + other.streamed,
            operations: self.operations + other.operations,
        }
    }

    /// Seconds of the pass on a device, without hops and streams. `None` if a rate that it
    /// needs is not measured.
    pub fn seconds(&self, rates: &Rates) -> Option<f64> {
        let products = |operations: f64, rate: Option<f64>| match operations {
            0.0 => Some(0.0),
            _ => rate.map(|rate| operations / rate),
        };
        let few = products(self.few, rates.few.or(rates.multiply))?;
        let many = products(self.many, rates.multiply)?;
        let cached = self.cached / rates.cache.unwrap_or(rates.read);
        let weights = (self.bytes - self.cached) / rates.read;
        Some(weights + cached + few + many + self.steps as f64 * rates.step)
    }
}

/// Operations of a row in the products of a step, two for each.
fn operations(plan: &Plan, step: &Step) -> f64 {
    let products = step.op.weights().into_iter().map(|id| {
        let weight = plan.weight(id);
        match (weight.kind, &step.op) {
            (WeightKind::Vector, _) | (_, Op::Embed { .. }) => 0,
            (_, op) => {
                let count = used_experts(op).unwrap_or(weight.count());
                weight.rows * weight.row_len * count
            }
        }
    });
    2.0 * products.sum::<usize>() as f64
}

/// The predicted speed of one stream. It displays as a line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prediction {
    /// Positions before the token.
    pub depth: usize,
    /// The parts of a token's time.
    pub terms: Vec<Term>,
    /// The time of a pass over a prompt, where it streams weights.
    pub prompt: Option<PromptPrediction>,
}

/// A part of a token's time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// `RAM`, the name of a GPU, or `hops`.
    pub name: String,
    /// Its time.
    pub time: Duration,
    /// Bytes that it reads.
    pub bytes: u64,
    /// Bytes that its device reads in a second; 0 of hops.
    pub bytes_per_second: u64,
    /// Its steps or hops.
    pub count: usize,
}

/// The predicted pass over a prompt whose weights are streamed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptPrediction {
    /// Rows of a pass.
    pub rows: usize,
    /// The time of a pass.
    pub time: Duration,
    /// Bytes of weights that it streams.
    pub bytes: u64,
    /// The time of the stream alone. A pass takes longer where the GPU's products do.
    pub stream: Duration,
}

/// Predicts the speed of devices in the order in which a pass goes through them. `depth` positions
/// are before the token, and a pass over a prompt has `rows` rows. `None` if a rate is unknown,
/// such as the link of hops.
pub fn predict(
    devices: &[(String, Work, Option<Rates>)],
    depth: usize,
    rows: usize,
) -> Option<Prediction> {
    let mut terms = Vec::new();
    let (mut hops, mut hop_time) = (0, 0.0);
    for (name, work, rates) in devices {
        let rates = (*rates)?;
        let name = if rates.link.is_none() { "RAM" } else { name };
        terms.push(Term {
            name: name.to_owned(),
            time: seconds(work.seconds(&rates)?),
            bytes: work.bytes as u64,
            bytes_per_second: rates.read as u64,
            count: work.steps,
        });
        if work.hops > 0 {
            hops += work.hops;
            hop_time += work.hops as f64 * rates.link?.hop;
        }
    }
    if hops > 0 {
        let (name, time) = ("hops".to_owned(), seconds(hop_time));
        terms.push(Term { name, time, bytes: 0, bytes_per_second: 0, count: hops });
    }
    Some(Prediction { depth, terms, prompt: prompt(devices, rows) })
}

/// A pass over a prompt, if all of it runs on GPUs and weights are streamed.
fn prompt(devices: &[(String, Work, Option<Rates>)], rows: usize) -> Option<PromptPrediction> {
    let (mut time, mut stream, mut bytes) = (0.0, 0.0, 0.0);
    for (_, work, rates) in devices {
        let rates = (*rates)?;
        let Some(link) = rates.link else {
            // a CPU that has whole layers has those of prompts too
            if work.operations > 0.0 {
                return None;
            }
            continue;
        };
        let of_stream = work.streamed / link.up;
        let products = rows as f64 * work.operations / rates.multiply.unwrap_or(f64::INFINITY);
        time += of_stream.max(products);
        stream += of_stream;
        bytes += work.streamed;
    }
    let found = PromptPrediction {
        rows,
        time: seconds(time),
        bytes: bytes as u64,
        stream: seconds(stream),
    };
    (bytes > 0.0).then_some(found)
}

/// A duration; zero of what is no number.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

impl Prediction {
    /// Tokens a second of one stream.
    pub fn tokens_per_second(&self) -> f64 {
        1.0 / self.terms.iter().map(|term| term.time).sum::<Duration>().as_secs_f64()
    }
}

impl PromptPrediction {
    /// Tokens a second of a long prompt.
    pub fn tokens_per_second(&self) -> f64 {
        self.rows as f64 / self.time.as_secs_f64()
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = Figure(self.tokens_per_second());
        write!(f, "decode ~{rate} tokens/s at position {}: ", self.depth)?;
        let term = |term: &Term| {
            let time = Figure(term.time.as_secs_f64() * 1e3);
            match (term.name.as_str(), term.count) {
                ("hops", 1) => format!("{time} ms 1 hop"),
                ("hops", count) => format!("{time} ms {count} hops"),
                (name, _) => {
                    format!(
                        "{time} ms {name} at {} GB/s",
                        Figure(term.bytes_per_second as f64 / 1e9)
                    )
                }
            }
        };
        f.write_str(&self.terms.iter().map(term).collect::<Vec<_>>().join(", "))?;
        let Some(prompt) = &self.prompt else { return Ok(()) };
        write!(
            f,
            "\n  prompts ~{} tokens/s: a pass of {} rows streams {} GB in {} ms",
            Figure(prompt.tokens_per_second()),
            prompt.rows,
            Figure(prompt.bytes as f64 / 1e9),
            Figure(prompt.stream.as_secs_f64() * 1e3)
        )
    }
}

/// A number with two digits at least, and one place at most below 100.
struct Figure(f64);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value if value < 1.0 => write!(f, "{value:.2}"),
            value if value < 99.5 => write!(f, "{value:.1}"),
            value => write!(f, "{value:.0}"),
        }
    }
}
