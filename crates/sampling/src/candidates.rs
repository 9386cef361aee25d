//! The tokens that are left to choose from.

use std::cmp::Ordering;

use crate::{
    fixed::{FRACTION, Scale, exp2},
    noise::Noise,
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

/// Logits that are held against a floor at once.
const CHUNK: usize = 64;
/// The distances of one range of [`Candidates::top_p`]: 32 ranges for each factor of two, down to
/// where no weight is left.
const RANGE: u32 = 1 << (FRACTION - 5);
const RANGES: usize = 1024;

/// The candidates, in no order.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    all: Vec<Candidate>,
    /// The sums of weights in each range of distances.
    weights: Vec<u64>,
    /// The candidates of one range.
    edge: Vec<Candidate>,
}

impl Candidates {
    /// Takes the `k` likeliest of all logits that are at least `floor`.
    pub(crate) fn fill(&mut self, logits: &[f32], k: usize, mut floor: f32) {
        self.all.clear();
        // selecting takes time in proportion to what is there, so it is done once in k candidates
        let many = k.saturating_mul(2).max(CHUNK);
        for (at, chunk) in (0..).step_by(CHUNK).zip(logits.chunks(CHUNK)) {
            // most often none, which is known without a branch for each; a NaN never is
            if !chunk.iter().fold(false, |any, &logit| any | (logit >= floor)) {
                continue;
            }
            for (id, &logit) in (at..).zip(chunk) {
                if logit >= floor {
                    // with 0 added, -0 becomes 0: they are equally likely
                    self.all.push(Candidate { id, logit: logit + 0.0 });
                }
            }
            if self.all.len() > many {
                // ids ascend, so that of equal logits those that came first stay
                floor = self.select(k).next_up();
            }
        }
        if self.all.len() > k {
            self.select(k);
        }
    }

    /// Leaves the `k` likeliest of more than that, and returns the greatest logit of the rest.
    fn select(&mut self, k: usize) -> f32 {
        let (_, rest, _) = self.all.select_nth_unstable_by(k, |a, b| b.cmp(a));
        let logit = rest.logit;
        self.all.truncate(k);
        logit
    }

    /// Leaves the fewest likeliest candidates whose weights reach the part `p` of their sum; at
    /// least one.
    pub(crate) fn top_p(&mut self, p: u32) {
        if p == u32::MAX {
            return;
        }
        let greatest = self.greatest();
        let away = |c: &Candidate| distance(greatest, c.logit, Rule::NATURAL);
        let range = |distance: u32| ((distance / RANGE) as usize).min(RANGES - 1);
        self.weights.clear();
        self.weights.resize(RANGES, 0);
        for c in &self.all {
            let away = away(c);
            self.weights[range(away)] += u64::from(exp2(away));
        }
        let sum: u64 = self.weights.iter().sum();
        let enough = ((u128::from(p) * u128::from(sum)) >> 32) as u64;
        // whole ranges as long as they are not enough; the next one must be in order
        let mut reached = 0;
        let mut last = 0;
        for (i, weight) in self.weights.iter().enumerate() {
            last = i;
            if reached + weight >= enough {
                break;
            }
            reached += weight;
        }
        self.edge.clear();
        self.edge.extend(self.all.iter().filter(|c| range(away(c)) == last));
        self.edge.sort_unstable_by(|a, b| b.cmp(a));
        let least = self.edge.iter().find(|c| {
            reached += u64::from(exp2(away(c)));
            reached >= enough
        });
        if let Some(&least) = least {
            self.all.retain(|&c| c >= least);
        }
    }

    /// Leaves the candidates that are no farther than `reach` from the likeliest.
    pub(crate) fn within(&mut self, reach: u32) {
        let floor = floor(self.greatest(), reach, Rule::NATURAL);
        self.all.retain(|c| c.logit >= floor);
    }

    /// Draws one in proportion to 2 to the power of its distance, negated.
    pub(crate) fn draw(&self, scale: Scale, seed: u64, index: u64) -> Option<u32> {
        let mut best: Option<(i32, u32)> = None;
        let greatest = self.greatest();
        let mut noise = Noise::new(seed, index);
        for c in &self.all {
            // below FAR, so it is an i32, as are the differences
            let away = distance(greatest, c.logit, scale).min(Rule::FAR) as i32;
            // no noise is as much as an i32 can be
            let needed = best.map_or(i32::MIN, |(most, _)| most.saturating_add(away));
            let Some(drawn) = noise.gumbel_from(needed, c.id) else { continue };
            let value = drawn - away;
            if best.is_none_or(|(most, id)| value > most || (value == most && c.id < id)) {
                best = Some((value, c.id));
            }
        }
        best.map(|(_, id)| id)
    }

    fn greatest(&self) -> f32 {
        self.all.iter().map(|c| c.logit).fold(f32::NEG_INFINITY, f32::max)
    }

    #[cfg(test)]
    pub(crate) fn as_slice(&self) -> &[Candidate] {
        &self.all
    }
}

/// How far a logit is from the greatest; equal infinities are not apart.
pub(crate) fn distance(greatest: f32, logit: f32, scale: Scale) -> u32 {
    scale.times(if logit == greatest { 0.0 } else { greatest - logit })
}

/// The least logit that is no farther than `reach` from the greatest.
///
/// Distances never rise with the logit, so halving finds it, among the numbers in their order: as
/// whole numbers, their bits are in that order too, those of negative ones turned around.
pub(crate) fn floor(greatest: f32, reach: u32, scale: Scale) -> f32 {
    let turned = |bits: i32| bits ^ ((bits >> 31) as u32 >> 1) as i32;
    let place = |logit: f32| turned(logit.to_bits() as i32);
    let (mut least, mut most) = (place(f32::NEG_INFINITY), place(greatest));
    while least < most {
        let middle = least.midpoint(most);
        // midpoint rounds towards 0
        let middle = if middle == most { most - 1 } else { middle };
        match distance(greatest, f32::from_bits(turned(middle) as u32), scale) <= reach {
            true => most = middle,
            false => least = middle + 1,
        }
    }
    f32::from_bits(turned(most) as u32)
}
