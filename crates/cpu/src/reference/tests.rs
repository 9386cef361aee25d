//! The reference compared with vectors that numpy computed in f64 from the formulas of the ops'
//! documentation (random inputs, rounded to two digits).

use pelton_graph::{
    Activation, Attention, Cache, ExpertGroups, GatedDelta, KvType, Mask, Place, Route, Scores,
    ShortConv, Values, WeightId,
};

use super::attend::attend;
use super::recurrent::{DeltaRow, gated_delta, short_conv};
use crate::memory::KvCache;
use crate::route::RouteScratch;

fn assert_close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (&found, &expected) in found.iter().zip(expected) {
        let difference = (f64::from(found) - expected).abs();
        assert!(difference < 1e-6, "{what}: {found} instead of {expected}");
    }
}

/// Three rows, one key head of three elements, two value heads of two.
#[test]
fn gated_delta_of_three_rows() {
    let q = [0.345, 0.82, 0.33, -1.305, 0.905, 0.445, -0.535, 0.58, 0.365];
    let k = [0.19, -0.525, -0.415, -2.44, 1.8, 1.145, -0.325, 0.775, 0.28];
    let v = [2.04, -2.555, 0.42, -0.57, -0.455, -0.215, -2.02, -0.23, -0.865, 3.325, 0.225, -0.355];
    let alpha = [-0.65, -0.175, 1.665, 0.66, -1.64, -0.005];
    let beta = [-0.8, -1.325, -0.25, 0.42, 1.135, 0.11];
    let outputs = [
        -0.183266961,
        0.229532885,
        -0.0255563933,
        0.0346836767,
        -0.429350224,
        -0.518268698,
        -3.71938862,
        -0.462922112,
        -0.36718275,
        0.941801373,
        -0.228901567,
        -0.113075976,
    ];
    let last = [
        0.404025748,
        -0.537764297,
        -0.554906371,
        1.91599249,
        -0.268437557,
        0.636351467,
        0.497581973,
        0.128334288,
        -0.115121435,
        -0.170442936,
        -0.173951662,
        -0.077637227,
    ];
    let delta = GatedDelta {
        state: 0,
        key_heads: 1,
        value_heads: 2,
        key_dim: 3,
        value_dim: 2,
        grouped: true,
        rate: WeightId(0),
        shift: WeightId(0),
    };
    let (mut state, mut o) = ([0.0; 12], [0.0; 12]);
    for t in 0..3 {
        let row = DeltaRow {
            q: &q[3 * t..3 * t + 3],
            k: &k[3 * t..3 * t + 3],
            v: &v[4 * t..4 * t + 4],
            alpha: &alpha[2 * t..2 * t + 2],
            beta: &beta[2 * t..2 * t + 2],
        };
        let o = &mut o[4 * t..4 * t + 4];
        gated_delta(&delta, &[-1.055, -1.775], &[0.0, 0.3], &row, &mut state, o);
    }
    assert_close(&o, &outputs, "outputs");
    assert_close(&state, &last, "state");
}

/// By hand: two channels, three taps, four rows.
#[test]
fn short_conv_of_four_rows() {
    let weight = [1.0, 10.0, 100.0, -1.0, 0.5, 2.0];
    let (activation, mut state) = (Activation::Silu, [0.0; 4]);
    let conv = ShortConv { state: 0, weight: WeightId(0), bias: None, taps: 3, activation };
    let sums = [[100.0, 2.0], [210.0, 4.5], [321.0, 6.0], [432.0, 7.5]];
    for (row, sums) in (1..).zip(sums) {
        let mut x = [row as f32; 2];
        short_conv(&conv, &weight, Some(&[0.0, 0.0]), &mut state, &mut x);
        assert_close(&x, &sums.map(|sum: f64| sum / (1.0 + (-sum).exp())), "row");
    }
    assert_eq!(state, [3.0, 3.0, 4.0, 4.0]);
}

/// Two query heads of three elements, values of two, four positions; the query is at position 2.
#[test]
fn attention_of_every_kind() {
    const KEYS: [f32; 12] =
        [0.035, 1.36, 1.225, -0.51, -0.3, -0.525, 0.57, -0.055, 0.745, -1.845, 1.565, -0.095];
    const VALUES: [f32; 8] = [-0.005, 1.045, 0.74, 0.725, 1.62, -1.205, -0.625, -1.32];
    const QUERIES: [f32; 6] = [1.825, -3.08, 0.96, 0.07, 1.32, 0.385];
    const SINKS: [f32; 2] = [0.695, -0.98];
    let plain = Attention {
        cache: 0,
        heads: 2,
        scale: 0.5,
        mask: Mask::Causal { window: None },
        softcap: None,
        sinks: None,
        alibi: None,
    };
    let window = |window| Attention { mask: Mask::Causal { window: Some(window) }, ..plain };
    let symmetric = |window| Attention { mask: Mask::Symmetric { window }, ..plain };
    let own = Values::Own { dim: 2 };
    let prefix = Values::KeyPrefix { dim: 2 };
    let cases: [(&str, Attention, bool, Values, [f64; 4]); 9] = [
        ("causal", plain, false, own, [1.32906608, -0.649975619, 0.475067598, 0.484490486]),
        ("window", window(2), false, own, [1.41907502, -0.764334986, 1.27610109, -0.450767165]),
        (
            "chunk 1 to 4",
            Attention { mask: Mask::Chunked { chunk: 2 }, ..plain },
            false,
            own,
            [1.62, -1.205, 1.62, -1.205],
        ),
        (
            "symmetric",
            symmetric(None),
            false,
            own,
            [1.32050601, -0.652910758, 0.0987895844, -0.132735307],
        ),
        (
            "soft cap",
            Attention { softcap: Some(0.8), ..plain },
            false,
            own,
            [1.16763809, -0.404862195, 0.607228347, 0.331902567],
        ),
        ("sinks", plain, true, own, [0.855655964, -0.418455878, 0.441736104, 0.450497868]),
        (
            "symmetric with ALiBi",
            Attention { alibi: Some(8.0), ..symmetric(None) },
            false,
            own,
            [1.33868724, -0.683699862, 0.09985141, -0.135257174],
        ),
        ("prefix", plain, false, prefix, [0.305181226, -0.017968336, 0.0773229002, 0.793877992]),
        (
            "a symmetric window with everything",
            Attention { softcap: Some(1.5), alibi: Some(4.0), ..symmetric(Some(3)) },
            true,
            own,
            [0.805218229, -0.509632955, 0.225569374, -0.855606186],
        ),
    ];
    for (name, attention, sinks, values, expected) in cases {
        let shape = Cache { heads: 1, key_dim: 3, values, group: 0 };
        let mut cache = KvCache::new(shape, KvType::F32, 1).unwrap();
        for p in 0..4 {
            let value = match values {
                Values::Own { dim: _ } => &VALUES[2 * p..2 * p + 2],
                Values::KeyPrefix { dim: _ } => &[],
            };
            cache.store(&[0], p, &KEYS[3 * p..3 * p + 3], value);
        }
        let mut a = [0.0; 4];
        let seen = attention.mask.range(2, 4, Place::of(2).group);
        let sinks = sinks.then_some(&SINKS[..]);
        attend(&attention, sinks, (&cache, &[0]), 2, seen, &QUERIES, &mut a);
        assert_close(&a, &expected, name);
    }
}

/// Three of eight experts.
#[test]
fn routes_of_every_kind() {
    const LOGITS: [f32; 8] = [0.36, 1.51, -1.785, 1.685, -0.045, -0.8, -0.805, -1.085];
    const BIAS: [f32; 8] = [-0.35, -0.30125, -0.325, -0.15625, 0.36125, -0.4, 0.23625, 0.315];
    const EXPERT_SCALE: [f32; 8] = [1.13875, 1.055, 0.985, 0.42, 1.1075, 0.46875, 1.2275, 1.15125];
    let route = |scores, normalize, scale, groups| Route {
        experts: 8,
        used: 3,
        scores,
        bias: None,
        groups,
        normalize,
        scale,
        expert_scale: None,
    };
    let groups = |count, used, best| Some(ExpertGroups { count, used, best });
    let cases: [(Route, bool, [f32; 3], [f64; 3]); 5] = [
        (
            route(Scores::Softmax, true, 1.0, None),
            false,
            [3.0, 1.0, 0.0],
            [0.199500301, 0.420673535, 0.143774699],
        ),
        (
            route(Scores::Sigmoid, true, 2.5, None),
            true,
            [4.0, 3.0, 7.0],
            [0.853839547, 0.558871758, 0.458648493],
        ),
        (
            route(Scores::SelectedSoftmax, false, 1.0, None),
            false,
            [3.0, 1.0, 0.0],
            [0.199500301, 0.420673535, 0.143774699],
        ),
        (
            route(Scores::Sigmoid, false, 1.0, groups(4, 2, 2)),
            true,
            [4.0, 7.0, 6.0],
            [0.541292727, 0.290760828, 0.379244702],
        ),
        (
            route(Scores::Softmax, false, 0.5, groups(2, 1, 1)),
            true,
            [4.0, 7.0, 6.0],
            [0.0386111961, 0.0141864229, 0.0200136921],
        ),
    ];
    for (route, bias, expected_ids, expected) in cases {
        let (mut ids, mut weights) = ([0.0; 3], [0.0; 3]);
        let bias = bias.then_some(&BIAS[..]);
        let mut scratch = RouteScratch::new(8);
        scratch.route(&route, bias, Some(&EXPERT_SCALE), &LOGITS, &mut ids, &mut weights);
        assert_eq!(ids, expected_ids, "{route:?}");
        assert_close(&weights, &expected, &format!("{route:?}"));
    }
}
