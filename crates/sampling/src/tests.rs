use super::{candidates::Candidates, *};

/// The probabilities of the candidates that are left, likeliest first.
fn probabilities(candidates: &Candidates) -> Vec<f64> {
    let mut left: Vec<_> = candidates.as_slice().to_vec();
    left.sort_unstable_by(|a, b| b.cmp(a));
    let weights: Vec<f64> = left.iter().map(|c| f64::from(c.logit).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|w| w / total).collect()
}

const ALL: usize = usize::MAX;
/// No floor.
const NONE: f32 = f32::NEG_INFINITY;

fn rule(top_p: f32, min_p: f32) -> Rule {
    Rule::new(1.0, 0, top_p, min_p).unwrap()
}

fn logits(values: &serde_json::Value) -> Vec<f32> {
    floats(values).iter().map(|p| p.ln() as f32).collect()
}

fn floats(values: &serde_json::Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// The cases of llama.cpp's `test-sampling.cpp` for the samplers that are here.
#[test]
fn outside_vectors() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/vectors/test-sampling.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("SKIPPED: {path} is not there");
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
                left.fill(&logits(&args[0]), if k == 0 { ALL } else { k }, NONE);
            }
            "test_top_p" => {
                expected = floats(&args[1]);
                left.fill(&logits(&args[0]), ALL, NONE);
                left.top_p(rule(number(2) as f32, 0.0).top_p);
            }
            "test_min_p" => {
                expected = floats(&args[1]);
                left.fill(&logits(&args[0]), ALL, NONE);
                left.within(rule(1.0, number(2) as f32).reach);
            }
            "test_penalties" if number(4) == 0.0 => {
                expected = floats(&args[2]);
                let mut logits = logits(&args[0]);
                let recent: Vec<u32> = floats(&args[1]).iter().map(|&id| id as u32).collect();
                penalize(&mut logits, &recent, number(3) as f32);
                left.fill(&logits, ALL, NONE);
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
        let got = probabilities(&left);
        assert_eq!(got.len(), expected.len(), "{case}");
        for (got, expected) in got.iter().zip(&expected) {
            assert!((got - expected).abs() < 1e-4, "{case}: {got} for {expected}");
        }
    }
    assert!(checked > 35, "only {checked} cases were recognized");
}

/// `n` tokens with logits ln(0), ln(1), …: what is left follows in closed form.
fn check_queue(args: &[serde_json::Value]) {
    let n = args[0].as_u64().unwrap() as usize;
    let (k, p, m) = (
        args[2].as_u64().unwrap() as usize,
        args[3].as_f64().unwrap() as f32,
        args[4].as_f64().unwrap() as f32,
    );
    let logits: Vec<f32> = (0..n).map(|i| (i as f32).ln()).collect();
    let mut left = Candidates::default();
    left.fill(&logits, ALL, NONE);
    // what must be left are the `size` greatest of 0..n
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
                left.fill(&kept, k, NONE);
                size = size.min(k);
            }
            'p' => {
                left.top_p(rule(p, 0.0).top_p);
                let total = sum(size);
                size = (1..=size).find(|&s| sum(s) >= f64::from(p) * total).unwrap_or(size).max(1);
            }
            _ => {
                left.within(rule(1.0, m).reach);
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
    assert_eq!(greatest(&[1.0, 3.0, 3.0]), Some(1));
    assert_eq!(greatest(&[f32::NAN, f32::NEG_INFINITY]), Some(1));
    assert_eq!(greatest(&[f32::NAN]), None);
    let mut left = Candidates::default();
    left.fill(&[2.0, 5.0, 5.0, 2.0, 5.0], 2, NONE);
    assert_eq!(left.as_slice().iter().map(|c| c.id).collect::<Vec<_>>(), [1, 2]);
}

/// Draws follow the softmax: the frequencies of 20,000 draws are within four standard deviations.
#[test]
fn draws_follow_the_softmax() {
    let probabilities = [0.5f64, 0.25, 0.15, 0.1];
    let logits: Vec<f32> = probabilities.iter().map(|p| p.ln() as f32).collect();
    let sampling = Sampling {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        seed: Some(3),
        ..Sampling::default()
    };
    let mut sampler = Sampler::new(sampling);
    let n = 20_000;
    let mut counts = [0u32; 4];
    for index in 0..n {
        counts[sampler.choose(&logits, &[], index).unwrap() as usize] += 1;
    }
    for (count, p) in counts.iter().zip(probabilities) {
        let deviation = (n as f64 * p * (1.0 - p)).sqrt();
        assert!((f64::from(*count) - n as f64 * p).abs() < 4.0 * deviation, "{counts:?}");
    }
}

#[test]
fn hostile_logits_do_not_panic() {
    let strange = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, f32::MAX, f32::MIN];
    for top_k in [0, 1, 3, 100] {
        for temperature in [0.0, 1e-30, 1.0, 1e30] {
            let sampling = Sampling { top_k, temperature, ..Sampling::default() };
            let mut sampler = Sampler::new(sampling);
            let id = sampler.choose(&strange, &[0, 1, 99], 0).unwrap();
            assert_eq!(id, 1, "infinity is the greatest");
            assert_eq!(sampler.choose(&[f32::NAN; 4], &[], 0), None);
        }
    }
}

/// Filters and the draw as they are defined, token by token, on logits with many ties.
#[test]
fn choices_are_those_of_the_definitions() {
    let mut state = 1u64;
    let mut random = move |n: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u32 % n
    };
    let mut rough = |n: usize, step: f32, range: u32| -> Vec<f32> {
        (0..n).map(|_| random(range) as f32 * step - 3.0).collect()
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
    for logits in &cases {
        for top_k in [0, 2, 40, 64, 5000] {
            for top_p in [0.0, 0.5, 0.95, 0.999_999, 1.0] {
                for (min_p, temperature) in [(0.0, 0.8), (0.05, 0.1), (0.0, 1e-30), (1.0, 30.0)] {
                    let seed = Some(top_k as u64);
                    let sampling =
                        Sampling { top_k, top_p, min_p, temperature, seed, ..Sampling::default() };
                    let mut sampler = Sampler::new(sampling.clone());
                    for index in 0..3 {
                        let got = sampler.choose(logits, &[], index);
                        assert_eq!(got, by_definition(logits, &sampling, index), "{sampling:?}");
                    }
                }
            }
        }
    }
}

fn by_definition(logits: &[f32], sampling: &Sampling, index: u64) -> Option<u32> {
    let rule = Option::<Rule>::from(sampling).unwrap();
    let mut left: Vec<(u32, f32)> =
        (0..).zip(logits.iter().copied()).filter(|(_, logit)| !logit.is_nan()).collect();
    left.sort_by(|(a, x), (b, y)| y.partial_cmp(x).unwrap().then(a.cmp(b)));
    left.truncate(rule.top_k as usize);
    let (_, most) = *left.first()?;
    let away = |logit: f32, scale: fixed::Scale| match logit == most {
        true => 0,
        false => scale.times(most - logit),
    };
    if rule.top_p != u32::MAX {
        let weight = |logit| u64::from(fixed::exp2(away(logit, Rule::NATURAL)));
        let sum: u64 = left.iter().map(|&(_, logit)| weight(logit)).sum();
        let enough = (u128::from(sum) * u128::from(rule.top_p)) >> 32;
        let mut reached = 0;
        let least = left.iter().position(|&(_, logit)| {
            reached += u128::from(weight(logit));
            reached >= enough
        });
        left.truncate(least.unwrap() + 1);
    }
    left.retain(|&(_, logit)| away(logit, Rule::NATURAL) <= rule.reach);
    let value = |(id, logit): (u32, f32)| {
        let mut noise = noise::Noise::new(sampling.seed.unwrap(), index);
        let noise = noise.gumbel_from(i32::MIN, id).unwrap();
        i64::from(noise) - i64::from(away(logit, rule.scale).min(Rule::FAR))
    };
    left.into_iter()
        .max_by_key(|&(id, logit)| (value((id, logit)), std::cmp::Reverse(id)))
        .map(|(id, _)| id)
}
