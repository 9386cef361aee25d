//! From logits to a token.
//!
//! The order is that of llama.cpp's default chain: repetition penalty, top-k, top-p, min-p,
//! temperature, choice. The choice among the candidates that are left is the greatest of
//! `logit / temperature + noise`, where the noise is Gumbel's: that draws from the softmax exactly
//! (Maddison, Tarlow and Minka, arXiv 1411.0030), and needs no sum over the candidates. Everything
//! after the difference of two logits is in whole numbers ([`fixed`]), so that a device makes the
//! same choice.

mod candidates;
pub mod fixed;
mod noise;
mod rule;
mod whole;

use candidates::Candidates;
pub use rule::Rule;

/// How the next token is chosen.
///
/// ```
/// use pelton_sampling::Sampling;
///
/// let careful = Sampling { temperature: 0.3, seed: Some(7), ..Sampling::default() };
/// assert!(careful.check().is_ok());
/// assert!(Sampling { top_p: 1.5, ..careful }.check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// What logits are divided by, from 0; 0 takes the likeliest token always.
    pub temperature: f32,
    /// Only this many of the likeliest tokens are left; 0 for all.
    pub top_k: usize,
    /// Only the likeliest tokens that together reach this probability are left; in 0 to 1, 1 for
    /// all.
    pub top_p: f32,
    /// Only tokens of at least this share of the likeliest one's probability are left; in 0 to 1,
    /// 0 for all.
    pub min_p: f32,
    /// What the logits of recent tokens are divided by (multiplied, where negative); above 0, 1
    /// for none (Keskar et al., arXiv 1909.05858).
    pub repetition_penalty: f32,
    /// How many tokens back count as recent, the prompt's included.
    pub repetition_window: usize,
    /// The same seed gives the same text; `None` takes a random one.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repetition_penalty: 1.0,
            repetition_window: 64,
            seed: None,
        }
    }
}

impl Sampling {
    /// The likeliest token always.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Whether every value is in its range; if not, a sentence that names the first that is not.
    pub fn check(&self) -> Result<(), String> {
        let fail = |name: &str, value: f32, range: &str| {
            Err(format!("{name} is {value}, expected {range}"))
        };
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return fail("temperature", self.temperature, "a number from 0");
        }
        if !(0.0..=1.0).contains(&self.top_p) {
            return fail("top-p", self.top_p, "0 to 1");
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return fail("min-p", self.min_p, "0 to 1");
        }
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite()) {
            return fail("repetition penalty", self.repetition_penalty, "a number above 0");
        }
        Ok(())
    }
}

/// Chooses the tokens of one sequence.
///
/// ```
/// use pelton_sampling::{Sampler, Sampling};
///
/// let mut sampler = Sampler::new(Sampling::greedy());
/// assert_eq!(sampler.choose(&[0.5, 2.0, 1.0], &[], 0), Some(1));
/// ```
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    rule: Option<Rule>,
    seed: u64,
    penalized: Vec<f32>,
    candidates: Candidates,
}

impl Sampler {
    /// For sampling values that are in their [ranges](Sampling::check).
    pub fn new(sampling: Sampling) -> Self {
        let seed = sampling.seed.unwrap_or_else(noise::random_seed);
        let rule = Option::from(&sampling);
        Self { sampling, rule, seed, penalized: Vec::new(), candidates: Candidates::default() }
    }

    /// The sampling values.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// The seed, a random one where none was given.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Chooses token number `index` of the sequence, given the tokens before it; `None` if no
    /// logit is a number.
    pub fn choose(&mut self, logits: &[f32], history: &[u32], index: u64) -> Option<u32> {
        let s = &self.sampling;
        let logits = match s.repetition_penalty {
            1.0 => logits,
            penalty => {
                self.penalized.clear();
                self.penalized.extend_from_slice(logits);
                let recent = history.len().saturating_sub(s.repetition_window);
                penalize(&mut self.penalized, &history[recent..], penalty);
                &self.penalized
            }
        };
        let likeliest = greatest(logits)?;
        let Some(rule) = &self.rule else { return Some(likeliest) };
        let greatest = logits[likeliest as usize];
        let floor = rule.floor(greatest);
        if rule.top_k == u32::MAX && rule.top_p == u32::MAX {
            return whole::draw(logits, greatest, floor, rule.scale, self.seed, index);
        }
        self.candidates.fill(logits, rule.top_k as usize, floor);
        self.candidates.top_p(rule.top_p);
        self.candidates.within(rule.reach);
        self.candidates.draw(rule.scale, self.seed, index)
    }
}

/// The index of the greatest number, the lowest on a tie; `None` if there is no number.
fn greatest(logits: &[f32]) -> Option<u32> {
    /// Numbers that are compared at once, and that are looked at again one by one.
    const LANES: usize = 16;
    const CHUNK: usize = 1024;
    let mut greatest = f32::NEG_INFINITY;
    let mut at = 0;
    for (i, chunk) in logits.chunks(CHUNK).enumerate() {
        let mut most = [greatest; LANES];
        for part in chunk.chunks(LANES) {
            for (most, &logit) in most.iter_mut().zip(part) {
                *most = if logit > *most { logit } else { *most };
            }
        }
        let most = most.into_iter().fold(greatest, f32::max);
        if most > greatest {
            (greatest, at) = (most, i * CHUNK);
        }
    }
    logits[at..].iter().position(|&logit| logit == greatest).map(|i| (at + i) as u32)
}

/// Makes each token of `recent` less likely, once however often it comes.
fn penalize(logits: &mut [f32], recent: &[u32], penalty: f32) {
    let mut seen = recent.to_vec();
    seen.sort_unstable();
    seen.dedup();
    for id in seen {
        if let Some(logit) = logits.get_mut(id as usize) {
            *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
        }
    }
}

#[cfg(test)]
mod tests;
