//! The choice of experts, the same on both paths: experts that are nearly as good must not change
//! places between them.

use pelton_graph::{ExpertGroups, Route, Scores};

/// The least sum that weights are divided by.
const LEAST_SUM: f64 = 6.103_515_625e-5;

/// The memory for the choice in one row.
#[derive(Debug)]
pub(crate) struct RouteScratch {
    /// The scores `[experts]`.
    scores: Vec<f64>,
    /// The scores with the bias for the choice `[experts]`, minus infinity where an expert may not
    /// be chosen.
    ranks: Vec<f64>,
    /// The scores of groups.
    groups: Vec<f64>,
    /// Whether an expert or a group has been chosen.
    taken: Vec<bool>,
}

impl RouteScratch {
    /// Allocates for a number of experts.
    pub(crate) fn new(experts: usize) -> Self {
        let zeros = || vec![0.0; experts];
        Self { scores: zeros(), ranks: zeros(), groups: zeros(), taken: vec![false; experts] }
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub(crate) fn bytes(experts: usize) -> u128 {
        (experts as u128).saturating_mul(3 * size_of::<f64>() as u128 + 1)
    }

    /// Chooses the experts of one row with `logits` `[experts]`; writes their ids and weights
    /// `[used]`. The ids are distinct experts even if logits are not finite.
    pub(crate) fn route(
        &mut self,
        route: &Route,
        bias: Option<&[f32]>,
        expert_scale: Option<&[f32]>,
        logits: &[f32],
        ids: &mut [f32],
        weights: &mut [f32],
    ) {
        let &Route { experts, used, scores, groups, normalize, scale, bias: _, expert_scale: _ } =
            route;
        let all = &mut self.scores[..experts];
        for (score, &logit) in all.iter_mut().zip(logits) {
            *score = match scores {
                Scores::Softmax | Scores::SelectedSoftmax => f64::from(logit),
                Scores::Sigmoid => 1.0 / (1.0 + (-f64::from(logit)).exp()),
            };
        }
        if scores == Scores::Softmax {
            softmax(all);
        }
        let ranks = &mut self.ranks[..experts];
        for (i, (rank, &score)) in ranks.iter_mut().zip(all.iter()).enumerate() {
            let rank_of = score + bias.map_or(0.0, |bias| f64::from(bias[i]));
            *rank = if rank_of.is_nan() { f64::NEG_INFINITY } else { rank_of };
        }
        let taken = &mut self.taken[..experts];
        taken.fill(false);
        if let Some(limits) = groups {
            keep_groups(limits, ranks, &mut self.groups, taken);
        }
        for (id, weight) in ids.iter_mut().zip(weights.iter_mut()).take(used) {
            let best = best(ranks, taken);
            taken[best] = true;
            *id = best as f32;
            *weight = all[best] as f32;
        }
        let chosen = |s: usize| all[ids[s] as usize];
        let (mut greatest, mut sum) = (0.0, 1.0);
        if scores == Scores::SelectedSoftmax {
            greatest = (0..used).map(chosen).fold(f64::NEG_INFINITY, f64::max);
            sum = (0..used).map(|s| (chosen(s) - greatest).exp()).sum();
        }
        let score = |s: usize| match scores {
            Scores::SelectedSoftmax => (chosen(s) - greatest).exp() / sum,
            Scores::Softmax | Scores::Sigmoid => chosen(s),
        };
        let divisor = match normalize {
            true => (0..used).map(score).sum::<f64>().max(LEAST_SUM),
            false => 1.0,
        };
        for (s, weight) in weights.iter_mut().enumerate().take(used) {
            let of_expert = expert_scale.map_or(1.0, |scale| f64::from(scale[ids[s] as usize]));
            *weight = (score(s) / divisor * f64::from(scale) * of_expert) as f32;
        }
    }
}

/// `e^x / Σ e^x`, in place.
fn softmax(x: &mut [f64]) {
    let greatest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for x in x.iter_mut() {
        *x = (*x - greatest).exp();
        sum += *x;
    }
    for x in x.iter_mut() {
        *x /= sum;
    }
}

/// The index of the greatest value that is not taken: the lowest of equal ones.
fn best(values: &[f64], taken: &[bool]) -> usize {
    let mut best = None;
    for (i, (&value, &taken)) in values.iter().zip(taken).enumerate() {
        if !taken && best.is_none_or(|best: usize| value > values[best]) {
            best = Some(i);
        }
    }
    best.unwrap_or(0)
}

/// Marks the experts outside of the best groups as taken.
fn keep_groups(limits: ExpertGroups, ranks: &[f64], groups: &mut [f64], taken: &mut [bool]) {
    let ExpertGroups { count, used, best: summands } = limits;
    let size = ranks.len() / count;
    let groups = &mut groups[..count];
    for (group, ranks) in groups.iter_mut().zip(ranks.chunks_exact(size)) {
        let mut greatest = [f64::NEG_INFINITY; 2];
        for &rank in ranks {
            if rank > greatest[0] {
                greatest = [rank, greatest[0]];
            } else if rank > greatest[1] {
                greatest[1] = rank;
            }
        }
        let sum: f64 = greatest[..summands].iter().sum();
        *group = if sum.is_nan() { f64::NEG_INFINITY } else { sum };
    }
    // a group is considered if fewer than `used` are better, the lower index first
    for (group, experts) in taken.chunks_exact_mut(size).enumerate() {
        let better = |&other: &usize| {
            let (a, b) = (groups[other], groups[group]);
            a > b || (a == b && other < group)
        };
        experts.fill((0..count).filter(better).count() >= used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTE: Route = Route {
        experts: 6,
        used: 2,
        scores: Scores::Softmax,
        bias: None,
        groups: None,
        normalize: false,
        scale: 1.0,
        expert_scale: None,
    };

    fn run(route: Route, bias: Option<&[f32]>, logits: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let (mut ids, mut weights) = (vec![-1.0; route.used], vec![-1.0; route.used]);
        let mut scratch = RouteScratch::new(route.experts);
        scratch.route(&route, bias, None, logits, &mut ids, &mut weights);
        (ids, weights)
    }

    #[test]
    fn ties_go_to_the_lowest_id() {
        assert_eq!(run(ROUTE, None, &[1.0, 2.0, 2.0, 0.0, 2.0, 1.0]).0, [1.0, 2.0]);
    }

    #[test]
    fn a_bias_changes_the_choice_only() {
        let logits = [0.0; 6];
        let bias = [0.0, 0.0, 0.0, 0.5, 0.0, 0.7];
        let (ids, weights) = run(ROUTE, Some(&bias), &logits);
        assert_eq!(ids, [5.0, 3.0]);
        assert_eq!(weights, [1.0 / 6.0; 2]);
    }

    #[test]
    fn groups_are_ranked_by_the_sum_of_their_best() {
        let logits = [0.9, -9.0, 0.5, 0.5, 0.4, 0.4];
        let groups = |best| Some(ExpertGroups { count: 3, used: 1, best });
        let route = Route { scores: Scores::Sigmoid, ..ROUTE };
        assert_eq!(run(Route { groups: groups(1), ..route }, None, &logits).0, [0.0, 1.0]);
        assert_eq!(run(Route { groups: groups(2), ..route }, None, &logits).0, [2.0, 3.0]);
    }

    #[test]
    fn weights_of_the_chosen_sum_to_the_scale() {
        let route = Route { normalize: true, scale: 2.5, ..ROUTE };
        for scores in [Scores::Softmax, Scores::Sigmoid, Scores::SelectedSoftmax] {
            let (_, weights) =
                run(Route { scores, ..route }, None, &[0.1, 3.0, -2.0, 1.0, 0.0, -7.0]);
            assert!((weights.iter().sum::<f32>() - 2.5).abs() < 1e-6, "{weights:?}");
        }
    }

    #[test]
    fn values_that_are_no_numbers_choose_distinct_experts() {
        for logit in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let groups = Some(ExpertGroups { count: 2, used: 1, best: 2 });
            for groups in [None, groups] {
                let (ids, _) = run(Route { groups, ..ROUTE }, None, &[logit; 6]);
                assert_eq!(ids, [0.0, 1.0], "{logit}");
            }
        }
    }
}
