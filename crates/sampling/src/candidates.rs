//! The tokens that are left to choose from.

use std::{cmp::Ordering, collections::BinaryHeap};

use crate::{
    fixed::{Scale, exp2},
    noise::{GREATEST, gumbel},
    rule::Rule,
};

/// A token and its logit. The order is by likelihood; on a tie the lower id is the greater.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) id: u32,
    pub(crate) logit: f32,
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
pub(crate) struct Candidates {
    all: Vec<Candidate>,
    sorted: usize,
}

impl Candidates {
    /// Takes the `k` likeliest of all logits that are numbers.
    pub(crate) fn fill(&mut self, logits: &[f32], k: usize) {
        let tokens = logits
            .iter()
            .enumerate()
            .filter(|(_, logit)| !logit.is_nan())
            // with 0 added, -0 becomes 0: they are equally likely
            .map(|(id, &logit)| Candidate { id: id as u32, logit: logit + 0.0 });
        let mut all = std::mem::take(&mut self.all);
        all.clear();
        if k >= logits.len() {
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

    /// Leaves the fewest likeliest candidates whose weights reach the part `p` of their sum; at
    /// least one.
    pub(crate) fn top_p(&mut self, p: u32) {
        if p == u32::MAX || self.all.len() < 2 {
            return;
        }
        let greatest = self.greatest();
        let weight = |c: &Candidate| u64::from(exp2(distance(greatest, c.logit, Rule::NATURAL)));
        let sum: u64 = self.all.iter().map(weight).sum();
        let enough = ((u128::from(p) * u128::from(sum)) >> 32) as u64;
        let mut reached = 0;
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

    /// Leaves the candidates that are no farther than `reach` from the likeliest.
    pub(crate) fn within(&mut self, reach: u32) {
        let greatest = self.greatest();
        self.all.retain(|c| distance(greatest, c.logit, Rule::NATURAL) <= reach);
        self.sorted = self.sorted.min(self.all.len());
    }

    /// Draws one in proportion to 2 to the power of its distance, negated.
    pub(crate) fn draw(&self, scale: Scale, seed: u64, index: u64) -> Option<u32> {
        let mut best = None;
        let greatest = self.greatest();
        for c in &self.all {
            // below FAR, so it is an i32, as are the differences
            let away = distance(greatest, c.logit, scale).min(Rule::FAR) as i32;
            if best.is_some_and(|(value, _)| GREATEST - away < value) {
                continue;
            }
            let value = gumbel(seed, index, c.id) - away;
            if best.is_none_or(|(most, id)| value > most || (value == most && c.id < id)) {
                best = Some((value, c.id));
            }
        }
        best.map(|(_, id)| id)
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
    pub(crate) fn as_slice(&self) -> &[Candidate] {
        &self.all
    }
}

/// How far a logit is from the greatest; equal infinities are not apart.
fn distance(greatest: f32, logit: f32, scale: Scale) -> u32 {
    scale.times(if logit == greatest { 0.0 } else { greatest - logit })
}
