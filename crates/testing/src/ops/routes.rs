//! The choice of experts, compared with a plain form of its own: a sort, and sums in f64. The
//! backends share code for it, so that a comparison with the reference would not see a mistake.

use std::cmp::Ordering;
use std::sync::Arc;

use pelton_graph::{
    Backend, ExpertGroups, Limits, Op, Phase, Plan, Route, Scores, Strided, StridedCopy, TableEdit,
};
use pelton_quant::DType;
use pelton_weights::{Checkpoint, GgufWriter};

use super::builder::{Builder, CONTEXT};
use crate::Random;
use crate::backend::{forward, rows};

/// Rows of logits of each choice.
const ROWS: usize = 13;

/// Compares choices over ties, infinities and NaN with the plain form. It compares all ids, and the
/// weights where the scores of the chosen experts are finite.
///
/// # Panics
/// If a choice differs.
pub fn check_routes(backend: &dyn Backend) {
    let groups = |count, used, best| Some(ExpertGroups { count, used, best });
    let shapes = [
        (8, 2, None),
        (9, 9, None),
        (32, 4, groups(8, 3, 2)),
        (60, 6, groups(6, 3, 1)),
        (257, 10, None),
    ];
    for (experts, used, groups) in shapes {
        for scores in [Scores::Softmax, Scores::Sigmoid, Scores::SelectedSoftmax] {
            for variant in 0..4 {
                let mut b = Builder::new(ROWS);
                let logits = b.embed(DType::F32, experts);
                let mut tables = vec![logits_of(experts)];
                let mut random = Random::new(experts as u64);
                let mut vector = |b: &mut Builder, mean, has: bool| {
                    has.then(|| {
                        tables.push(random.normals(experts, mean, 0.3));
                        b.vector(experts, mean, 0.3)
                    })
                };
                let route = Route {
                    experts,
                    used,
                    scores,
                    bias: vector(&mut b, 0.0, variant % 2 == 1),
                    groups,
                    normalize: variant >= 2,
                    scale: [1.0, 2.5][variant / 2],
                    expert_scale: vector(&mut b, 1.0, variant == 1),
                };
                let y = route_step(&mut b, route, logits);
                let b = b.finish_with(y);
                let checkpoint = Arc::new(checkpoint(b.plan(), &tables));
                compare(backend, b.plan(), &checkpoint, &route, &tables);
            }
        }
    }
}

/// The ids, and then the weights, of the selected rows.
fn route_step(
    b: &mut Builder,
    route: Route,
    logits: pelton_graph::BufferId,
) -> pelton_graph::BufferId {
    let used = route.used;
    let (ids, weights) = (b.buffer(used, logits), b.buffer(used, logits));
    b.step(Op::Route(route), &[logits], &[ids, weights]);
    let y = b.buffer(2 * used, ids);
    for (from, offset) in [(ids, 0), (weights, used)] {
        let (from_place, to) = (Strided { offset: 0, stride: 0 }, Strided { offset, stride: 0 });
        let copy = StridedCopy { count: 1, width: used, from: from_place, to };
        b.step(Op::Copy(copy), &[from], &[y]);
    }
    b.selected(y)
}

/// Logits `[ROWS, experts]`.
fn logits_of(experts: usize) -> Vec<f32> {
    let mut random = Random::new(7);
    let mut all = Vec::with_capacity(ROWS * experts);
    for row in 0..ROWS {
        let usual = random.normals(experts, 0.0, 2.0);
        let (odd, third) = ((experts * 2) / 3, experts.div_ceil(3));
        all.extend(usual.iter().enumerate().map(|(i, &usual)| match row {
            0 => 1.0,
            1 => usual,
            2 => (usual * 2.0).round() / 2.0,
            3 if i == odd => f32::NAN,
            4 if i == odd => -f32::NAN,
            5 if i % 2 == 0 => f32::NAN,
            6 => f32::NAN,
            7 if i == odd => f32::INFINITY,
            8 if i % 3 == 0 => f32::NEG_INFINITY,
            9 => f32::NEG_INFINITY,
            10 => [0.0, -0.0][i % 2],
            11 => [80.0, -80.0][usize::from(i < third)],
            12 if i % 4 == 1 => [f32::NAN, f32::NEG_INFINITY, -f32::NAN][i % 3],
            _ => usual,
        }));
    }
    all
}

fn checkpoint(plan: &Plan, tables: &[Vec<f32>]) -> Checkpoint {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", "ops").unwrap();
    for weight in &plan.weights {
        writer.declare(&weight.name, weight.dtype, &weight.dims()).unwrap();
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    for table in tables {
        let bytes: Vec<u8> = table.iter().flat_map(|x| x.to_le_bytes()).collect();
        body.write(&bytes).unwrap();
    }
    Checkpoint::from_bytes("choices", body.finish().unwrap()).unwrap()
}

fn compare(
    backend: &dyn Backend,
    plan: &Plan,
    checkpoint: &Arc<Checkpoint>,
    route: &Route,
    tables: &[Vec<f32>],
) {
    let used = route.used;
    let limits = Limits {
        rows: ROWS,
        wants: ROWS,
        sequences: 2,
        context: CONTEXT,
        pages: vec![2],
        snapshots: 0,
        kv: pelton_graph::KvType::F32,
        tokens: 2 * used,
        bias: 0,
    };
    let mut executable =
        backend.load(plan.clone(), Arc::clone(checkpoint), limits, &mut |_, _| {}).unwrap();
    let tokens: Vec<u32> = (0..ROWS as u32).collect();
    for (slot, phase) in [(0, Phase::Prompt), (1, Phase::Decode)] {
        let edits = [TableEdit { group: 0, slot, first: 0, pages: &[slot] }];
        let rows = rows(&tokens, 0, slot);
        let found = forward(&mut *executable, phase, &rows, &edits, &tokens).unwrap();
        for (row, found) in found.chunks_exact(2 * used).enumerate() {
            let logits = &tables[0][row * route.experts..][..route.experts];
            let (ids, weights) = plain(route, logits, &tables[1..]);
            let what = format!("{}, row {row}, {phase:?}, {route:?}", backend.name());
            let expected: Vec<f32> = ids.iter().map(|&id| id as f32).collect();
            assert_eq!(found[..used], expected, "{what}");
            let Some(weights) = weights else { continue };
            for (found, expected) in found[used..].iter().zip(weights) {
                let near = (f64::from(*found) - expected).abs() <= 2e-5 * expected.abs() + 1e-9;
                assert!(near, "{what}: {found} for {expected}");
            }
        }
    }
}

/// The chosen experts and their weights; no weights if a chosen score is not finite. `more` has the
/// bias and the factors, as far as there are any.
fn plain(route: &Route, logits: &[f32], more: &[Vec<f32>]) -> (Vec<usize>, Option<Vec<f64>>) {
    let logits: Vec<f64> = logits.iter().map(|&x| f64::from(x)).collect();
    let total: f64 = {
        let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        logits.iter().map(|x| (x - top).exp()).sum::<f64>().ln() + top
    };
    let score = |x: f64| match route.scores {
        Scores::Softmax => (x - total).exp(),
        Scores::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Scores::SelectedSoftmax => x,
    };
    let scores: Vec<f64> = logits.iter().map(|&x| score(x)).collect();
    let mut more = more.iter();
    let bias = route.bias.and_then(|_| more.next());
    let factors = route.expert_scale.and_then(|_| more.next());
    // NaN comes last, as minus infinity
    let number = |x: f64| if x.is_nan() { f64::NEG_INFINITY } else { x };
    let rank = |i: usize| number(scores[i] + bias.map_or(0.0, |bias| f64::from(bias[i])));
    let descending = |a: f64, b: f64| b.partial_cmp(&a).unwrap_or(Ordering::Equal);
    let mut candidates: Vec<usize> = (0..route.experts).collect();
    if let Some(ExpertGroups { count, used, best }) = route.groups {
        let size = route.experts / count;
        let of_group = |group: usize| {
            let mut ranks: Vec<f64> = (group * size..(group + 1) * size).map(rank).collect();
            ranks.sort_by(|a, b| descending(*a, *b));
            number(ranks[..best].iter().sum())
        };
        let mut groups: Vec<usize> = (0..count).collect();
        groups.sort_by(|&a, &b| descending(of_group(a), of_group(b)).then(a.cmp(&b)));
        candidates.retain(|i| groups[..used].contains(&(i / size)));
    }
    candidates.sort_by(|&a, &b| descending(rank(a), rank(b)).then(a.cmp(&b)));
    candidates.truncate(route.used);
    let chosen: Vec<f64> = candidates.iter().map(|&i| scores[i]).collect();
    if !chosen.iter().all(|score| score.is_finite()) {
        return (candidates, None);
    }
    let weights: Vec<f64> = match route.scores {
        Scores::SelectedSoftmax => {
            let sum: f64 = chosen.iter().map(|x| x.exp()).sum();
            chosen.iter().map(|x| x.exp() / sum).collect()
        }
        Scores::Softmax | Scores::Sigmoid => chosen,
    };
    // the least sum is that of the models' own code, 2⁻¹⁴
    let divisor =
        if route.normalize { weights.iter().sum::<f64>().max(2f64.powi(-14)) } else { 1.0 };
    let factor = |i: usize| factors.map_or(1.0, |factors| f64::from(factors[i]));
    let weights = weights.iter().zip(&candidates);
    let weights = weights.map(|(w, &i)| w / divisor * f64::from(route.scale) * factor(i));
    let weights = weights.collect();
    (candidates, Some(weights))
}
