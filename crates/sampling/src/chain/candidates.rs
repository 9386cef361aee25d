//! The candidates of a chain: tokens with logits in f64.

use std::cmp::Ordering;

use crate::{Draw, FixedParams, Penalties, adjust, fixed_point::FRACTION, noise::Noise};

/// A token, its logit and its probability after the last [`Candidates::softmax`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: u32,
    pub(super) logit: f64,
    pub(super) p: f64,
}

/// By logit, the greatest first; ties by id, the lowest first.
fn likelier(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

#[derive(Debug, Default)]
pub(super) struct Candidates {
    all: Vec<Candidate>,
    /// Whether they are in the order of [`likelier`].
    sorted: bool,
}

impl Candidates {
    /// All tokens that the mask of the draw allows and whose logits are numbers above -∞, after its
    /// biases. Logits of ∞ become the greatest finite one.
    pub(super) fn fill(&mut self, logits: &[f32], draw: &Draw<'_>) {
        let allowed = |id: u32| {
            let word = |mask: &[u32]| mask.get(id as usize / 32).copied().unwrap_or(0);
            draw.mask.is_none_or(|mask| word(mask) >> (id % 32) & 1 == 1)
        };
        self.all.clear();
        self.all.extend(
            (0..).zip(logits).filter(|(id, _)| allowed(*id)).map(|(id, &logit)| Candidate {
                id,
                logit: f64::from(logit),
                p: 0.0,
            }),
        );
        for &(id, bias) in draw.bias {
            if let Ok(at) = self.all.binary_search_by_key(&id, |c| c.id) {
                self.all[at].logit += f64::from(bias);
            }
        }
        self.all.retain(|c| c.logit > f64::NEG_INFINITY);
        for c in &mut self.all {
            c.logit = c.logit.min(f64::from(f32::MAX));
        }
        self.sorted = false;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Candidate> {
        self.all.iter()
    }

    /// The candidates, to change their logits; their order is then lost.
    pub(super) fn change(&mut self) -> &mut [Candidate] {
        self.sorted = false;
        &mut self.all
    }

    pub(super) fn greatest(&self) -> f64 {
        self.all.iter().map(|c| c.logit).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The candidates, the likeliest first.
    pub(super) fn sort(&mut self) -> &[Candidate] {
        if !self.sorted {
            self.all.sort_unstable_by(likelier);
            self.sorted = true;
        }
        &self.all
    }

    /// Sets the probabilities.
    pub(super) fn softmax(&mut self) {
        let greatest = self.greatest();
        let weight = |logit: f64| match logit == greatest {
            true => 1.0,
            false => (logit - greatest).exp(),
        };
        let sum: f64 = self.all.iter().map(|c| weight(c.logit)).sum();
        for c in &mut self.all {
            c.p = weight(c.logit) / sum;
        }
    }

    /// The entropy of the probabilities in nats.
    pub(super) fn entropy(&self) -> f64 {
        self.all.iter().filter(|c| c.p > 0.0).map(|c| -c.p * c.p.ln()).sum()
    }

    /// Keeps the `count` likeliest.
    pub(super) fn keep_likeliest(&mut self, count: usize) {
        if count < self.all.len() && !self.sorted {
            self.all.select_nth_unstable_by(count, likelier);
        }
        self.all.truncate(count);
    }

    /// Removes the `count` first after [`sort`](Self::sort).
    pub(super) fn drop_first(&mut self, count: usize) {
        self.all.drain(..count.min(self.all.len()));
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Candidate) -> bool) {
        self.all.retain(keep);
    }

    /// Replaces the candidates by some of them.
    pub(super) fn replace(&mut self, kept: Vec<Candidate>) {
        self.all = kept;
        self.sorted = false;
    }

    pub(super) fn penalize(
        &mut self,
        recent: &mut adjust::Recent,
        penalties: &Penalties,
        history: &[u32],
    ) {
        recent.fill(penalties, history);
        let &Penalties { repetition, presence, frequency, window: _ } = penalties;
        let all = self.change();
        for c in all {
            let count = recent.count(c.id);
            if count > 0 {
                let repetition = f64::from(repetition);
                c.logit *= if c.logit > 0.0 { 1.0 / repetition } else { repetition };
                c.logit -= f64::from(presence) + count as f64 * f64::from(frequency);
            }
        }
    }

    /// Draws a candidate with a probability proportional to `exp(logit)` by the Gumbel-max trick,
    /// with the noise of a [`Draw`].
    pub(super) fn draw(&self, noise: &mut Noise) -> Option<u32> {
        let greatest = self.greatest();
        let octave = f64::from(1u32 << FRACTION);
        let distance = |logit: f64| match logit == greatest {
            true => 0,
            // casts from f64 saturate, and NaN becomes 0
            false => ((greatest - logit) * std::f64::consts::LOG2_E * octave)
                .min(f64::from(FixedParams::FAR)) as i32,
        };
        let value = |c: &Candidate, noise: &mut Noise| {
            noise.gumbel_from(i32::MIN, c.id).map(|drawn| drawn - distance(c.logit))
        };
        let values = self.all.iter().filter_map(|c| Some((value(c, noise)?, c.id)));
        values.max_by_key(|&(value, id)| (value, std::cmp::Reverse(id))).map(|(_, id)| id)
    }

    /// The candidate of a token.
    pub(super) fn of(&self, id: u32) -> Option<&Candidate> {
        self.all.iter().find(|c| c.id == id)
    }
}
