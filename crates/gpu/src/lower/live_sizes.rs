//! The products of steps with matrices in input-major order or with sorted buckets, and the memory that they
//! need.

use pelton_graph::{EffortCurve, Error, Gating, Linear, Norm, Op, Plan, Step, Weight, WeightId};

use crate::{
    kernels::{
        buckets::{self, Buckets},
        live_product::{GRID_ROWS, LiveProduct, SIDES, Side},
    },
    weights::{Lines, buckets_of, has_buckets, lines_of},
};

/// The matrices of a step's products, the norm before them, and whether they are a gate and its value.
pub(super) struct StepProducts<'a> {
    pub(super) norm: Option<&'a Norm>,
    pub(super) linears: Vec<&'a Linear>,
    pub(super) gating: Option<&'a Gating>,
    pub(super) add: bool,
}

/// The lines of a weight whose rows of an effort below 1 skip inputs.
fn lines(plan: &Plan, weight: &Weight) -> Option<Lines> {
    lines_of(plan, weight).ok().flatten()
}

impl<'a> StepProducts<'a> {
    /// The products of a step, if rows of an effort below 1 have others than those of effort 1. Effort then
    /// applies to its matrices, of a gated product to both alike, and their formats have an order for it.
    pub(super) fn of(plan: &Plan, step: &'a Step) -> Option<Self> {
        let plain = |linear, add| Self { norm: None, linears: vec![linear], gating: None, add };
        let products = match &step.op {
            Op::Linear(linear) => plain(linear, false),
            Op::LinearAdd(linear) => plain(linear, true),
            Op::NormLinear { norm, linears } => {
                let linears = linears.iter().collect();
                Self { norm: Some(norm), linears, gating: None, add: false }
            }
            Op::NormGlu { norm, gate, up, gating } => {
                let (norm, linears) = (Some(norm), vec![gate, up]);
                Self { norm, linears, gating: Some(gating), add: false }
            }
            _ => return None,
        };
        let groups = products.groups(plan);
        let is_whole = products.gating.is_none() || groups == [[0, 1]];
        (!groups.is_empty() && is_whole).then_some(products)
    }

    fn weight<'p>(&self, plan: &'p Plan, index: usize) -> &'p Weight {
        plan.weight(self.linears[index].weight)
    }

    /// The indices of the matrices whose rows of an effort below 1 are multiplied as the others.
    pub(super) fn unmarked(&self, plan: &Plan) -> Vec<usize> {
        let groups = self.groups(plan);
        (0..self.linears.len()).filter(|i| !groups.iter().flatten().any(|of| of == i)).collect()
    }

    /// The indices of the matrices that run in one dispatch: up to three of one format.
    pub(super) fn groups(&self, plan: &Plan) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for i in 0..self.linears.len() {
            let weight = self.weight(plan, i);
            let is_alike = |group: &&mut Vec<usize>| {
                let first = self.weight(plan, group[0]).dtype;
                group.len() < SIDES && (has_buckets(plan) || first == weight.dtype)
            };
            match weight.effort && (has_buckets(plan) || lines(plan, weight).is_some()) {
                false => {}
                true => match groups.iter_mut().find(is_alike) {
                    Some(group) => group.push(i),
                    None => groups.push(vec![i]),
                },
            }
        }
        groups
    }

    /// The product of a group with matrices in input-major order, for rows of decoding. `lives_at` are the places
    /// of the words of a weight's rows.
    pub(super) fn live_product(
        &self,
        plan: &Plan,
        group: &[usize],
        lives_at: &dyn Fn(WeightId) -> [usize; 2],
    ) -> LiveProduct {
        let side = |&i: &usize| {
            let linear = self.linears[i];
            let [lives_at, _] = lives_at(linear.weight);
            let lines = lines(plan, plan.weight(linear.weight))?;
            Some(Side { lines, bias: linear.bias.is_some(), lives_at })
        };
        LiveProduct {
            sides: group.iter().filter_map(side).collect(),
            norm: self.norm.map(|norm| norm.eps),
            add: self.add,
            apart: false,
            glu: self.gating.copied(),
            lives_step: lives_at(self.linears[group[0]].weight)[1],
            on_grid: true,
        }
    }

    /// The product of a group with sorted buckets, for rows of decoding.
    ///
    /// # Errors
    /// [`Error::Effort`] for matrices without buckets.
    pub(super) fn bucket_product(&self, plan: &Plan, group: &[usize]) -> Result<Buckets, Error> {
        let side = |&i: &usize| {
            let linear = self.linears[i];
            let shape = buckets_of(plan, plan.weight(linear.weight))?;
            Ok(buckets::Side { shape, bias: linear.bias.is_some() })
        };
        Ok(Buckets {
            sides: group.iter().map(side).collect::<Result<_, Error>>()?,
            norm: self.norm.map(|norm| norm.eps),
            add: self.add,
            apart: false,
            glu: self.gating.copied(),
            lives_at: [0, 1],
            on_grid: true,
        })
    }
}

/// The marked matrices, and their thresholds or fractions by effort.
pub(super) fn curves(plan: &Plan) -> Vec<(WeightId, EffortCurve)> {
    let ids = (0..plan.weights.len()).map(WeightId).filter(|id| plan.weight(*id).effort);
    ids.map(|id| (id, plan.effort_curve(id))).collect()
}

/// Elements of the partial sums of passes of up to `rows` rows, at most of any step.
pub(super) fn partial_len(plan: &Plan, rows: usize) -> usize {
    let of_rows = |on_grid: usize, alone: usize| (GRID_ROWS.min(rows) * on_grid).max(rows * alone);
    let of_group = |products: &StepProducts<'_>, group: &[usize]| match has_buckets(plan) {
        true => products.bucket_product(plan, group).map_or(0, |product| {
            let alone = Buckets { on_grid: false, ..product.clone() };
            of_rows(product.partial_len(), alone.partial_len())
        }),
        false => {
            let product = products.live_product(plan, group, &|_| [0, 1]);
            let alone = LiveProduct { on_grid: false, ..product.clone() };
            of_rows(product.partial_len(), alone.partial_len())
        }
    };
    let of = |products: StepProducts<'_>| {
        let groups = products.groups(plan);
        groups.iter().map(|group| of_group(&products, group)).max().unwrap_or(0)
    };
    plan.steps.iter().filter_map(|step| StepProducts::of(plan, step)).map(of).max().unwrap_or(0)
}

/// Elements of the longest row that a marked product is added to.
pub(super) fn kept(plan: &Plan) -> usize {
    let adds = plan.steps.iter().filter_map(|step| match &step.op {
        Op::LinearAdd(linear) => Some(plan.weight(linear.weight)),
        _ => None,
    });
    adds.filter(|weight| weight.effort).map(|weight| weight.rows).max().unwrap_or(0)
}
