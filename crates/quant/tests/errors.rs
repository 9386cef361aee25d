//! The errors of the encoders, compared with those of ggml's on the same values:
//! `golden/errors.txt` has the output of `make_errors.c`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests may fail")]

use pelton_quant::{DType, decode, encode, encode_weighted};

const ROWS: usize = 16;
const COLUMNS: usize = 512;

/// Our error relative to ggml's. Both take the best of some candidates by weighted errors, so that
/// the error of one distribution may be a little above; nearly all are below.
const MOST: f64 = 1.0025;

/// The generator of `make_errors.c`.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / 16_777_216.0
    }

    fn value(&mut self, distribution: &str, i: usize) -> f32 {
        let x = (0..4).fold(0.0f32, |sum, _| sum + (self.uniform() - 0.5));
        match distribution {
            "bell" => x,
            "tails" => x * x * x,
            "positive" => x.abs(),
            "outliers" if i.is_multiple_of(97) => 16.0 * x,
            "outliers" => x,
            "sparse" if self.uniform() < 0.25 => x,
            "sparse" => 0.0,
            "offset" => x * 0.125 + 0.5,
            "scales" => x / (1 << (i / 64 % 8)) as f32,
            other => panic!("distribution {other}"),
        }
    }
}

const DISTRIBUTIONS: [&str; 7] =
    ["bell", "tails", "positive", "outliers", "sparse", "offset", "scales"];

/// Values of a distribution and an importance of their columns.
fn values(distribution: &str) -> (Vec<f32>, Vec<f32>) {
    let seed = DISTRIBUTIONS.iter().position(|name| *name == distribution).unwrap() as u64;
    let mut random = Random(7 + seed);
    let values = (0..ROWS * COLUMNS).map(|i| random.value(distribution, i)).collect();
    let importance = (0..COLUMNS).map(|_| {
        let u = random.uniform();
        0.0625 + 16.0 * u * u * u * u
    });
    (values, importance.collect())
}

/// The root of the weighted squared error relative to that of the values.
fn relative(values: &[f32], back: &[f32], importance: &[f32]) -> f64 {
    let (mut error, mut all) = (0.0, 0.0);
    for (i, (&a, &b)) in values.iter().zip(back).enumerate() {
        let (a, b, w) = (f64::from(a), f64::from(b), f64::from(importance[i % importance.len()]));
        error += w * (a - b) * (a - b);
        all += w * a * a;
    }
    (error / all).sqrt()
}

#[test]
fn errors_are_not_above_those_of_ggml() {
    let mut above = Vec::new();
    for line in include_str!("golden/errors.txt").lines() {
        let [name, distribution, plain, weighted] = *line.split(' ').collect::<Vec<_>>().as_slice()
        else {
            panic!("{line}")
        };
        let dtype = DType::from_name(name).unwrap();
        let (values, importance) = values(distribution);
        for (theirs, importance) in [(plain, None), (weighted, Some(importance.as_slice()))] {
            let theirs: f64 = theirs.parse().unwrap();
            let (mut bytes, mut back) = (Vec::new(), vec![0.0; values.len()]);
            match importance {
                None => encode(dtype, &values, &mut bytes).unwrap(),
                Some(importance) => {
                    encode_weighted(dtype, &values, importance, &mut bytes).unwrap();
                }
            }
            decode(dtype, &bytes, &mut back).unwrap();
            let ours = relative(&values, &back, importance.unwrap_or(&[1.0]));
            let what = if importance.is_some() { "by importance" } else { "plain" };
            let ratio = if theirs > 0.0 { ours / theirs } else { 1.0 + ours };
            println!("{dtype} {distribution} {what}: {ours:.7}, theirs {theirs:.7}, {ratio:.4}");
            if ratio > MOST {
                above.push(format!("{dtype} {distribution} {what}: {ratio:.4}"));
            }
        }
    }
    assert!(above.is_empty(), "{above:#?}");
}
