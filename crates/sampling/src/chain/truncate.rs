//! Samplers that remove candidates.

use super::candidates::Candidates;

pub(super) fn top_k(candidates: &mut Candidates, k: usize) {
    if k > 0 {
        candidates.keep_likeliest(k);
    }
}

pub(super) fn top_n_sigma(candidates: &mut Candidates, n: f64) {
    if n <= 0.0 || candidates.len() <= 1 {
        return;
    }
    let count = candidates.len() as f64;
    let mean = candidates.iter().map(|c| c.logit).sum::<f64>() / count;
    let variance = candidates.iter().map(|c| (c.logit - mean).powi(2)).sum::<f64>() / count;
    let least = candidates.greatest() - n * variance.sqrt();
    candidates.retain(|c| c.logit >= least);
}

pub(super) fn typical(candidates: &mut Candidates, p: f64, min_keep: usize) {
    if p >= 1.0 {
        return;
    }
    candidates.sort();
    candidates.softmax();
    let entropy = candidates.entropy();
    // infinite information where a probability underflows
    let mut by_shift: Vec<_> =
        candidates.iter().map(|c| ((-c.p.ln() - entropy).abs(), *c)).collect();
    // a stable sort: of equal ones the likelier first
    by_shift.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut sum = 0.0;
    let enough = by_shift.iter().enumerate().position(|(i, (_, c))| {
        sum += c.p;
        sum > p && i + 1 >= min_keep
    });
    by_shift.truncate(enough.map_or(by_shift.len(), |last| last + 1));
    candidates.replace(by_shift.into_iter().map(|(_, c)| c).collect());
}

pub(super) fn top_p(candidates: &mut Candidates, p: f64, min_keep: usize) {
    if p >= 1.0 {
        return;
    }
    candidates.softmax();
    let mut sum = 0.0;
    let enough = candidates.sort().iter().enumerate().position(|(i, c)| {
        sum += c.p;
        sum >= p && i + 1 >= min_keep
    });
    if let Some(last) = enough {
        candidates.keep_likeliest(last + 1);
    }
}

pub(super) fn min_p(candidates: &mut Candidates, p: f64, min_keep: usize) {
    if p <= 0.0 {
        return;
    }
    let least = candidates.greatest() + p.ln();
    let kept = candidates.iter().filter(|c| c.logit >= least).count();
    // above 1 no token is likely enough: the likeliest stays
    let kept = kept.max(min_keep).max(1);
    candidates.sort();
    candidates.keep_likeliest(kept);
}

/// `u` is uniform in (0, 1).
pub(super) fn xtc(
    candidates: &mut Candidates,
    u: f64,
    probability: f64,
    threshold: f64,
    min_keep: usize,
) {
    if probability <= 0.0 || threshold > 0.5 || candidates.len() < 2 || u > probability {
        return;
    }
    candidates.softmax();
    let choices = candidates.sort().iter().take_while(|c| c.p >= threshold).count();
    let Some(removed) = choices.checked_sub(1) else { return };
    if candidates.len() - removed >= min_keep.max(1) {
        candidates.drop_first(removed);
    }
}
