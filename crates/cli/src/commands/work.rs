//! The products that the steps of a pass compute.

use pelton::graph::{Op, Plan, Rows, Step, WeightKind, used_experts};
pub(super) use pelton::graph::{cache_read, weights_read};

/// Products of a row with the matrices of a step.
pub(super) fn products(plan: &Plan, step: &Step) -> f64 {
    let matrix = |id| {
        let weight = plan.weight(id);
        let count = used_experts(&step.op).unwrap_or(weight.count()) as f64;
        match weight.kind {
            WeightKind::Vector => 0.0,
            _ => (weight.rows * weight.row_len) as f64 * count,
        }
    };
    match step.op {
        Op::Embed { .. } => 0.0,
        _ => step.op.weights().into_iter().map(matrix).sum(),
    }
}

/// Whether a step runs for rows whose results are wanted, and not for other rows of a prompt.
pub(super) fn is_selected(plan: &Plan, step: &Step) -> bool {
    step.outputs.iter().any(|id| plan.buffers[id.0].rows == Rows::Selected)
}
