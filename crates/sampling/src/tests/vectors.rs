//! The cases of llama.cpp's `test-sampling.cpp` for the samplers that this crate has.

use super::token;
use crate::{Draw, FixedParams, Penalties, candidates::Candidates};

const ALL: usize = usize::MAX;
const NO_FLOOR: f32 = f32::NEG_INFINITY;

/// The probabilities of the kept candidates, likeliest first.
fn probabilities(candidates: &mut Candidates) -> Vec<f64> {
    let weights: Vec<f64> = candidates.sorted().iter().map(|c| f64::from(c.logit).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|w| w / total).collect()
}

fn params(top_p: f32, min_p: f32) -> FixedParams {
    FixedParams::new(1.0, 0, top_p, min_p).unwrap()
}

fn logits(values: &serde_json::Value) -> Vec<f32> {
    floats(values).iter().map(|p| p.ln() as f32).collect()
}

fn floats(values: &serde_json::Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[test]
fn outside_vectors() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/vectors/test-sampling.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        pelton_testing::skip(pelton_testing::Need::Data, format_args!("no {path}"));
        return;
    };
    let cases: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let mut checked = 0;
    for case in &cases {
        let args = case["args"].as_array().unwrap();
        let number = |i: usize| args[i].as_f64().unwrap();
        let mut left = Candidates::default();
        let mut expected;
        match case["fn"].as_str().unwrap() {
            "test_top_k" => {
                expected = floats(&args[1]);
                let k = number(2) as usize;
                left.fill(&logits(&args[0]), if k == 0 { ALL } else { k }, NO_FLOOR);
            }
            "test_top_p" => {
                expected = floats(&args[1]);
                left.fill(&logits(&args[0]), ALL, NO_FLOOR);
                left.top_p(params(number(2) as f32, 0.0).top_p);
            }
            "test_min_p" => {
                expected = floats(&args[1]);
                left.fill(&logits(&args[0]), ALL, NO_FLOOR);
                left.within(params(1.0, number(2) as f32).reach);
            }
            "test_penalties" => {
                expected = floats(&args[2]);
                let recent: Vec<u32> = floats(&args[1]).iter().map(|&id| id as u32).collect();
                let penalties = Penalties {
                    repetition: number(3) as f32,
                    frequency: number(4) as f32,
                    presence: number(5) as f32,
                    window: recent.len() as u32,
                };
                let draw = Draw { penalties: Some(penalties), ..Draw::GREEDY };
                let mut adjusted = crate::adjust::Adjusted::default();
                let logits = logits(&args[0]);
                left.fill(adjusted.of(&logits, &draw, &recent), ALL, NO_FLOOR);
            }
            "test_sampler_queue" => {
                check_queue(args);
                checked += 1;
                continue;
            }
            _ => continue,
        }
        checked += 1;
        expected.sort_by(|a, b| b.total_cmp(a));
        let got = probabilities(&mut left);
        assert_eq!(got.len(), expected.len(), "{case}");
        for (got, expected) in got.iter().zip(&expected) {
            assert!((got - expected).abs() < 1e-4, "{case}: {got} for {expected}");
        }
    }
    assert!(checked > 38, "only {checked} cases were recognized");
}

/// `n` tokens with logits ln(0), ln(1), …: the kept ones follow in closed form.
fn check_queue(args: &[serde_json::Value]) {
    let n = args[0].as_u64().unwrap() as usize;
    let (k, p, m) = (
        args[2].as_u64().unwrap() as usize,
        args[3].as_f64().unwrap() as f32,
        args[4].as_f64().unwrap() as f32,
    );
    let logits: Vec<f32> = (0..n).map(|i| (i as f32).ln()).collect();
    let mut left = Candidates::default();
    left.fill(&logits, ALL, NO_FLOOR);
    // the kept tokens must be the `size` greatest of 0..n
    let mut size = n;
    let sum = |size: usize| (n - size..n).map(|i| i as f64).sum::<f64>();
    for sampler in args[1].as_str().unwrap().chars() {
        match sampler {
            'k' => {
                let kept: Vec<f32> = logits
                    .iter()
                    .enumerate()
                    .map(|(i, &l)| if i + size >= n { l } else { f32::NAN })
                    .collect();
                left.fill(&kept, k, NO_FLOOR);
                size = size.min(k);
            }
            'p' => {
                left.top_p(params(p, 0.0).top_p);
                let total = sum(size);
                size = (1..=size).find(|&s| sum(s) >= f64::from(p) * total).unwrap_or(size).max(1);
            }
            _ => {
                left.within(params(1.0, m).reach);
                let least = ((n - 1) as f64 * f64::from(m)).ceil() as usize;
                size = size.min(n - least.min(n - 1));
            }
        }
        let mut ids: Vec<u32> = left.as_slice().iter().map(|c| c.id).collect();
        ids.sort_unstable();
        // rounding of the logarithm may move a border by one
        assert!(ids.len().abs_diff(size) <= 1, "{args:?}: {} for {size}", ids.len());
        assert_eq!(*ids.last().unwrap() as usize, n - 1);
        assert!(ids.windows(2).all(|w| w[0] + 1 == w[1]), "{args:?}");
        size = ids.len();
    }
}

#[test]
fn ties_go_to_the_lowest_id() {
    let greedy = |logits: &[f32]| token(logits, &Draw::GREEDY, &[]);
    assert_eq!(greedy(&[1.0, 3.0, 3.0]), Some(1));
    assert_eq!(greedy(&[f32::NAN, f32::NEG_INFINITY]), Some(1));
    assert_eq!(greedy(&[f32::NAN]), None);
    assert_eq!(greedy(&[]), None);
    let mut left = Candidates::default();
    left.fill(&[2.0, 5.0, 5.0, 2.0, 5.0], 2, NO_FLOOR);
    assert_eq!(left.as_slice().iter().map(|c| c.id).collect::<Vec<_>>(), [1, 2]);
}
