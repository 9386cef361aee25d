//! Time of choosing a token from the logits of a large vocabulary.
//!
//! `cargo bench -p pelton-sampling`
//!
//! Zipf: the probabilities fall with the rank to the power of -1.5, in a random order of tokens,
//! as those of a trained model do roughly. Flat: normally distributed logits of deviation 1, the
//! worst for top-p, which keeps most of them. Ascending: the Zipf ones in order, the worst for
//! whatever keeps the best so far.

use std::{hint::black_box, time::Instant};

use pelton_sampling::{Sampler, Sampling};

/// Qwen3's.
const VOCABULARY: usize = 151_936;
const TOKENS: usize = 64;

/// Uniform in (0, 1), by Knuth's MMIX generator.
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
    // Box and Muller's transform
    let mut normal = || {
        let radius = (-2.0 * uniform(&mut state).ln()).sqrt();
        radius * (std::f32::consts::TAU * uniform(&mut state)).cos()
    };
    let flat: Vec<f32> = (0..VOCABULARY).map(|_| normal()).collect();

    let default = || Sampling { seed: Some(1), ..Sampling::default() };
    let all = || Sampling { top_k: 0, top_p: 1.0, min_p: 0.0, ..default() };
    let ways = [
        ("greedy", Sampling::greedy()),
        ("default", default()),
        ("default, repetition penalty", Sampling { repetition_penalty: 1.1, ..default() }),
        ("top-p 0.95", Sampling { top_p: 0.95, ..all() }),
        ("min-p 0.05", Sampling { min_p: 0.05, ..all() }),
        ("temperature 0.8", all()),
    ];
    let history: Vec<u32> = (0..64).map(|i| i * 2000).collect();
    println!("{:30}{:>14}{:>14}{:>14}", "microseconds a token", "Zipf", "flat", "ascending");
    for (name, sampling) in ways {
        print!("{name:30}");
        for logits in [&zipf, &flat, &ascending] {
            let mut sampler = Sampler::new(sampling.clone());
            let mut times: Vec<f64> = (0..TOKENS)
                .map(|index| {
                    let start = Instant::now();
                    black_box(sampler.choose(black_box(logits), &history, index as u64));
                    start.elapsed().as_secs_f64()
                })
                .collect();
            times.sort_by(f64::total_cmp);
            print!("{:>14.0}", times[TOKENS / 2] * 1e6);
        }
        println!();
    }
}
