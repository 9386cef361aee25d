//! The products of steps with matrices in input-major order, and the memory that they need.

use pelton_graph::{EffortCurve, Gating, Linear, Norm, Op, Plan, Step, WeightId};

use crate::{
    kernels::live_product::{GRID_ROWS, LiveProduct, Side},
    lower::handoff::read_once,
    weights::{groups_of, input_major_layout_of},
};

/// The matrices of a step's products, the norm before them, and whether they are a gate and its
/// value.
pub(super) struct StepProducts<'a> {
    pub(super) step: &'a Step,
    pub(super) norm: Option<&'a Norm>,
    pub(super) linears: Vec<&'a Linear>,
    pub(super) gating: Option<&'a Gating>,
    pub(super) add: bool,
}

impl<'a> StepProducts<'a> {
    /// The products of a step, if rows below 1 have others than full ones. Its matrices are then
    /// marked, of a gated product both alike, and have an order for it.
    pub(super) fn of(plan: &Plan, step: &'a Step) -> Option<Self> {
        let plain =
            |linear, add| Self { step, norm: None, linears: vec![linear], gating: None, add };
        let products = match &step.op {
            Op::Linear(linear) => plain(linear, false),
            Op::LinearAdd(linear) => plain(linear, true),
            Op::NormLinear { norm, linears } => {
                let linears = linears.iter().collect();
                Self { step, norm: Some(norm), linears, gating: None, add: false }
            }
            Op::NormGlu { norm, gate, up, gating } => {
                let (norm, linears) = (Some(norm), vec![gate, up]);
                Self { step, norm, linears, gating: Some(gating), add: false }
            }
            _ => return None,
        };
        (!products.groups(plan).is_empty()).then_some(products)
    }

    /// The indices of the matrices whose rows below 1 are multiplied as the others.
    pub(super) fn unmarked(&self, plan: &Plan) -> Vec<usize> {
        let groups = self.groups(plan);
        (0..self.linears.len()).filter(|i| !groups.iter().flatten().any(|of| of == i)).collect()
    }

    /// The indices of the matrices that run in one dispatch.
    pub(super) fn groups(&self, plan: &Plan) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..self.linears.len()).collect();
        let weight = |i: &usize| self.linears[*i].weight;
        let of = |group: Vec<WeightId>| {
            all.iter().copied().filter(|i| group.contains(&weight(i))).collect()
        };
        groups_of(plan, &self.step.op).into_iter().map(of).collect()
    }

    /// The product of a group with matrices in input-major order, for rows of decoding. `lives_at`
    /// are the places of the words of a weight's rows, `rows_at` those of the first weight of all.
    pub(super) fn live_product(
        &self,
        plan: &Plan,
        group: &[usize],
        lives_at: &dyn Fn(WeightId) -> [usize; 2],
        rows_at: [usize; 2],
    ) -> LiveProduct {
        let [first, _] = lives_at(self.linears[group[0]].weight);
        let side = |&i: &usize| {
            let linear = self.linears[i];
            let [lives_at, _] = lives_at(linear.weight);
            // a matrix may come before the first of its group
            let lives_at = (rows_at[0] + lives_at).wrapping_sub(first) as u32;
            let lines = input_major_layout_of(plan.weight(linear.weight))?;
            Some(Side { lines, bias: linear.bias.is_some(), lives_at })
        };
        LiveProduct {
            sides: group.iter().filter_map(side).collect(),
            norm: self.norm.map(|norm| norm.eps),
            add: self.add,
            apart: false,
            glu: self.gating.copied(),
            gated: None,
            rows_at,
            mixed: true,
            on_grid: true,
            teams: 1,
            is_phase: false,
        }
    }

    /// Elements of the partial sums of passes of up to `rows` rows.
    fn partial_len(&self, plan: &Plan, rows: usize) -> usize {
        let of_rows =
            |on_grid: usize, alone: usize| (GRID_ROWS.min(rows) * on_grid).max(rows * alone);
        let of_group = |group: &[usize]| {
            let product = self.live_product(plan, group, &|_| [0, 1], [0, 1]);
            let alone = LiveProduct { on_grid: false, ..product.clone() };
            of_rows(product.partial_len(), alone.partial_len())
        };
        self.groups(plan).iter().map(|group| of_group(group)).max().unwrap_or(0)
    }
}

/// The gated product before a step whose partial sums the step's product of rows below 1 adds, as
/// nothing else reads it.
pub(super) fn gated_before<'p>(plan: &'p Plan, step: &Step) -> Option<StepProducts<'p>> {
    let at = plan.steps.iter().position(|other| std::ptr::eq(other, step))?;
    let before = plan.steps.get(at.checked_sub(1)?)?;
    let Op::LinearAdd(_) = step.op else { return None };
    let Op::NormGlu { norm: _, gate, up, gating: _ } = &before.op else { return None };
    let (result, rows) = (before.outputs[0], |step: &Step| plan.buffer(step.outputs[0]).rows);
    let adds = step.inputs.get(1) == Some(&result)
        && read_once(plan, at - 1, result)
        && !plan.begins_part(at)
        && rows(before) == rows(step)
        && gate.bias.is_none()
        && up.bias.is_none()
        && StepProducts::of(plan, step).is_some();
    StepProducts::of(plan, before).filter(|_| adds)
}

/// The queries, keys and values before a step with attention, if it can add their partial sums of
/// rows below 1, as nothing else reads them.
pub(super) fn heads_before<'p>(plan: &'p Plan, step: &Step) -> Option<StepProducts<'p>> {
    let at = plan.steps.iter().position(|other| std::ptr::eq(other, step))?;
    let before = plan.steps.get(at.checked_sub(1)?).filter(|_| !plan.begins_part(at))?;
    let (Op::RopeAttend(..), Op::NormLinear { .. }) = (&step.op, &before.op) else { return None };
    let rows = |step: &Step| plan.buffer(step.outputs[0]).rows;
    let adds = step.inputs == before.outputs
        && rows(before) == rows(step)
        && before.outputs.iter().all(|&result| read_once(plan, at - 1, result));
    let products = StepProducts::of(plan, before).filter(|_| adds)?;
    (products.groups(plan) == [[0, 1, 2]]).then_some(products)
}

/// Whether the next step adds the partial sums of a gated product.
pub(super) fn is_added_later(plan: &Plan, step: &Step) -> bool {
    let next = plan.steps.windows(2).find(|pair| std::ptr::eq(&pair[0], step));
    next.is_some_and(|pair| gated_before(plan, &pair[1]).is_some())
}

/// The marked matrices, and their thresholds.
pub(super) fn curves(plan: &Plan) -> Vec<(WeightId, EffortCurve)> {
    let ids = (0..plan.weights.len()).map(WeightId).filter(|id| plan.weight(*id).marked);
    ids.map(|id| (id, plan.effort_curve(id))).collect()
}

/// Elements of the partial sums of passes of up to `rows` rows, at most of any step but
/// those of [`gates_len`].
pub(super) fn partial_len(plan: &Plan, rows: usize) -> usize {
    let own = plan.steps.iter().filter(|step| !is_added_later(plan, step));
    let all = own.filter_map(|step| StepProducts::of(plan, step));
    all.map(|products| products.partial_len(plan, rows)).max().unwrap_or(0)
}

/// The same of the steps whose sums the next one adds.
pub(super) fn gates_len(plan: &Plan, rows: usize) -> usize {
    let all = plan.steps.iter().filter_map(|step| gated_before(plan, step));
    all.map(|products| products.partial_len(plan, rows)).max().unwrap_or(0)
}

/// Elements of the longest row that a marked product is added to.
pub(super) fn kept(plan: &Plan) -> usize {
    let adds = plan.steps.iter().filter_map(|step| match &step.op {
        Op::LinearAdd(linear) => Some(plan.weight(linear.weight)),
        _ => None,
    });
    adds.filter(|weight| weight.marked).map(|weight| weight.rows).max().unwrap_or(0)
}
