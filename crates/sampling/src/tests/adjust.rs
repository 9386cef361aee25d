//! Biases, penalties and masks compared with f64 arithmetic.

use std::collections::HashMap;

use super::{Random, draw, token, unfiltered};
use crate::{Draw, Penalties, Sampler, Sampling, adjust::Adjusted};

/// The adjusted logits in f64; `None` for masked ones.
fn by_definition(logits: &[f32], draw: &Draw<'_>, history: &[u32]) -> Vec<Option<f64>> {
    let mut adjusted: Vec<f64> = logits.iter().map(|&l| f64::from(l)).collect();
    for &(id, bias) in draw.bias {
        adjusted[id as usize] += f64::from(bias);
    }
    if let Some(p) = draw.penalties {
        let recent = history.len().saturating_sub(p.window as usize);
        let mut counts = HashMap::new();
        for &id in &history[recent..] {
            *counts.entry(id as usize).or_insert(0) += 1;
        }
        for (id, count) in counts {
            let l = adjusted[id];
            let repetition = f64::from(p.repetition);
            let l = if l > 0.0 { l / repetition } else { l * repetition };
            adjusted[id] = l - f64::from(p.presence) - f64::from(count) * f64::from(p.frequency);
        }
    }
    let allowed = |id: usize| draw.mask.is_none_or(|mask| mask[id / 32] >> (id % 32) & 1 == 1);
    adjusted.into_iter().enumerate().map(|(id, l)| allowed(id).then_some(l)).collect()
}

#[test]
fn adjustments_are_those_of_the_definitions() {
    let mut random = Random(11);
    for case in 0..40 {
        let n = [1, 31, 64, 1000][case % 4];
        let logits = random.logits(n, 40.0);
        let history: Vec<u32> = (0..case * 9).map(|_| random.below(n as u32)).collect();
        let bias: Vec<(u32, f32)> =
            (0..n as u32).step_by(7).map(|id| (id, random.below(200) as f32 - 100.0)).collect();
        let mask: Vec<u32> = (0..n.div_ceil(32)).map(|_| random.below(1 << 31) * 2 + 1).collect();
        let penalties = Penalties {
            repetition: [1.0, 1.3, 0.7][case % 3],
            presence: [0.0, 0.4, -1.5][case / 3 % 3],
            frequency: [0.0, 0.25, -0.1][case / 9 % 3],
            window: [1, 64, 4096][case % 3],
        };
        let draw = Draw {
            penalties: (case % 5 != 0).then_some(penalties),
            bias: if case % 4 == 1 { &[] } else { &bias },
            mask: (case % 2 == 0).then_some(&mask),
            ..Draw::GREEDY
        };
        let mut adjusted = Adjusted::default();
        let got = adjusted.of(&logits, &draw, &history);
        for (got, expected) in got.iter().zip(by_definition(&logits, &draw, &history)) {
            match expected {
                None => assert!(got.is_nan()),
                // up to 351 additions of rounded amounts
                Some(expected) => {
                    assert!((f64::from(*got) - expected).abs() < 1e-4, "{got} for {expected}");
                }
            }
        }
    }
}

#[test]
fn logits_are_copied_only_to_be_changed() {
    let logits = [1.0, 2.0];
    let mut adjusted = Adjusted::default();
    let same = |draw: &Draw<'_>, history: &[u32], adjusted: &mut Adjusted| {
        std::ptr::eq(adjusted.of(&logits, draw, history), &logits[..])
    };
    let neutral = Penalties { repetition: 1.0, presence: 0.0, frequency: 0.0, window: 64 };
    let penalties = Penalties { presence: 1.0, ..neutral };
    assert!(same(&Draw::GREEDY, &[0], &mut adjusted));
    assert!(same(&Draw { penalties: Some(neutral), ..Draw::GREEDY }, &[0], &mut adjusted));
    let draw = Draw { penalties: Some(penalties), ..Draw::GREEDY };
    assert!(same(&draw, &[], &mut adjusted));
    assert!(!same(&draw, &[0], &mut adjusted));
}

#[test]
fn masks_limit_every_draw() {
    let logits = Random(5).logits(300, 10.0);
    let mut mask = [0u32; 10];
    for sampling in [Sampling::greedy(), Sampling::default(), unfiltered()] {
        let masked = |mask: &[u32], index| {
            token(&logits, &Draw { mask: Some(mask), ..draw(&sampling, index) }, &[])
        };
        // none, also where the mask is too short
        assert_eq!(masked(&mask, 0), None);
        assert_eq!(masked(&[], 0), None);
        // one, the last token included
        for id in [0, 31, 32, 299] {
            mask = [0; 10];
            mask[id / 32] = 1 << (id % 32);
            assert_eq!(masked(&mask, 3), Some(id as u32));
        }
        // several
        mask = [0x0000_1001; 10];
        for index in 0..100 {
            let id = masked(&mask, index).unwrap();
            assert!([0, 12].contains(&(id % 32)), "{id}");
        }
        mask = [0; 10];
    }
}

/// Values out of range neither panic nor change tokens that do not exist.
#[test]
fn hostile_draws_do_not_panic() {
    let logits = [1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40];
    for value in [f32::NAN, f32::INFINITY, -1.0, 0.0, 1e-40, f32::MAX] {
        let penalties =
            Penalties { repetition: value, presence: value, frequency: value, window: u32::MAX };
        let bias = [(1, value), (4, value), (u32::MAX, value)];
        let draw = Draw {
            penalties: Some(penalties),
            bias: &bias,
            log_probs: Some(255),
            ..draw(&Sampling::default(), 0)
        };
        let sampled = Sampler::new().sample(&logits, usize::MAX, &draw, &[0, 9, 1, 2, 3, 4]);
        assert!(sampled.token.is_none_or(|token| token < 5));
    }
}
