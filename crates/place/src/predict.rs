//! The predicted speed of a placement, from what a pass reads and the measured rates of its devices.
//!
//! ```text
//! a token:            Σ devices (bytes / read + steps · step)  +  hops · hop
//! a pass of a prompt: Σ GPUs max(streamed bytes / up, operations / multiply)
//! ```
//!
//! Bytes of a token are its weights, of experts those that it chooses, and the keys and values of the positions before
//! it. A row hops from the GPU to the CPU and back for each feed-forward there, at each border between devices, and
//! where several devices run one after the other once more for its token.

use std::{fmt, time::Duration};

use pelton_graph::{
    KvType, Op, Phase, Plan, Rates, Rows, WeightKind, cache_read, used_experts, weights_read,
};

/// The work of a decoding row on a device, and that of a prompt whose weights are streamed to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Bytes of weights, keys and values that the row reads.
    pub bytes: f64,
    /// Steps.
    pub steps: usize,
    /// Hops of the row.
    pub hops: usize,
    /// Bytes of weights that each pass over a prompt streams to the device.
    pub streamed: f64,
    /// Operations of a row of a prompt, two for each product.
    pub operations: f64,
}

impl Work {
    /// The work of a plan at a depth. It hops for each part of the host, whose work is another device's.
    pub fn of(plan: &Plan, depth: usize, kv: KvType) -> Self {
        let mut work = Self { hops: plan.host.len(), ..Self::default() };
        for i in plan.steps_of(Phase::Decode) {
            let step = &plan.steps[i];
            let weights = step.op.weights().into_iter();
            let products = weights.map(|id| {
                let weight = plan.weight(id);
                match (weight.kind, &step.op) {
                    (WeightKind::Vector, _) | (_, Op::Embed { .. }) => 0,
                    (_, op) => {
                        let count = used_experts(op).unwrap_or(weight.count());
                        weight.rows * weight.row_len * count
                    }
                }
            });
            if plan.step_rows(step) == Rows::All {
                work.operations += 2.0 * products.sum::<usize>() as f64;
            }
            match plan.host.iter().any(|part| part.steps.contains(&i)) {
                // all rows of a prompt together read all experts
                true => work.streamed += weights_read(plan, step, usize::MAX, 1.0),
                false => {
                    work.bytes += weights_read(plan, step, 1, 1.0);
                    work.bytes += cache_read(plan, step, depth + 1, kv);
                    work.steps += 1;
                }
            }
        }
        work
    }

    /// The work of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            steps: self.steps + other.steps,
            hops: self.hops + other.hops,
            streamed: self.streamed + other.streamed,
            operations: self.operations + other.operations,
        }
    }
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

/// Predicts the speed of devices in the order in which a pass goes through them. `depth` positions are before the token,
/// and a pass over a prompt has `rows` rows. `None` if a rate is unknown: that of a device, or of the link of hops.
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
            time: seconds(work.bytes / rates.read + work.steps as f64 * rates.step),
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
