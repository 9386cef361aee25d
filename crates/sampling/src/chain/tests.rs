//! Chains compared with llama.cpp's vectors, with numpy in f64, and with their own distributions.

use std::io::Write;
use std::process::{Command, Stdio};

use pelton_testing::{Need, Random, skip};
use serde_json::{Value, json};

use super::*;
use crate::Penalties;

/// The tokens that are left and their probabilities, likeliest first, before the draw.
fn left(
    logits: &[f32],
    stages: Vec<Stage>,
    history: &[u32],
    draw: &Draw<'_>,
    state: Option<ChainState>,
) -> (Vec<(u32, f64)>, ChainState, Option<u32>) {
    let chain = Chain::new(stages).unwrap();
    let mut sampler = ChainSampler::new();
    let mut state = state.unwrap_or_else(|| chain.start());
    let drawn = sampler.sample(logits, logits.len(), draw, &chain, &mut state, history);
    (sampler.probabilities(), state, drawn.token)
}

#[test]
fn vectors_of_llama_cpp() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/vectors/test-sampling.json");
    let Ok(text) = std::fs::read_to_string(path) else {
        return skip(Need::Data, format_args!("no {path}"));
    };
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    for case in &cases {
        let args = case["args"].as_array().unwrap();
        let number = |i: usize| args[i].as_f64().unwrap();
        let floats = |v: &Value| -> Vec<f64> {
            v.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
        };
        let ids = |v: &Value| -> Vec<u32> { floats(v).iter().map(|&x| x as u32).collect() };
        let name = case["fn"].as_str().unwrap();
        if name == "test_sampler_queue" {
            check_queue(case, args);
            continue;
        }
        let logits: Vec<f32> = floats(&args[0]).iter().map(|p| p.ln() as f32).collect();
        let mut history = Vec::new();
        let mut expected = 1;
        let stage = match name {
            "test_temp" => Stage::Temperature { value: number(2), range: 0.0, exponent: 1.0 },
            "test_temp_ext" => {
                Stage::Temperature { value: number(2), range: number(3), exponent: number(4) }
            }
            "test_top_k" => Stage::TopK(number(2) as usize),
            "test_top_p" => Stage::TopP { p: number(2), min_keep: 0 },
            "test_min_p" => Stage::MinP { p: number(2), min_keep: 0 },
            "test_typical" => Stage::Typical { p: number(2), min_keep: 0 },
            "test_top_n_sigma" => Stage::TopNSigma(number(2)),
            "test_xtc" => Stage::Xtc { probability: 1.0, threshold: number(3), min_keep: 0 },
            "test_penalties" => {
                (history, expected) = (ids(&args[1]), 2);
                Stage::Penalties(Penalties {
                    repetition: number(3) as f32,
                    frequency: number(4) as f32,
                    presence: number(5) as f32,
                    window: history.len() as u32,
                })
            }
            "test_dry" => {
                (history, expected) = (ids(&args[1]), 2);
                Stage::Dry(Dry {
                    multiplier: number(3),
                    base: number(4),
                    allowed_len: number(5) as usize,
                    window: number(6) as usize,
                    breakers: args[7].as_array().unwrap().iter().map(ids).collect(),
                })
            }
            other => panic!("an unknown case: {other}"),
        };
        // removed tokens have the probability 0 in some cases and are missing in others
        let mut expected = floats(&args[expected]);
        expected.retain(|&p| p > 0.0);
        // after XTC they are not normalized
        let total: f64 = expected.iter().sum();
        expected.iter_mut().for_each(|p| *p /= total);
        expected.sort_by(|a, b| b.total_cmp(a));
        let (mut got, ..) = left(&logits, vec![stage], &history, &Draw::GREEDY, None);
        // the vectors have six digits
        got.retain(|&(_, p)| p > 1e-7);
        assert_eq!(got.len(), expected.len(), "{case}: {got:?}");
        for ((_, got), expected) in got.iter().zip(&expected) {
            assert!((got - expected).abs() < 2e-5, "{case}: {got} for {expected}");
        }
    }
    assert_eq!(cases.len(), 65);
}

/// `n` tokens with logits ln(0), ln(1), …: the kept tokens are the greatest ids, as many as the
/// definitions give in closed form.
fn check_queue(case: &Value, args: &[Value]) {
    let n = args[0].as_u64().unwrap() as usize;
    let number = |i: usize| args[i].as_f64().unwrap();
    let (k, p, m) = (number(2) as usize, number(3), number(4));
    let logits: Vec<f32> = (0..n).map(|i| (i as f32).ln()).collect();
    let sum = |size: usize| (n - size..n).sum::<usize>() as f64;
    let (mut size, mut stages) = (n, Vec::new());
    for sampler in args[1].as_str().unwrap().chars() {
        match sampler {
            'k' => {
                stages.push(Stage::TopK(k));
                size = size.min(k);
            }
            'p' => {
                stages.push(Stage::TopP { p, min_keep: 1 });
                if p < 1.0 {
                    let enough = p * sum(size);
                    size = (1..=size).find(|&s| sum(s) >= enough).unwrap();
                }
            }
            _ => {
                stages.push(Stage::MinP { p: m, min_keep: 1 });
                let least = m * (n - 1) as f64;
                size = (0..size).filter(|i| (n - 1 - i) as f64 >= least * (1.0 - 1e-9)).count();
                size = size.max(1);
            }
        }
    }
    let (got, ..) = left(&logits, stages, &[], &Draw::GREEDY, None);
    // the token with the logit -∞ is never left
    let size = size.min(n - 1);
    let ids: Vec<u32> = got.iter().map(|(id, _)| *id).collect();
    let expected: Vec<u32> = (0..size).map(|i| (n - 1 - i) as u32).collect();
    // f32 logarithms of neighbours can be equal: then the order is that of ids
    assert_eq!(ids.len(), expected.len(), "{case}");
    let mut sorted = ids.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(sorted, expected, "{case}");
}

/// A random stage and its description for the oracle.
fn random_stage(random: &mut Random, kind: usize, vocab: usize) -> (Stage, Value) {
    let uniform = |random: &mut Random| random.below(1_000_001) as f64 / 1e6;
    let min_keep = if random.below(3) == 0 { random.below(5) } else { 0 };
    let u = uniform(random);
    match kind {
        0 => {
            let p = Penalties {
                repetition: (0.5 + u) as f32,
                presence: random.below(5) as f32 - 2.0,
                frequency: random.below(9) as f32 / 4.0 - 1.0,
                window: random.below(30) as u32,
            };
            let value = json!({"name": "penalties", "repetition": f64::from(p.repetition),
                "presence": f64::from(p.presence), "frequency": f64::from(p.frequency),
                "window": p.window});
            (Stage::Penalties(p), value)
        }
        1 => {
            let mut breaker = || -> Vec<u32> {
                (0..1 + random.below(3)).map(|_| random.below(vocab.min(6)) as u32).collect()
            };
            let breakers: Vec<_> = (0..2).map(|_| breaker()).collect();
            let dry = Dry {
                multiplier: [0.0, 0.8, 2.0][random.below(3)],
                base: [0.9, 1.0, 1.75][random.below(3)],
                allowed_len: 1 + random.below(3),
                window: random.below(40),
                breakers: breakers[..random.below(3)].to_vec(),
            };
            let value = json!({"name": "dry", "multiplier": dry.multiplier, "base": dry.base,
                "allowed": dry.allowed_len, "window": dry.window, "breakers": dry.breakers});
            (Stage::Dry(dry), value)
        }
        2 => (Stage::TopNSigma(3.0 * u), json!({"name": "top_n_sigma", "n": 3.0 * u})),
        3 => {
            let k = random.below(vocab + 3);
            (Stage::TopK(k), json!({"name": "top_k", "k": k}))
        }
        4 => {
            let value = json!({"name": "typical", "p": u, "min_keep": min_keep});
            (Stage::Typical { p: u, min_keep }, value)
        }
        5 => {
            let value = json!({"name": "top_p", "p": u, "min_keep": min_keep});
            (Stage::TopP { p: u, min_keep }, value)
        }
        6 => {
            let value = json!({"name": "min_p", "p": u, "min_keep": min_keep});
            (Stage::MinP { p: u, min_keep }, value)
        }
        7 => {
            let threshold = uniform(random) * 0.6;
            let value = json!({"name": "xtc", "probability": u, "threshold": threshold,
                "min_keep": min_keep});
            (Stage::Xtc { probability: u, threshold, min_keep }, value)
        }
        8 => {
            let range = if random.below(2) == 0 { 0.0 } else { uniform(random) };
            let (value, exponent) = (2.0 * u, 0.5 + uniform(random));
            let json = json!({"name": "temperature", "value": value, "range": range,
                "exponent": exponent});
            (Stage::Temperature { value, range, exponent }, json)
        }
        9 => {
            let (target, rate) = (6.0 * u, uniform(random));
            let json = json!({"name": "mirostat", "target": target, "rate": rate});
            (Stage::Mirostat1 { target, rate }, json)
        }
        10 => {
            let (target, rate) = (6.0 * u, uniform(random));
            let json = json!({"name": "mirostat2", "target": target, "rate": rate});
            (Stage::Mirostat2 { target, rate }, json)
        }
        _ => {
            let (target, decay) = (u, uniform(random) * 0.99);
            let json = json!({"name": "adaptive_p", "target": target, "decay": decay});
            (Stage::AdaptiveP { target, decay }, json)
        }
    }
}

#[test]
fn ten_thousand_random_cases_in_numpy() {
    const CASES: u64 = 10_000;
    let python = std::env::var_os("PELTON_PYTHON").unwrap_or_else(|| "python3".into());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samplers.py");
    let mut child = match Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Ok(child) => child,
        Err(error) => return skip(Need::Python, format_args!("no Python: {error}")),
    };
    let (mut lines, mut results) = (Vec::new(), Vec::new());
    for seed in 0..CASES {
        let mut random = Random::new(seed);
        let vocab = 2 + random.below(if seed % 50 == 0 { 400 } else { 40 });
        // some equal logits
        let logits: Vec<f32> = (0..vocab)
            .map(|_| match random.below(8) {
                0 => random.below(4) as f32,
                _ => random.below(1 << 20) as f32 / 65_536.0 - 8.0,
            })
            .collect();
        let history: Vec<u32> =
            (0..random.below(40)).map(|_| random.below(vocab.min(6)) as u32).collect();
        let mut kinds: Vec<usize> = (0..9).filter(|_| random.below(4) == 0).collect();
        if random.below(3) == 0 {
            kinds.push(9 + random.below(3));
        }
        if kinds.is_empty() {
            kinds.push(seed as usize % 12);
        }
        let (stages, described): (Vec<Stage>, Vec<Value>) =
            kinds.iter().map(|&kind| random_stage(&mut random, kind, vocab)).unzip();
        let draw = Draw { seed, index: seed / 7, ..Draw::GREEDY };
        let at = stages.iter().position(|stage| matches!(stage, Stage::Xtc { .. }));
        let u = Noise::new(draw.seed, draw.index).uniform_of(at.unwrap_or(0));
        let start = Chain::new(stages.clone()).unwrap().start();
        let (left, state, token) = left(&logits, stages, &history, &draw, Some(start));
        let numbers = |s: ChainState| [s.surprise, s.sum, s.weight];
        lines.push(
            json!({"logits": logits.iter().map(|&l| f64::from(l)).collect::<Vec<_>>(),
                "history": history, "stages": described, "u": u, "token": token,
                "state": numbers(start)})
            .to_string(),
        );
        results.push((left, numbers(state)));
    }
    let mut stdin = child.stdin.take().unwrap();
    let text = lines.join("\n");
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    // a script that ends early leaves the pipe broken
    let _ = writer.join().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("No module named 'numpy'") {
        return skip(Need::Python, format_args!("Python has no numpy"));
    }
    assert!(output.status.success(), "{errors}");
    let answers: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), CASES as usize);
    for ((answer, line), (left, state)) in answers.iter().zip(&lines).zip(&results) {
        let expected = answer["left"].as_object().unwrap();
        let alive = |p: f64| p > 1e-300;
        let count = expected.values().filter(|p| alive(p.as_f64().unwrap())).count();
        assert_eq!(left.iter().filter(|(_, p)| alive(*p)).count(), count, "{line}: {left:?}");
        for (id, p) in left {
            let wanted = expected[&id.to_string()].as_f64().unwrap();
            assert!((p - wanted).abs() < 1e-9, "{line}: token {id} has {p}, expected {wanted}");
        }
        for (got, expected) in state.iter().zip(answer["state"].as_array().unwrap()) {
            let expected = expected.as_f64().unwrap();
            assert!((got - expected).abs() < 1e-6 * expected.abs().max(1.0), "{line}: {state:?}");
        }
    }
}

/// The frequencies of draws, compared with the probabilities that are left by a chi-squared test.
#[test]
fn draws_have_the_probabilities_that_are_left() {
    let logits: Vec<f32> = (0..12).map(|i| (i as f32 * 0.7).sin() * 2.0).collect();
    let chains = [
        vec![Stage::Temperature { value: 0.7, range: 0.0, exponent: 1.0 }],
        vec![Stage::TopP { p: 0.9, min_keep: 0 }],
        vec![Stage::AdaptiveP { target: 0.3, decay: 0.9 }],
        vec![Stage::Mirostat2 { target: 3.0, rate: 0.1 }],
    ];
    for stages in chains {
        const DRAWS: u64 = 40_000;
        let mut counts = [0u64; 12];
        let mut probabilities = Vec::new();
        for index in 0..DRAWS {
            let draw = Draw { seed: 11, index, ..Draw::GREEDY };
            let (left, _, token) = left(&logits, stages.clone(), &[], &draw, None);
            counts[token.unwrap() as usize] += 1;
            probabilities = left;
        }
        let chi: f64 = probabilities
            .iter()
            .map(|&(id, p)| {
                let expected = p * DRAWS as f64;
                (counts[id as usize] as f64 - expected).powi(2) / expected
            })
            .sum();
        // 99.99 % of the distribution with 11 degrees of freedom, more than any of the chains has
        assert!(chi < 37.4, "{stages:?}: {chi}");
        assert_eq!(counts.iter().sum::<u64>(), DRAWS);
        let known: u64 = probabilities.iter().map(|&(id, _)| counts[id as usize]).sum();
        assert_eq!(known, DRAWS);
    }
}

#[test]
fn a_chain_of_the_default_filters_draws_as_a_draw_does() {
    let mut random = Random::new(5);
    let mut same = 0;
    for index in 0..2000 {
        let logits: Vec<f32> =
            (0..200).map(|_| random.below(1 << 16) as f32 / 4096.0 - 8.0).collect();
        let params = crate::FixedParams::new(0.8, 40, 0.95, 0.05);
        let draw = Draw { params, seed: 3, index, ..Draw::GREEDY };
        let direct = crate::Sampler::new().sample(&logits, 200, &draw, &[]).token;
        let stages = vec![
            Stage::TopK(40),
            Stage::TopP { p: 0.95, min_keep: 0 },
            Stage::MinP { p: 0.05, min_keep: 0 },
            Stage::Temperature { value: 0.8, range: 0.0, exponent: 1.0 },
        ];
        let (_, _, token) = left(&logits, stages, &[], &draw, None);
        same += usize::from(token == direct);
    }
    // fixed-point rounding may move a token across a border
    assert!(same >= 1998, "{same} of 2000");
}

#[test]
fn masks_biases_and_hostile_logits() {
    let mut logits = vec![0.0f32; 40];
    logits[3] = f32::NAN;
    logits[4] = f32::NEG_INFINITY;
    logits[5] = f32::INFINITY;
    let every: Vec<Stage> = vec![
        Stage::TopNSigma(1.0),
        Stage::TopK(10),
        Stage::Typical { p: 0.9, min_keep: 0 },
        Stage::TopP { p: 0.9, min_keep: 0 },
        Stage::MinP { p: 0.1, min_keep: 0 },
        Stage::Xtc { probability: 1.0, threshold: 0.1, min_keep: 0 },
        Stage::Temperature { value: 0.5, range: 0.2, exponent: 1.0 },
    ];
    let (_, _, token) = left(&logits, every.clone(), &[], &Draw::GREEDY, None);
    assert_eq!(token, Some(5));
    logits[5] = 0.0;
    let mask = [1 << 7, 0];
    let masked = Draw { mask: Some(&mask), ..Draw::GREEDY };
    assert_eq!(left(&logits, every.clone(), &[], &masked, None).2, Some(7));
    let biased = Draw { bias: &[(9, 100.0)], ..Draw::GREEDY };
    assert_eq!(left(&logits, every, &[], &biased, None).2, Some(9));
    let nothing = Draw { mask: Some(&[]), ..Draw::GREEDY };
    assert_eq!(left(&logits, vec![Stage::TopK(3)], &[], &nothing, None).2, None);
}

#[test]
fn chains_are_checked() {
    let xtc = |probability, threshold| Stage::Xtc { probability, threshold, min_keep: 0 };
    let breaker = |len: usize| {
        Stage::Dry(Dry {
            multiplier: 1.0,
            base: 1.75,
            allowed_len: 2,
            window: 64,
            breakers: vec![vec![1; len]],
        })
    };
    for (stages, sentence) in [
        (vec![Stage::TopK(1), Stage::TopK(2)], "top_k occurs twice, expected it once"),
        (
            vec![Stage::Mirostat2 { target: 5.0, rate: 0.1 }, Stage::TopK(2)],
            "top_k follows mirostat2, which must be last",
        ),
        (vec![xtc(1.5, 0.1)], "xtc_probability is 1.5, expected 0 to 1"),
        (vec![xtc(0.5, f64::NAN)], "xtc_threshold is NaN, expected 0 to 1"),
        (vec![Stage::TopNSigma(f64::NAN)], "top_n_sigma is NaN, expected a finite number"),
        (
            vec![Stage::AdaptiveP { target: 0.5, decay: 1.0 }],
            "adaptive_decay is 1, expected 0 to 0.99",
        ),
        (vec![breaker(41)], "a breaker of dry has 41 tokens, expected 1 to 40"),
    ] {
        assert_eq!(Chain::new(stages).unwrap_err(), sentence);
    }
    assert!(Chain::new(vec![breaker(40)]).is_ok());
}
