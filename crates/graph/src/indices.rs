//! The indices of an op: what it reads of its plan.

use crate::WeightId;
use crate::op::{ExpertLinear, Linear, Norm, Op, RopeStore};

/// An index of an op into a list of its plan.
#[derive(Debug, PartialEq, Eq)]
pub enum Index<'a> {
    /// Into [`Plan::weights`](crate::Plan::weights).
    Weight(&'a mut WeightId),
    /// Into [`Plan::caches`](crate::Plan::caches).
    Cache(&'a mut usize),
    /// Into [`Plan::states`](crate::Plan::states).
    State(&'a mut usize),
}

type Visit<'v> = &'v mut dyn FnMut(Index<'_>);

impl Op {
    /// Calls `visit` with each index, the weights in the order in which the op uses them.
    pub fn visit_indices(&mut self, visit: Visit<'_>) {
        match self {
            Self::Embed { table } | Self::AddTable { table, row: _ } => {
                visit(Index::Weight(table));
            }
            Self::Norm(norm) | Self::HeadNorm { norm, heads: _ } => of_norm(norm, visit),
            Self::Linear(of) | Self::LinearAdd(of) => of_linear(of, visit),
            Self::HeadLinear { weight, heads: _ } => visit(Index::Weight(weight)),
            Self::Store { cache } => visit(Index::Cache(cache)),
            Self::Attend(attention) => {
                visit(Index::Cache(&mut attention.cache));
                optional(&mut attention.sinks, visit);
            }
            Self::ShortConv(conv) => {
                visit(Index::State(&mut conv.state));
                visit(Index::Weight(&mut conv.weight));
                optional(&mut conv.bias, visit);
            }
            Self::GatedDelta(delta) => {
                visit(Index::State(&mut delta.state));
                visit(Index::Weight(&mut delta.rate));
                visit(Index::Weight(&mut delta.shift));
            }
            Self::SelectiveScan(scan) => {
                visit(Index::State(&mut scan.state));
                visit(Index::Weight(&mut scan.rate));
                visit(Index::Weight(&mut scan.skip));
                visit(Index::Weight(&mut scan.shift));
            }
            Self::Route(route) => {
                optional(&mut route.bias, visit);
                optional(&mut route.expert_scale, visit);
            }
            Self::ExpertLinear(of) => of_experts(of, visit),
            Self::ExpertScale { factors, used: _ } => visit(Index::Weight(factors)),
            Self::NormLinear { norm, linears } => {
                of_norm(norm, visit);
                linears.iter_mut().for_each(|of| of_linear(of, visit));
            }
            Self::RopeStore(store) => of_rope_store(store, visit),
            Self::RopeAttend(store, attention) => {
                of_rope_store(store, visit);
                visit(Index::Cache(&mut attention.cache));
                optional(&mut attention.sinks, visit);
            }
            Self::NormGlu { norm, gate, up, gating: _ } => {
                of_norm(norm, visit);
                of_linear(gate, visit);
                of_linear(up, visit);
            }
            Self::ExpertGlu { gate, up, gating: _ } => {
                of_experts(gate, visit);
                of_experts(up, visit);
            }
            Self::Rope { .. }
            | Self::Temper { .. }
            | Self::Add
            | Self::Glu(_)
            | Self::Activate(_)
            | Self::Scale(_)
            | Self::Softcap(_)
            | Self::Clamp { low: _, high: _ }
            | Self::Xielu(_)
            | Self::Inject { slice: _, adds: _ }
            | Self::Copy(_)
            | Self::Adapters(_)
            | Self::ExpertSum { .. }
            | Self::ExpertSumAdd { .. }
            | Self::Select
            | Self::Pool(_) => {}
        }
    }

    /// The weights that it reads, in the order in which it uses them.
    pub fn weights(&self) -> Vec<WeightId> {
        let mut weights = Vec::new();
        self.clone().visit_indices(&mut |index| {
            if let Index::Weight(id) = index {
                weights.push(*id);
            }
        });
        weights
    }
}

fn optional(id: &mut Option<WeightId>, visit: Visit<'_>) {
    if let Some(id) = id {
        visit(Index::Weight(id));
    }
}

fn of_norm(norm: &mut Norm, visit: Visit<'_>) {
    optional(&mut norm.weight, visit);
    optional(&mut norm.bias, visit);
}

fn of_linear(linear: &mut Linear, visit: Visit<'_>) {
    visit(Index::Weight(&mut linear.weight));
    optional(&mut linear.bias, visit);
}

fn of_experts(linear: &mut ExpertLinear, visit: Visit<'_>) {
    visit(Index::Weight(&mut linear.weight));
    optional(&mut linear.bias, visit);
}

fn of_rope_store(store: &mut RopeStore, visit: Visit<'_>) {
    for norm in [&mut store.q_norm, &mut store.k_norm].into_iter().flatten() {
        of_norm(norm, visit);
    }
    visit(Index::Cache(&mut store.cache));
}
