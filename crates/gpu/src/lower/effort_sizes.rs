//! The products of steps with matrices in input-major order, and the memory that they need.

use pelton_graph::{EffortCurve, Error, Gating, Linear, Norm, Op, Plan, Step, WeightId};

use crate::{
    kernels::{
        choose_inputs::list_vectors,
        input_major::{InputMajor, Side},
    },
    weights::lines_of,
};

/// The matrices of a step's products, the norm before them, and whether they are a gate and its value.
pub(super) struct StepProducts<'a> {
    pub(super) norm: Option<&'a Norm>,
    pub(super) linears: Vec<&'a Linear>,
    pub(super) gating: Option<&'a Gating>,
    pub(super) add: bool,
}

impl<'a> StepProducts<'a> {
    /// The products of a step whose matrices can be marked.
    pub(super) fn of(step: &'a Step) -> Option<Self> {
        let plain = |linear, add| Self { norm: None, linears: vec![linear], gating: None, add };
        match &step.op {
            Op::Linear(linear) => Some(plain(linear, false)),
            Op::LinearAdd(linear) => Some(plain(linear, true)),
            Op::NormLinear { norm, linears } => {
                let linears = linears.iter().collect();
                Some(Self { norm: Some(norm), linears, gating: None, add: false })
            }
            Op::NormGlu { norm, gate, up, gating } => Some(Self {
                norm: Some(norm),
                linears: vec![gate, up],
                gating: Some(gating),
                add: false,
            }),
            _ => None,
        }
    }

    /// The indices of the matrices that are not marked.
    pub(super) fn unmarked(&self, plan: &Plan) -> Vec<usize> {
        let marked = |i: &usize| plan.weight(self.linears[*i].weight).effort;
        (0..self.linears.len()).filter(|i| !marked(i)).collect()
    }

    /// The indices of the marked matrices that run in one dispatch: up to three of one format, number of
    /// inputs and fractions.
    pub(super) fn groups(&self, plan: &Plan) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (i, linear) in self.linears.iter().enumerate() {
            let weight = plan.weight(linear.weight);
            if !weight.effort {
                continue;
            }
            let alike = |group: &&mut Vec<usize>| {
                let first = self.linears[group[0]].weight;
                group.len() < 3
                    && plan.weight(first).dtype == weight.dtype
                    && kind(plan, first) == kind(plan, linear.weight)
            };
            match groups.iter_mut().find(alike) {
                Some(group) => group.push(i),
                None => groups.push(vec![i]),
            }
        }
        groups
    }

    /// Whether gate and value are one product.
    pub(super) fn gates(&self, plan: &Plan) -> bool {
        let rows = |linear: &&Linear| plan.weight(linear.weight).rows;
        self.gating.is_some()
            && self.groups(plan) == [[0, 1]]
            && self.linears.iter().all(|linear| linear.bias.is_none())
            && rows(&self.linears[0]) == rows(&self.linears[1])
    }

    /// The product of a group with all inputs.
    ///
    /// # Errors
    /// [`Error::Effort`] for matrices without lines.
    pub(super) fn product(
        &self,
        plan: &Plan,
        group: &[usize],
        threads: usize,
    ) -> Result<InputMajor, Error> {
        let side = |&i: &usize| {
            let linear = self.linears[i];
            let weight = plan.weight(linear.weight);
            Ok(Side { lines: lines_of(plan, weight)?, bias: linear.bias.is_some() })
        };
        Ok(InputMajor {
            sides: group.iter().map(side).collect::<Result<_, Error>>()?,
            norm: self.norm.map(|norm| norm.eps),
            add: self.add,
            apart: false,
            glu: self.gating.filter(|_| self.gates(plan)).copied(),
            chosen: false,
            lives_at: [0, 1],
            only_below: false,
            threads,
        })
    }
}

/// The data that decide how many inputs of a marked matrix are live in a row: their number, and the
/// fractions by effort.
pub(super) fn kind(plan: &Plan, id: WeightId) -> (usize, EffortCurve) {
    (plan.weight(id).row_len, plan.effort_curve(id))
}

/// The distinct kinds of the marked matrices.
pub(super) fn kinds(plan: &Plan) -> Vec<(usize, EffortCurve)> {
    let mut kinds = Vec::new();
    for id in (0..plan.weights.len()).map(WeightId).filter(|id| plan.weight(*id).effort) {
        let of = kind(plan, id);
        if !kinds.contains(&of) {
            kinds.push(of);
        }
    }
    kinds
}

/// Vectors of 16 bytes of the lists of a row's live inputs, at most of any step.
pub(super) fn list_row(plan: &Plan) -> usize {
    let products = plan.steps.iter().filter_map(StepProducts::of);
    let of_group = |products: &StepProducts<'_>, group: &[usize]| {
        let weight = plan.weight(products.linears[group[0]].weight);
        lines_of(plan, weight).map_or(0, |lines| group.len() * list_vectors(&lines))
    };
    let of = |products: StepProducts<'_>| {
        let groups = products.groups(plan);
        groups.iter().map(|group| of_group(&products, group)).max().unwrap_or(0)
    };
    products.map(of).max().unwrap_or(0)
}

/// Elements of the longest row that a marked product is added to.
pub(super) fn kept(plan: &Plan) -> usize {
    let adds = plan.steps.iter().filter_map(|step| match &step.op {
        Op::LinearAdd(linear) => Some(plan.weight(linear.weight)),
        _ => None,
    });
    adds.filter(|weight| weight.effort).map(|weight| weight.rows).max().unwrap_or(0)
}
