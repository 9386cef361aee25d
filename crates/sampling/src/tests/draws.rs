//! Draws compared with softmax, filters and Gumbel noise in f64, written from their definitions.

use std::cmp::Ordering;

use super::{Random, draw, token, unfiltered};
use crate::{Draw, Sampler, Sampling};

/// The random word of a token: word `token % 4` of Philox4x32-10 with the counter
/// `(token / 4, index, 0)` under the key `seed` (Salmon et al. 2011, figure 2).
fn philox_word(seed: u64, index: u64, token: u32) -> u32 {
    let mut x = [token / 4, index as u32, (index >> 32) as u32, 0];
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let a = 0xD251_1F53u64 * u64::from(x[0]);
        let b = 0xCD9E_8D57u64 * u64::from(x[2]);
        x = [
            (b >> 32) as u32 ^ x[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ x[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    x[token as usize % 4]
}

/// A standard Gumbel variable.
fn gumbel(seed: u64, index: u64, token: u32) -> f64 {
    let u = f64::from(philox_word(seed, index, token) | 1) / 4_294_967_296.0;
    -(-u.ln()).ln()
}

/// Whether a filter certainly keeps a token, and whether it does within its rounding errors.
#[derive(Clone, Copy)]
struct Kept {
    id: u32,
    logit: f32,
    surely: bool,
    maybe: bool,
}

/// The tokens after top-k, top-p and min-p.
fn filtered(logits: &[f32], sampling: &Sampling) -> Vec<Kept> {
    let mut all: Vec<Kept> = (0..)
        .zip(logits)
        .filter(|(_, logit)| !logit.is_nan())
        .map(|(id, &logit)| Kept { id, logit, surely: true, maybe: true })
        .collect();
    let descending = |a: &Kept, b: &Kept| b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal);
    all.sort_by(|a, b| descending(a, b).then(a.id.cmp(&b.id)));
    if sampling.top_k != 0 {
        all.truncate(sampling.top_k);
    }
    let Some(greatest) = all.first().map(|c| c.logit) else { return all };
    let weight = |logit: f32| (-difference(greatest, logit)).exp();
    if sampling.top_p < 1.0 {
        let total: f64 = all.iter().map(|c| weight(c.logit)).sum();
        let p = f64::from(sampling.top_p);
        let mut before = 0.0;
        for (i, c) in all.iter_mut().enumerate() {
            // a token is kept if those before it do not reach the probability
            c.surely &= i == 0 || before < p * total * (1.0 - 2e-7);
            c.maybe &= i == 0 || before <= p * total * (1.0 + 2e-7);
            before += weight(c.logit);
        }
    }
    if sampling.min_p > 0.0 {
        let reach = -f64::from(sampling.min_p).ln();
        for c in &mut all {
            let d = difference(greatest, c.logit);
            c.surely &= d <= reach * (1.0 - 1e-7) - 1e-7 || d == 0.0;
            c.maybe &= d <= reach * (1.0 + 1e-7) + 1e-7;
        }
    }
    all.retain(|c| c.maybe);
    all
}

fn difference(greatest: f32, logit: f32) -> f64 {
    if greatest == logit { 0.0 } else { f64::from(greatest) - f64::from(logit) }
}

/// Checks that a drawn token is kept and that no certainly kept token has a greater value of
/// logit / temperature + noise, but for rounding.
fn check_draw(logits: &[f32], sampling: &Sampling, index: u64) {
    let seed = sampling.seed.unwrap();
    let got = token(logits, &draw(sampling, index), &[]);
    let kept = filtered(logits, sampling);
    let Some(greatest) = kept.first().map(|c| c.logit) else {
        assert_eq!(got, None);
        return;
    };
    let value = |c: &Kept| {
        gumbel(seed, index, c.id) - difference(greatest, c.logit) / f64::from(sampling.temperature)
    };
    let drawn = kept.iter().find(|c| Some(c.id) == got);
    let drawn = drawn.unwrap_or_else(|| panic!("{got:?} was not kept: {sampling:?}"));
    let best = kept.iter().filter(|c| c.surely).map(value).fold(f64::NEG_INFINITY, f64::max);
    assert!(value(drawn) >= best - 1e-5, "{sampling:?}: {} below {best}", value(drawn));
}

/// Single draws, on logits with many ties and on extreme ones.
#[test]
fn draws_are_those_of_the_definitions() {
    let mut random = Random(1);
    let mut rough = |n: usize, step: f32, range: u32| -> Vec<f32> {
        (0..n).map(|_| random.below(range) as f32 * step - 3.0).collect()
    };
    let mut cases: Vec<Vec<f32>> = Vec::new();
    for (n, step, range) in [(1, 1.0, 9), (63, 0.5, 20), (700, 0.25, 40), (3000, 0.003, 9000)] {
        cases.push(rough(n, step, range));
    }
    cases.push((0..1000).map(|i| i as f32 * 0.02).collect());
    cases.push((0..1000).map(|i| i as f32 * -0.02).collect());
    let strange = [f32::NAN, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX, f32::MIN, 1e-40, -1e-40];
    cases.push(strange.repeat(20));
    cases.push([&strange[..], &[f32::INFINITY; 3]].concat().repeat(9));
    cases.push(vec![f32::NEG_INFINITY; 70]);
    cases.push(vec![f32::NAN; 70]);
    for logits in &cases {
        for top_k in [0, 2, 40, 64, 5000] {
            for top_p in [0.0, 0.5, 0.95, 0.999_999, 1.0] {
                for (min_p, temperature) in [(0.0, 0.8), (0.05, 0.1), (0.0, 1e-30), (1.0, 30.0)] {
                    let sampling = Sampling::default()
                        .top_k(top_k)
                        .top_p(top_p)
                        .min_p(min_p)
                        .temperature(temperature)
                        .seed(top_k as u64);
                    for index in 0..3 {
                        check_draw(logits, &sampling, index);
                    }
                }
            }
        }
    }
}

/// Pearson's chi-squared test of 20,000 draws against softmax probabilities after the filters.
#[test]
fn draws_follow_the_filtered_softmax() {
    let logits = Random(7).logits(50, 8.0);
    let cases = [
        unfiltered().temperature(1.0),
        unfiltered().temperature(2.5),
        unfiltered().temperature(0.7).top_k(12),
        unfiltered().temperature(1.3).top_p(0.9),
        unfiltered().temperature(1.0).min_p(0.03),
        Sampling::default(),
    ];
    for (seed, sampling) in (0..).zip(cases) {
        let sampling = sampling.seed(seed);
        let kept = filtered(&logits, &sampling);
        assert!(kept.iter().all(|c| c.surely), "a border is too close for this test");
        let weights: Vec<f64> = kept
            .iter()
            .map(|c| (f64::from(c.logit) / f64::from(sampling.temperature)).exp())
            .collect();
        let total: f64 = weights.iter().sum();
        let n = 20_000;
        let mut counts = vec![0u32; logits.len()];
        for index in 0..n {
            counts[token(&logits, &draw(&sampling, index), &[]).unwrap() as usize] += 1;
        }
        assert_eq!(kept.iter().map(|c| counts[c.id as usize]).sum::<u32>(), n as u32);
        // tokens that are expected fewer than ten times are counted as one
        let (mut squares, mut degrees) = (0.0, -1.0);
        let (mut rare, mut rare_count) = (0.0, 0.0);
        for (c, weight) in kept.iter().zip(&weights) {
            let (expected, count) = (weight / total * n as f64, f64::from(counts[c.id as usize]));
            if expected < 10.0 {
                (rare, rare_count) = (rare + expected, rare_count + count);
                continue;
            }
            squares += (count - expected).powi(2) / expected;
            degrees += 1.0;
        }
        if rare > 0.0 {
            squares += (rare_count - rare).powi(2) / rare;
            degrees += 1.0;
        }
        // mean and standard deviation of the distribution: its degrees, √(2 · degrees)
        let limit = degrees + 4.0 * f64::sqrt(2.0 * degrees);
        assert!(squares < limit, "{sampling:?}: {squares} with {degrees} degrees of freedom");
    }
}

#[test]
fn hostile_logits_do_not_panic() {
    let strange = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, f32::MAX, f32::MIN];
    for top_k in [0, 1, 3, 100] {
        for temperature in [0.0, 1e-30, 1.0, 1e30] {
            let sampling = Sampling::default().top_k(top_k).temperature(temperature);
            let draw = draw(&sampling, 0);
            assert_eq!(token(&strange, &draw, &[0, 1, 99]), Some(1), "infinity is the greatest");
            assert_eq!(token(&[f32::NAN; 4], &draw, &[]), None);
        }
    }
}

/// Ids from `tokens` on are never drawn, however likely.
#[test]
fn padded_ids_are_never_drawn() {
    let mut logits = Random(3).logits(1100, 4.0);
    logits[1000..].fill(50.0);
    let mut sampler = Sampler::new();
    for sampling in [Sampling::greedy(), Sampling::default(), unfiltered().temperature(9.0)] {
        for index in 0..200 {
            let draw = Draw { log_probs: Some(5), ..draw(&sampling, index) };
            let sampled = sampler.sample(&logits, 1000, &draw, &[]);
            assert!(sampled.token.unwrap() < 1000);
            let log_probs = sampled.log_probs.unwrap();
            assert!(log_probs.top.iter().all(|&(id, _)| id < 1000));
            // the padded ids have nearly all of the probability
            assert!(log_probs.top[0].1 < -45.0);
        }
        assert_eq!(sampler.sample(&logits, 0, &draw(&sampling, 0), &[]).token, None);
    }
}
