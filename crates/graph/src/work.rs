//! The bytes that the steps of a pass read.

use crate::{KvType, Op, Place, Plan, Step};

/// Bytes of weights that a step reads for `rows` rows, which multiply the share `live` of those
/// that are marked. Rows choose their experts independently of each other.
pub fn weights_read(plan: &Plan, step: &Step, rows: usize, live: f64) -> f64 {
    let matrix = |id| {
        let weight = plan.weight(id);
        let row = weight.dtype.bytes_of(weight.row_len).unwrap_or(0) as f64;
        if matches!(step.op, Op::Embed { .. }) {
            return row * rows as f64;
        }
        let count = weight.count() as f64;
        let read = match used_experts(&step.op) {
            Some(used) => count * (1.0 - (1.0 - used as f64 / count).powf(rows as f64)),
            None => count,
        };
        match weight.marked {
            true => plan.live_bytes(id, live) as f64 / count * read,
            false => row * weight.rows as f64 * read,
        }
    };
    step.op.weights().into_iter().map(matrix).sum()
}

/// Experts of a row, in a step with experts.
pub fn used_experts(op: &Op) -> Option<usize> {
    match op {
        Op::ExpertLinear(linear) => Some(linear.used),
        Op::ExpertGlu { gate, .. } => Some(gate.used),
        _ => None,
    }
}

/// Bytes of the cache that a step reads for the last row of `positions`.
pub fn cache_read(plan: &Plan, step: &Step, positions: usize, kv: KvType) -> f64 {
    match &step.op {
        Op::Attend(attention) | Op::RopeAttend(_, attention) => {
            let cache = plan.caches[attention.cache];
            let last = positions.saturating_sub(1);
            let group = Place::of(last as u32).group;
            let seen = attention.mask.range(last, positions, group).len();
            (cache.bytes_per_position(kv) * seen) as f64
        }
        _ => 0.0,
    }
}
