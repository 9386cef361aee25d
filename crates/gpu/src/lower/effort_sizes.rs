//! The products of steps with matrices in input-major order, and the memory that they need.

use pelton_graph::{Error, Gating, Linear, Norm, Op, Plan, Step};

use crate::{
    device::Capabilities,
    kernels::{
        input_major::{InputMajor, Side},
        matvec::Tuning,
    },
    weights::Lines,
};

/// Threads of products without a norm: with K splits there are few chains for a workgroup.
pub(super) const THREADS: usize = 256;

/// The matrices of a step's products, the norm before them, and whether they are a gate and its value.
pub(super) struct Products<'a> {
    pub(super) norm: Option<&'a Norm>,
    pub(super) linears: Vec<&'a Linear>,
    pub(super) gating: Option<&'a Gating>,
    pub(super) add: bool,
}

impl<'a> Products<'a> {
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

    /// The indices of the marked matrices that run in one dispatch: up to three of one format and
    /// number of inputs.
    pub(super) fn groups(&self, plan: &Plan) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (i, linear) in self.linears.iter().enumerate() {
            let weight = plan.weight(linear.weight);
            if !weight.effort {
                continue;
            }
            let alike = |group: &&mut Vec<usize>| {
                let first = plan.weight(self.linears[group[0]].weight);
                group.len() < 3 && (first.dtype, first.row_len) == (weight.dtype, weight.row_len)
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

    /// The product of a group for rows of decoding.
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
            let lines = Lines::new(weight.dtype, weight.rows, weight.row_len);
            let lines = lines.ok_or_else(|| {
                Error::Effort(format!("tensor '{}' has no order by inputs", weight.name))
            })?;
            Ok(Side { lines, bias: linear.bias.is_some() })
        };
        Ok(InputMajor {
            sides: group.iter().map(side).collect::<Result<_, Error>>()?,
            norm: self.norm.map(|norm| norm.eps),
            add: self.add,
            apart: false,
            glu: self.gating.filter(|_| self.gates(plan)).copied(),
            lives_at: [0, 1],
            only_below: false,
            on_grid: true,
            threads: if self.norm.is_some() { threads } else { THREADS },
        })
    }
}

/// The distinct numbers of inputs of the marked matrices.
pub(super) fn kinds(plan: &Plan) -> Vec<usize> {
    let marked = plan.weights.iter().filter(|weight| weight.effort);
    let mut kinds: Vec<usize> = marked.map(|weight| weight.row_len).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Slots of a row in which workgroups exchange sums, at most of any step.
pub(super) fn slots(plan: &Plan, capabilities: &Capabilities) -> usize {
    let products = || plan.steps.iter().filter_map(Products::of);
    let of = |products: Products<'_>| {
        let groups = products.groups(plan);
        let of_group = |group: &Vec<usize>| {
            let slots = Tuning::CANDIDATES.map(|tuning| {
                let product = products.product(plan, group, tuning.threads);
                product.map_or(0, |product| product.slots(capabilities))
            });
            slots.into_iter().max().unwrap_or(0)
        };
        groups.iter().map(of_group).max().unwrap_or(0)
    };
    products().map(of).max().unwrap_or(0)
}

/// Elements of the longest row that a marked product is added to.
pub(super) fn kept(plan: &Plan) -> usize {
    let adds = plan.steps.iter().filter_map(|step| match &step.op {
        Op::LinearAdd(linear) => Some(plan.weight(linear.weight)),
        _ => None,
    });
    adds.filter(|weight| weight.effort).map(|weight| weight.rows).max().unwrap_or(0)
}
