//! Handoffs: the values that a step of a decoding pass on matrix cores leaves in scratch memory
//! for the next one.
//!
//! A decoding pass has too few rows to fill a GPU with tiles, and each dispatch waits for the one
//! before. Two pairs of steps therefore share dispatches:
//!
//! | step | next step | the first leaves | the second |
//! |---|---|---|---|
//! | `LinearAdd` | `NormLinear` or `NormGlu` of its sum | the partial sums of its K splits | adds them to x before the norm |
//! | `NormGlu` | `LinearAdd`, the only reader | its result in f16 | multiplies it without a conversion |
//!
//! One pass over the plan finds the pairs. The lowering of a step then depends on the step and on
//! its own [`Handoff`] alone.

use pelton_graph::{Activation, BufferId, Linear, NormKind, Op, Plan, Step, WeightId};

use crate::{kernels::to_f16::padded, weights::Layout};

/// The values that a step of a decoding pass finds in scratch memory, and leaves there. The default
/// is a step without a handoff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Handoff {
    /// The product before, whose partial sums the step adds to x before its norm.
    pub(super) completes: Option<Linear>,
    /// Whether the next step completes the partial sums of this product.
    pub(super) completed_later: bool,
    /// Whether the gated product before has left the activations in f16.
    pub(super) finds_halves: bool,
    /// Whether this gated product leaves its result in f16, and nowhere else.
    pub(super) leaves_halves: bool,
}

/// The properties of a matrix by which products on matrix cores share dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MatrixOnCores {
    pub(super) layout: Layout,
    pub(super) shards: usize,
}

/// The handoffs of each step of a plan. `matrix` describes a matrix that decoding passes multiply
/// on matrix cores; of others it is `None`.
pub(super) fn handoffs(
    plan: &Plan,
    matrix: &dyn Fn(WeightId) -> Option<MatrixOnCores>,
) -> Vec<Handoff> {
    let mut all = vec![Handoff::default(); plan.steps.len()];
    for (i, pair) in plan.steps.windows(2).enumerate() {
        let [before, step] = pair else { continue };
        if plan.begins_part(i + 1) {
            continue;
        }
        if let Some(product) = completed(plan, matrix, before, step) {
            all[i].completed_later = true;
            all[i + 1].completes = Some(product);
        }
        if passes_halves(plan, matrix, before, step) && read_once(plan, i, before.outputs[0]) {
            all[i].leaves_halves = true;
            all[i + 1].finds_halves = true;
        }
    }
    all
}

/// The function that the step after a product of one matrix applies to its result, in place.
pub(super) fn activation_after(plan: &Plan, i: usize) -> Option<Activation> {
    let (step, next) = (plan.steps.get(i)?, plan.steps.get(i + 1)?);
    let Op::Activate(activation) = next.op else { return None };
    let single = match &step.op {
        Op::Linear(_) => true,
        Op::NormLinear { norm: _, linears } => linears.len() == 1,
        _ => false,
    };
    (single && step.outputs == next.outputs && !plan.begins_part(i + 1)).then_some(activation)
}

/// Whether products of the same activations run in one dispatch: two or three with whole matrices
/// whose formats suit each other.
pub(super) fn fuses(
    linears: &[Linear],
    matrix: &dyn Fn(WeightId) -> Option<MatrixOnCores>,
) -> bool {
    let matrices: Option<Vec<_>> = linears.iter().map(|linear| matrix(linear.weight)).collect();
    let Some(matrices) = matrices.filter(|all| (2..=3).contains(&all.len())) else {
        return false;
    };
    let first = matrices[0].layout;
    let suits = |layout: Layout| layout == first || (layout.blocks() && first.blocks());
    matrices.iter().all(|matrix| suits(matrix.layout) && matrix.shards == 1)
}

/// Whether a gate and its value run in one dispatch.
pub(super) fn gates(
    [gate, up]: [&Linear; 2],
    matrix: &dyn Fn(WeightId) -> Option<MatrixOnCores>,
) -> bool {
    gate.bias.is_none() && up.bias.is_none() && fuses(&[*gate, *up], matrix)
}

/// The product of the step before whose partial sums a step completes: the step begins with the
/// norm of what the product adds to, in the same rows.
fn completed(
    plan: &Plan,
    matrix: &dyn Fn(WeightId) -> Option<MatrixOnCores>,
    before: &Step,
    step: &Step,
) -> Option<Linear> {
    let Op::LinearAdd(product) = &before.op else { return None };
    let first = match &step.op {
        // a norm that has no kernel with products of few rows is computed before all of them
        Op::NormLinear { norm, linears }
            if norm.kind == NormKind::Layer
                && linears.iter().any(|linear| matrix(linear.weight).is_none()) =>
        {
            return None;
        }
        Op::NormLinear { norm: _, linears } => linears.first()?,
        Op::NormGlu { norm: _, gate, up: _, gating: _ } => gate,
        _ => return None,
    };
    let rows = |step: &Step| plan.buffer(step.outputs[0]).rows;
    let completes = before.outputs[0] == step.inputs[0]
        && both_marked(plan, first, product)
        && rows(before) == rows(step)
        && matrix(first.weight).is_some()
        && matrix(product.weight).is_some();
    completes.then_some(*product)
}

/// Whether no step but the next one reads a result of step `i`, before another one
/// writes to the buffer.
pub(super) fn read_once(plan: &Plan, i: usize, result: BufferId) -> bool {
    for step in plan.steps.iter().skip(i + 2) {
        if step.inputs.contains(&result) {
            return false;
        }
        if step.outputs.contains(&result) {
            return true;
        }
    }
    true
}

/// Whether a gated product can leave the activations of the next step in f16, whose
/// rows need no padding.
fn passes_halves(
    plan: &Plan,
    matrix: &dyn Fn(WeightId) -> Option<MatrixOnCores>,
    before: &Step,
    step: &Step,
) -> bool {
    let Op::NormGlu { norm: _, gate, up, gating: _ } = &before.op else { return false };
    let Op::LinearAdd(product) = &step.op else { return false };
    let result = before.outputs[0];
    let row_len = plan.weight(product.weight).row_len;
    step.inputs.get(1) == Some(&result)
        && both_marked(plan, gate, product)
        && both_marked(plan, up, product)
        && plan.buffer(result).rows == plan.buffer(step.outputs[0]).rows
        && gates([gate, up], matrix)
        && matrix(product.weight).is_some()
        && padded(row_len) == row_len
}

/// Whether both matrices are marked or neither: a row below 1 has its sums at
/// once.
fn both_marked(plan: &Plan, a: &Linear, b: &Linear) -> bool {
    plan.weight(a.weight).marked == plan.weight(b.weight).marked
}

#[cfg(test)]
mod tests {
    use pelton_graph::build;
    use pelton_quant::DType;
    use pelton_testing::ModelSpec;

    use super::*;

    /// Layers with all fused ops: `NormLinear` (q, k, v), `RopeAttend`, `LinearAdd`, `NormGlu` and
    /// `LinearAdd` in each.
    fn plan(layers: usize) -> Plan {
        let spec = ModelSpec { layers, ..ModelSpec::wide(DType::Q4_0) };
        build(&spec.checkpoint()).unwrap().fuse(&|_, _| true)
    }

    fn whole(_: WeightId) -> Option<MatrixOnCores> {
        Some(MatrixOnCores { layout: Layout::of(DType::Q4_0), shards: 1 })
    }

    /// The steps of a plan for which `is` holds.
    fn steps(all: &[Handoff], is: impl Fn(&Handoff) -> bool) -> Vec<usize> {
        (0..all.len()).filter(|&i| is(&all[i])).collect()
    }

    /// The steps of the plan with an op of that name.
    fn named(plan: &Plan, name: &str) -> Vec<usize> {
        (0..plan.steps.len()).filter(|&i| plan.steps[i].op.name() == name).collect()
    }

    #[test]
    fn the_next_norm_completes_a_sum() {
        let plan = plan(2);
        let all = handoffs(&plan, &whole);
        let (added, gated) = (named(&plan, "linear_add"), named(&plan, "norm_glu"));
        // the sum of the last layer is read by the selection of rows
        assert_eq!(steps(&all, |of| of.completed_later), added[..3]);
        let completing = [gated[0], named(&plan, "norm_linear")[1], gated[1]];
        assert_eq!(steps(&all, |of| of.completes.is_some()), completing);
        for i in completing {
            let Op::LinearAdd(product) = &plan.steps[i - 1].op else { panic!("{i}") };
            assert_eq!(all[i].completes, Some(*product));
        }
    }

    #[test]
    fn the_next_product_reads_a_gated_one() {
        let mut plan = plan(2);
        let all = handoffs(&plan, &whole);
        let (gated, added) = (named(&plan, "norm_glu"), named(&plan, "linear_add"));
        assert_eq!(steps(&all, |of| of.leaves_halves), gated);
        assert_eq!(steps(&all, |of| of.finds_halves), [added[1], added[3]]);
        // another step reads the result of the first layer before the second layer
        // writes to its buffer
        let reader = named(&plan, "rope_attend")[1];
        let result = plan.steps[gated[0]].outputs[0];
        plan.steps[reader].inputs.push(result);
        let all = handoffs(&plan, &whole);
        assert_eq!(steps(&all, |of| of.leaves_halves), gated[1..]);
    }

    #[test]
    fn matrices_without_matrix_cores_have_no_handoffs() {
        let plan = plan(1);
        assert!(handoffs(&plan, &|_| None).iter().all(|of| *of == Handoff::default()));
        // a product whose sum is complete leaves nothing for the next step
        let Op::LinearAdd(output) = plan.steps[named(&plan, "linear_add")[0]].op else { panic!() };
        let all = handoffs(&plan, &|id| whole(id).filter(|_| id != output.weight));
        assert!(steps(&all, |of| of.completes.is_some() || of.completed_later).is_empty());
        assert_eq!(steps(&all, |of| of.leaves_halves), named(&plan, "norm_glu"));
    }

    #[test]
    fn gates_that_are_no_single_dispatch_leave_no_halves() {
        let plan = plan(1);
        let sharded = |id| whole(id).map(|matrix| MatrixOnCores { shards: 2, ..matrix });
        // blocks and floats do not suit each other
        let Op::NormGlu { up, .. } = &plan.steps[named(&plan, "norm_glu")[0]].op else { panic!() };
        let mixed = |id| match id == up.weight {
            true => Some(MatrixOnCores { layout: Layout::of(DType::F16), shards: 1 }),
            false => whole(id),
        };
        for matrix in [&sharded as &dyn Fn(WeightId) -> Option<MatrixOnCores>, &mixed] {
            let all = handoffs(&plan, matrix);
            assert!(steps(&all, |of| of.leaves_halves || of.finds_halves).is_empty());
            // partial sums need no single dispatch
            assert_eq!(steps(&all, |of| of.completes.is_some()), named(&plan, "norm_glu"));
        }
    }

    #[test]
    fn rows_of_f16_that_need_padding_are_converted() {
        let spec = ModelSpec { layers: 1, ffn: 96, ..ModelSpec::wide(DType::Q4_0) };
        let plan = build(&spec.checkpoint()).unwrap().fuse(&|_, _| true);
        let all = handoffs(&plan, &whole);
        assert!(steps(&all, |of| of.leaves_halves || of.finds_halves).is_empty());
    }

    /// A row below 1 has its sums at once, so steps of other efforts share none.
    #[test]
    fn matrices_of_other_efforts_share_nothing() {
        let mut plan = plan(2);
        let Op::LinearAdd(output) = plan.steps[named(&plan, "linear_add")[0]].op else { panic!() };
        plan.weights[output.weight.0].marked = true;
        let all = handoffs(&plan, &whole);
        assert_eq!(all[named(&plan, "norm_glu")[0]].completes, None);
        assert_eq!(steps(&all, |of| of.completes.is_some()).len(), 2);
    }
}
