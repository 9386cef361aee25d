//! Log-probabilities compared with the log-softmax in f64.

use super::{Random, draw, unfiltered};
use crate::{Draw, LogProbs, LogSum, Sampler, Sampling};

/// The log-softmax in f64.
fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let numbers = || logits.iter().filter(|l| !l.is_nan()).map(|&l| f64::from(l));
    let greatest = numbers().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = numbers().map(|l| (l - greatest).exp()).sum();
    logits.iter().map(|&l| f64::from(l) - greatest - sum.ln()).collect()
}

#[test]
fn log_probs_of_large_vocabularies() {
    for range in [1.0, 5.0, 20.0, 80.0] {
        let mut logits = Random(range as u64).logits(150_000, range);
        for i in (0..logits.len()).step_by(97) {
            logits[i] = [f32::NAN, f32::NEG_INFINITY][i % 2];
        }
        let sum = LogSum::of(&logits);
        for (&logit, expected) in logits.iter().zip(log_softmax(&logits)) {
            if logit.is_nan() {
                continue;
            }
            let got = sum.log_prob(logit);
            if logit == f32::NEG_INFINITY {
                assert_eq!(got, f32::NEG_INFINITY);
                continue;
            }
            // the result is an f32: half of its last digit is not an error of the sum
            let rounding = f64::from(expected.abs() as f32) * 2f64.powi(-24);
            let error = (f64::from(got) - expected).abs() - rounding;
            assert!(error < 2e-6, "{got} for {expected} in a range of {range}");
        }
    }
}

/// The likeliest tokens and the drawn one, under raw logits whatever biases and masks change.
#[test]
fn top_tokens_of_raw_logits() {
    let mut random = Random(2);
    let mut sampler = Sampler::new();
    for case in 0..60u64 {
        let n = [3, 40, 1000][case as usize % 3];
        // few levels, so that there are ties
        let mut logits: Vec<f32> = (0..n).map(|_| random.below(9) as f32 * 0.7 - 3.0).collect();
        logits[0] = f32::NAN;
        let tokens = n - case as usize % 2;
        let top = [0, 1, 7, 20][case as usize / 3 % 4];
        let mask = vec![0xAAAA_AAAA; n.div_ceil(32)];
        let sampling = unfiltered().temperature(2.0).seed(case);
        let draw = Draw {
            log_probs: Some(top),
            mask: (case % 4 == 3).then_some(&mask),
            bias: &[(1, 2.5)],
            ..draw(&sampling, case)
        };
        let sampled = sampler.sample(&logits, tokens, &draw, &[]);
        let expected = log_softmax(&logits);
        let mut order: Vec<u32> = (1..tokens as u32).collect();
        order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
        order.truncate(usize::from(top));
        let LogProbs { drawn, top } = sampled.log_probs.unwrap();
        assert_eq!(top.iter().map(|&(id, _)| id).collect::<Vec<_>>(), order);
        let token = sampled.token.unwrap();
        for (id, log_prob) in [&[(token, drawn)], &top[..]].concat() {
            assert!((f64::from(log_prob) - expected[id as usize]).abs() < 2e-6);
        }
    }
}

#[test]
fn infinite_logits() {
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    let log_prob = |logits: &[f32], logit| LogSum::of(logits).log_prob(logit);
    // equal infinities share the probability
    assert_eq!(log_prob(&[infinity, 1.0, infinity], infinity), -2f32.ln());
    assert_eq!(log_prob(&[infinity, 1.0], 1.0), -infinity);
    assert_eq!(log_prob(&[-infinity; 4], -infinity), -4f32.ln());
    assert_eq!(LogSum::of(&[nan]), LogSum { greatest: -infinity, sum: 0 });
    assert_eq!(LogSum::of(&[]).sum, 0);
    let draw = Draw { log_probs: Some(3), ..Draw::GREEDY };
    assert_eq!(Sampler::new().sample(&[nan; 5], 5, &draw, &[]).log_probs, None);
    assert_eq!(draw_of(&Sampling::greedy()).log_probs, None);
}

/// Log-probabilities are computed only where a draw asks for them.
fn draw_of(sampling: &Sampling) -> crate::Sampled {
    Sampler::new().sample(&[1.0, 2.0], 2, &draw(sampling, 0), &[])
}
