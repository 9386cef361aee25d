//! The tokens that filters keep.

use std::cmp::Ordering;

use crate::{
    distance::{any_reaches, distance, floor},
    fixed_params::FixedParams,
    fixed_point::{FRACTION, Scale, exp2},
    noise::Noise,
};

/// A token and its logit, ordered by logit; of equal logits the lower id is the greater candidate.
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

/// Logits that are compared with a floor at once.
const CHUNK: usize = 64;
/// Width of one bin of the histogram of distances in [`Candidates::top_p`]: 32 bins an octave, up
/// to the distance at which every weight underflows to 0.
const BIN: u32 = 1 << (FRACTION - 5);
const BINS: usize = 1024;

/// A set of candidates.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    all: Vec<Candidate>,
    /// Histogram: the sum of weights in each bin of distances.
    weights: Vec<u64>,
    /// The candidates of the bin in which top-p cuts.
    edge: Vec<Candidate>,
}

impl Candidates {
    /// Replaces the set by the `k` likeliest tokens whose logits are at least `floor`.
    pub(crate) fn fill(&mut self, logits: &[f32], k: usize, mut floor: f32) {
        self.all.clear();
        // a selection takes linear time, so it runs once for every k new candidates at most
        let many = k.saturating_mul(2).max(CHUNK);
        for (at, chunk) in (0..).step_by(CHUNK).zip(logits.chunks(CHUNK)) {
            if !any_reaches(floor, chunk) {
                continue;
            }
            for (id, &logit) in (at..).zip(chunk) {
                if logit >= floor {
                    // adding 0 turns -0 into 0: they are equally likely
                    self.all.push(Candidate { id, logit: logit + 0.0 });
                }
            }
            if self.all.len() > many {
                // ids ascend, so of equal logits the earlier ones stay
                floor = self.select(k).next_up();
            }
        }
        if self.all.len() > k {
            self.select(k);
        }
    }

    /// Keeps the `k` likeliest of more than `k` candidates and returns the greatest logit removed.
    fn select(&mut self, k: usize) -> f32 {
        let (_, rest, _) = self.all.select_nth_unstable_by(k, |a, b| b.cmp(a));
        let logit = rest.logit;
        self.all.truncate(k);
        logit
    }

    /// Keeps the fewest likeliest candidates, at least one, whose weights reach `p · 2⁻³²` of the
    /// sum of all weights. `u32::MAX` keeps all (nucleus sampling; Holtzman et al., arXiv
    /// 1904.09751).
    pub(crate) fn top_p(&mut self, p: u32) {
        if p == u32::MAX {
            return;
        }
        let greatest = self.greatest();
        let distance_of = |c: &Candidate| distance(greatest, c.logit, FixedParams::NATURAL);
        let bin = |distance: u32| ((distance / BIN) as usize).min(BINS - 1);
        self.weights.clear();
        self.weights.resize(BINS, 0);
        for c in &self.all {
            let distance = distance_of(c);
            self.weights[bin(distance)] += u64::from(exp2(distance));
        }
        let sum: u64 = self.weights.iter().sum();
        let enough = ((u128::from(p) * u128::from(sum)) >> 32) as u64;
        // whole bins as long as they are not enough; only the next bin must be sorted
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
        self.edge.extend(self.all.iter().filter(|c| bin(distance_of(c)) == last));
        self.edge.sort_unstable_by(|a, b| b.cmp(a));
        let least = self.edge.iter().find(|c| {
            reached += u64::from(exp2(distance_of(c)));
            reached >= enough
        });
        if let Some(&least) = least {
            self.all.retain(|&c| c >= least);
        }
    }

    /// Keeps the candidates at most `reach` from the likeliest (min-p).
    pub(crate) fn within(&mut self, reach: u32) {
        let floor = floor(self.greatest(), reach, FixedParams::NATURAL);
        self.all.retain(|c| c.logit >= floor);
    }

    /// Draws a candidate with probability proportional to `2^-distance`.
    pub(crate) fn draw(&self, scale: Scale, seed: u64, index: u64) -> Option<u32> {
        let mut best: Option<(i32, u32)> = None;
        let greatest = self.greatest();
        let mut noise = Noise::new(seed, index);
        for c in &self.all {
            // at most FAR, so the difference from the noise fits an i32
            let distance = distance(greatest, c.logit, scale).min(FixedParams::FAR) as i32;
            // all noise is far above i32::MIN
            let needed = best.map_or(i32::MIN, |(most, _)| most.saturating_add(distance));
            let Some(drawn) = noise.gumbel_from(needed, c.id) else { continue };
            let value = drawn - distance;
            if best.is_none_or(|(most, id)| value > most || (value == most && c.id < id)) {
                best = Some((value, c.id));
            }
        }
        best.map(|(_, id)| id)
    }

    fn greatest(&self) -> f32 {
        self.all.iter().map(|c| c.logit).fold(f32::NEG_INFINITY, f32::max)
    }

    /// All candidates, the likeliest first.
    pub(crate) fn sorted(&mut self) -> &[Candidate] {
        self.all.sort_unstable_by(|a, b| b.cmp(a));
        &self.all
    }

    #[cfg(test)]
    pub(crate) fn as_slice(&self) -> &[Candidate] {
        &self.all
    }
}
