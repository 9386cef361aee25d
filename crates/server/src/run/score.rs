//! Log-probabilities of the tokens of a prompt.

use pelton::Model;

use crate::error::ApiError;

/// A token of a prompt with its log-probabilities, which the first token has not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scored {
    pub(crate) id: u32,
    pub(crate) log_prob: Option<f32>,
    /// The likeliest tokens, in descending order.
    pub(crate) top: Vec<(u32, f32)>,
}

/// The log-probabilities of each token after the ones before it, and those of the `top` likeliest
/// ones. Blocks until no other request runs.
pub(crate) fn score(model: &Model, tokens: &[u32], top: usize) -> Result<Vec<Scored>, ApiError> {
    let first = |id| Scored { id, log_prob: None, top: Vec::new() };
    let mut all: Vec<Scored> = tokens.first().copied().map(first).into_iter().collect();
    if let [run @ .., _] = tokens
        && !run.is_empty()
    {
        let (run, next) = (run.to_vec(), tokens[1..].to_vec());
        let scored = model.session(run.len(), move |session| {
            let (mut scored, mut next) = (Vec::with_capacity(next.len()), next.into_iter());
            session.run_all(&run, |logits| {
                scored.extend(next.next().map(|id| one(logits, id, top)));
            })?;
            Ok(scored)
        })?;
        all.extend(scored);
    }
    Ok(all)
}

/// The log-probability of a token under logits `[vocab]`.
fn one(logits: &[f32], id: u32, top: usize) -> Scored {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - most).exp()).sum();
    let log_sum = f64::from(most) + sum.ln();
    let log_prob = |id: u32| {
        let logit = logits.get(id as usize).copied().unwrap_or(f32::NEG_INFINITY);
        (f64::from(logit) - log_sum) as f32
    };
    let mut best: Vec<u32> = Vec::with_capacity(top + 1);
    let logit = |id: u32| logits[id as usize];
    for candidate in 0..u32::try_from(logits.len()).unwrap_or(u32::MAX) {
        if best.len() == top && best.last().is_none_or(|&last| logit(candidate) <= logit(last)) {
            continue;
        }
        let at = best.partition_point(|&other| logit(other) >= logit(candidate));
        best.insert(at, candidate);
        best.truncate(top);
    }
    let top = best.into_iter().map(|id| (id, log_prob(id))).collect();
    Scored { id, log_prob: Some(log_prob(id)), top }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likeliest_tokens_with_the_lowest_id_first() {
        let scored = one(&[0.0, 2.0, 1.0, 2.0], 2, 3);
        // log(1 + e² + e + e²), by hand
        let log_sum = (1.0 + 2.0 * 2f64.exp() + 1f64.exp()).ln();
        assert!((f64::from(scored.log_prob.unwrap()) - (1.0 - log_sum)).abs() < 1e-6);
        let ids: Vec<u32> = scored.top.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [1, 3, 2]);
        assert_eq!(scored.top[2].1, scored.log_prob.unwrap());
        assert!(one(&[1.0], 0, 0).top.is_empty());
    }
}
