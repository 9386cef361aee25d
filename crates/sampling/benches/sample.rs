//! Time to sample a token from the logits of a large vocabulary.
//!
//! `cargo bench -p pelton-sampling`
//!
//! Zipf: the probabilities fall with the rank to the power of -1.5, in a random order of tokens,
//! roughly like those of a trained model. Flat: normally distributed logits of deviation 1, the
//! worst case of top-p, which keeps most of them. Ascending: the Zipf logits in order, the worst
//! case of a running maximum.

use std::{hint::black_box, time::Instant};

use pelton_sampling::{Draw, Sampler, Sampling};

/// The tokens of Qwen3's vocabulary.
const VOCABULARY: usize = 151_936;
const TOKENS: usize = 64;

/// Uniform in (0, 1): Knuth's MMIX generator.
fn uniform(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 40) as f32 + 0.5) / (1 << 24) as f32
}

fn main() {
    let mut state = 1;
    let ascending: Vec<f32> =
        (1..=VOCABULARY).rev().map(|rank| -1.5 * (rank as f32).ln()).collect();
    let mut zipf = ascending.clone();
    for last in (1..VOCABULARY).rev() {
        let other = (uniform(&mut state) * (last + 1) as f32) as usize;
        zipf.swap(last, other.min(last));
    }
    // the Box-Muller transform
    let mut normal = || {
        let radius = (-2.0 * uniform(&mut state).ln()).sqrt();
        radius * (std::f32::consts::TAU * uniform(&mut state)).cos()
    };
    let flat: Vec<f32> = (0..VOCABULARY).map(|_| normal()).collect();

    let default = || Sampling::default().seed(1);
    let all = || default().top_k(0).top_p(1.0).min_p(0.0);
    let mask = vec![0x5555_5555; VOCABULARY.div_ceil(32)];
    let plain = Draw::GREEDY;
    let cases = [
        ("greedy", Sampling::greedy(), plain),
        ("default", default(), plain),
        ("default, repetition penalty", default().repetition_penalty(1.1), plain),
        ("default, mask", default(), Draw { mask: Some(&mask), ..plain }),
        ("default, 20 log-probs", default(), Draw { log_probs: Some(20), ..plain }),
        ("top-p 0.95", all().top_p(0.95), plain),
        ("min-p 0.05", all().min_p(0.05), plain),
        ("temperature 0.8", all(), plain),
    ];
    let history: Vec<u32> = (0..64).map(|i| i * 2000).collect();
    println!("{:30}{:>14}{:>14}{:>14}", "microseconds a token", "Zipf", "flat", "ascending");
    for (name, sampling, extra) in cases {
        print!("{name:30}");
        let draw = Draw {
            params: sampling.params(),
            penalties: sampling.penalties(),
            seed: sampling.seed_or_random(),
            ..extra
        };
        for logits in [&zipf, &flat, &ascending] {
            let mut sampler = Sampler::new();
            let mut times: Vec<f64> = (0..TOKENS)
                .map(|index| {
                    let draw = Draw { index: index as u64, ..draw };
                    let start = Instant::now();
                    black_box(sampler.sample(black_box(logits), VOCABULARY, &draw, &history));
                    start.elapsed().as_secs_f64()
                })
                .collect();
            times.sort_by(f64::total_cmp);
            print!("{:>14.0}", times[TOKENS / 2] * 1e6);
        }
        println!();
    }
}
