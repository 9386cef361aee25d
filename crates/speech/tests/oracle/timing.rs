//! Paths and medians.

use pelton_speech::words::{median_filter, warp};
use serde_json::Value;

use crate::expected::fnv;
use crate::fake::mix;

/// Numbers of few levels, so that costs tie.
fn values(case: u64, n: u64, levels: u64) -> Vec<f32> {
    let key = mix(case);
    (0..n).map(|i| (mix(key.wrapping_add(i)) % levels) as f32 / 64.0 - 1.0).collect()
}

fn expected() -> Value {
    serde_json::from_str(include_str!("../fixtures/timing.json")).unwrap()
}

#[test]
fn paths() {
    for (case, path) in expected()["paths"].as_array().unwrap().iter().enumerate() {
        let (rows, columns) = (path[0].as_u64().unwrap(), path[1].as_u64().unwrap());
        let x = values(case as u64, rows * columns, [3, 64, 100_000][case / 8]);
        let found = warp(&x, columns as usize);
        let digest = |places: Vec<usize>| fnv(places.into_iter().map(|place| place as u32));
        assert_eq!(found.rows.len() as u64, path[4].as_u64().unwrap(), "case {case}");
        assert_eq!(digest(found.rows), path[2], "case {case}");
        assert_eq!(digest(found.columns), path[3], "case {case}");
    }
}

#[test]
fn medians() {
    for (case, median) in expected()["medians"].as_array().unwrap().iter().enumerate() {
        let mut x = values(100 + case as u64, median[0].as_u64().unwrap(), 1000);
        median_filter(&mut x, median[1].as_u64().unwrap() as usize);
        let digest = fnv(x.into_iter().map(|value| (value * 64.0 + 64.0) as u32));
        assert_eq!(digest, median[2], "case {case}: {median}");
    }
}
