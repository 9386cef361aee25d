//! The choice of experts, and their products.

use pelton_graph::{
    Activation, BufferId, ExpertGroups, ExpertLinear, Gating, Op, Route, Scores, Strided,
    StridedCopy,
};
use pelton_quant::DType;

use crate::ops::builder::Builder;
use crate::ops::case::{Case, case, tolerance, whole_blocks};

const PLAIN: Route = Route {
    experts: 1,
    used: 1,
    scores: Scores::Softmax,
    bias: None,
    groups: None,
    normalize: false,
    scale: 1.0,
    expert_scale: None,
};

const SCORES: [Scores; 3] = [Scores::Softmax, Scores::Sigmoid, Scores::SelectedSoftmax];

/// Ids and weights of choices.
pub(super) fn routes() -> Vec<Case> {
    let mut cases = Vec::new();
    let groups = |count, used, best| Some(ExpertGroups { count, used, best });
    for (i, (experts, used)) in
        [(2, 1), (8, 2), (9, 9), (32, 4), (60, 6), (128, 8), (257, 10)].into_iter().enumerate()
    {
        for (j, scores) in SCORES.into_iter().enumerate() {
            for variant in 0..3 {
                let limits = match (experts, variant) {
                    (8, 1) => groups(2, 1, 2),
                    (32, 1) => groups(8, 3, 2),
                    (60, 2) => groups(6, 3, 1),
                    (128, 1) => groups(8, 4, 2),
                    _ => None,
                };
                let mut b = Builder::new(2 * used);
                let logits = b.embed(DType::F32, experts);
                b.step(Op::Scale(2.0), &[logits], &[logits]);
                let route = Route {
                    experts,
                    used,
                    scores,
                    bias: ((i + j + variant) % 2 == 0).then(|| b.vector(experts, 0.0, 0.3)),
                    groups: limits,
                    normalize: (i + variant) % 2 == 0,
                    scale: [1.0, 2.5, 0.3][variant],
                    expert_scale: (variant == 2).then(|| b.vector(experts, 1.0, 0.2)),
                };
                let (ids, weights) = routed(&mut b, route, logits);
                // ids of about the size of the weights
                b.step(Op::Scale(1.0 / experts as f32), &[ids], &[ids]);
                let y = b.buffer(2 * used, ids);
                for (from, offset) in [(ids, 0), (weights, used)] {
                    let (from_place, to) =
                        (Strided { offset: 0, stride: 0 }, Strided { offset, stride: 0 });
                    let copy = StridedCopy { count: 1, width: used, from: from_place, to };
                    b.step(Op::Copy(copy), &[from], &[y]);
                }
                cases.push(case(format!("{route:?}"), b, y, &[]));
            }
        }
    }
    cases
}

/// `route logits → ids weights`.
fn routed(b: &mut Builder, route: Route, logits: BufferId) -> (BufferId, BufferId) {
    let (ids, weights) = (b.buffer(route.used, logits), b.buffer(route.used, logits));
    b.step(Op::Route(route), &[logits], &[ids, weights]);
    (ids, weights)
}

/// The products of chosen experts: one input for all, an input for each, gated, summed.
pub(super) fn products() -> Vec<Case> {
    let mut cases = Vec::new();
    let dtypes = [DType::F32, DType::F16, DType::Q4_0, DType::Q8_0, DType::Q4_K, DType::Q6_K];
    let counts = [(5, 2), (2, 1), (12, 4), (40, 6), (3, 3)];
    for (i, dtype) in dtypes.into_iter().enumerate() {
        for (j, (experts, used)) in counts.into_iter().enumerate() {
            let cols = whole_blocks(dtype, [33, 96, 6][(i + j) % 3]);
            let outputs = whole_blocks(dtype, [50, 33, 257][(i + 2 * j) % 3]);
            let bias = (i + j) % 2 == 0;
            let tolerance = tolerance(dtype);

            let mut b = Builder::new(outputs);
            let (x, ids, weights) = choice(&mut b, cols, experts, used);
            let linear = b.expert_linear(dtype, experts, used, cols, outputs, bias);
            let y = b.buffer(used * outputs, x);
            b.step(Op::ExpertLinear(linear), &[x, ids], &[y]);
            if (i + j) % 3 == 0 {
                let factors = b.vector(experts, 1.0, 0.3);
                b.step(Op::ExpertScale { factors, used }, &[y, ids], &[y]);
            }
            let o = b.buffer(outputs, x);
            b.step(Op::ExpertSum { used }, &[y, weights], &[o]);
            let shape = format!("{dtype} {used} of {experts}, {cols} to {outputs}, bias {bias}");
            cases.push(Case { tolerance, ..case(format!("experts {shape}"), b, o, &[]) });

            let mut b = Builder::new(33);
            let residual = b.embed(DType::F32, 33);
            let (x, ids, weights) = choice(&mut b, cols, experts, used);
            let gating = match (i + j) % 3 {
                0 => Gating::Product(Activation::Silu),
                1 => Gating::Product(Activation::GeluTanh),
                _ => Gating::Clamped { alpha: 1.702, limit: 2.0 },
            };
            let gate = b.expert_linear(dtype, experts, used, cols, outputs, bias);
            let up = b.expert_linear(dtype, experts, used, cols, outputs, bias);
            // halves of one tensor
            if j % 2 == 0 {
                b.part(gate.weight, 0, 2 * outputs);
                b.part(up.weight, outputs, 2 * outputs);
            }
            let (gates, ups) = (b.buffer(used * outputs, x), b.buffer(used * outputs, x));
            b.step(Op::ExpertLinear(gate), &[x, ids], &[gates]);
            b.step(Op::ExpertLinear(up), &[x, ids], &[ups]);
            b.step(Op::Glu(gating), &[gates, ups], &[gates]);
            let down = b.expert_linear(dtype, experts, used, outputs, 33, bias);
            let y = b.buffer(used * 33, x);
            b.step(Op::ExpertLinear(down), &[gates, ids], &[y]);
            let o = b.buffer(33, x);
            b.step(Op::ExpertSum { used }, &[y, weights], &[o]);
            b.step(Op::Add, &[residual, o], &[residual]);
            let name = format!("gated experts {shape}, {}", gating.name());
            let case = case(name, b, residual, &["expert_glu", "expert_sum_add"]);
            cases.push(Case { tolerance: 3.0 * tolerance, ..case });
        }
    }
    cases
}

/// An input, and experts that are chosen for it: some more often than others.
fn choice(
    b: &mut Builder,
    width: usize,
    experts: usize,
    used: usize,
) -> (BufferId, BufferId, BufferId) {
    let x = b.embed(DType::F32, width);
    let logits = b.embed(DType::F32, experts);
    let bias = Some(b.vector(experts, 0.0, 0.3));
    let route = Route { experts, used, bias, normalize: true, ..PLAIN };
    let (ids, weights) = routed(b, route, logits);
    (x, ids, weights)
}

impl Builder {
    /// Random matrices of experts.
    fn expert_linear(
        &mut self,
        dtype: DType,
        experts: usize,
        used: usize,
        cols: usize,
        outputs: usize,
        bias: bool,
    ) -> ExpertLinear {
        let weight = self.matrices(dtype, experts, cols, outputs);
        let bias = bias.then(|| self.table(DType::F32, outputs, experts));
        ExpertLinear { weight, bias, used }
    }
}
