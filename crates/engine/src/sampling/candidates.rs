//! The tokens that are left to choose from.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::noise::{GREATEST, gumbel};

/// A token and its logit. The order is by likelihood; on a tie the lower id is the greater.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: u32,
    pub(super) logit: f32,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.logit.total_cmp(&other.logit).then(other.id.cmp(&self.id))
    }
}

/// The candidates, of which the first `sorted` are the likeliest, in order.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    all: Vec<Candidate>,
    sorted: usize,
}

impl Candidates {
    /// Takes the `k` likeliest of all logits that are numbers; all of them if `k` is 0.
    pub(super) fn fill(&mut self, logits: &[f32], k: usize) {
        let tokens = logits
            .iter()
            .enumerate()
            .filter(|(_, logit)| !logit.is_nan())
            .map(|(id, &logit)| Candidate { id: id as u32, logit });
        let mut all = std::mem::take(&mut self.all);
        all.clear();
        if k == 0 || k >= logits.len() {
            all.extend(tokens);
            (self.all, self.sorted) = (all, 0);
            return;
        }
        // a heap of the best so far whose head is the least of them
        let mut best = BinaryHeap::from(
            all.into_iter().map(std::cmp::Reverse).collect::<Vec<std::cmp::Reverse<Candidate>>>(),
        );
        for token in tokens {
            if best.len() < k {
                best.push(std::cmp::Reverse(token));
            } else if let Some(mut least) = best.peek_mut()
                && token.logit > least.0.logit
            {
                // ids ascend, so that of equal logits those that came first stay
                *least = std::cmp::Reverse(token);
            }
        }
        self.all = best.into_sorted_vec().into_iter().map(|c| c.0).collect();
        self.sorted = self.all.len();
    }

    /// Leaves the fewest likeliest candidates whose probabilities reach `p`; at least one.
    pub(super) fn top_p(&mut self, p: f32) {
        if p >= 1.0 || self.all.len() < 2 {
            return;
        }
        let greatest = self.greatest();
        let weight = |c: &Candidate| f64::from(c.logit - greatest).exp();
        let enough = f64::from(p) * self.all.iter().map(weight).sum::<f64>();
        let mut reached = 0.0;
        let mut kept = 0;
        while kept < self.all.len() {
            self.sort_up_to(kept + 1);
            reached += weight(&self.all[kept]);
            kept += 1;
            if reached >= enough {
                break;
            }
        }
        self.all.truncate(kept);
    }

    /// Leaves the candidates that are at least `p` times as likely as the likeliest.
    pub(super) fn min_p(&mut self, p: f32) {
        if p > 0.0 {
            let least = self.greatest() + p.ln();
            let best = self.all.iter().copied().max();
            self.all.retain(|c| c.logit >= least || Some(*c) == best);
            self.sorted = self.sorted.min(self.all.len());
        }
    }

    /// Draws one in proportion to `e^(logit / temperature)`.
    pub(super) fn draw(&self, temperature: f32, seed: u64, index: u64) -> Option<u32> {
        let mut best = None;
        let mut greatest = f32::NEG_INFINITY;
        let likeliest = self.greatest();
        for c in &self.all {
            // relative to the likeliest, so that a low temperature does not overflow
            let scaled = (c.logit - likeliest) / temperature;
            if scaled + GREATEST < greatest {
                continue;
            }
            let value = scaled + gumbel(seed, index, c.id);
            let lower = best.is_none_or(|id| c.id < id);
            if value > greatest || (value == greatest && lower) {
                (best, greatest) = (Some(c.id), value);
            }
        }
        best.or_else(|| self.all.iter().max().map(|c| c.id))
    }

    fn greatest(&self) -> f32 {
        match self.sorted {
            0 => self.all.iter().map(|c| c.logit).fold(f32::NEG_INFINITY, f32::max),
            _ => self.all[0].logit,
        }
    }

    /// Puts at least the `n` likeliest first and in order; each time that more are needed, eight
    /// times as many as before, because most often a few are enough.
    fn sort_up_to(&mut self, n: usize) {
        if n <= self.sorted {
            return;
        }
        let target = n.max(8 * self.sorted).max(64).min(self.all.len());
        let rest = &mut self.all[self.sorted..];
        let wanted = target - self.sorted;
        if wanted < rest.len() {
            rest.select_nth_unstable_by(wanted, |a, b| b.cmp(a));
        }
        rest[..wanted].sort_unstable_by(|a, b| b.cmp(a));
        self.sorted = target;
    }

    #[cfg(test)]
    pub(super) fn as_slice(&self) -> &[Candidate] {
        &self.all
    }
}
