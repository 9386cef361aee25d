//! The identity of a model's matrices.

use pelton_graph::{Plan, Weight};
use pelton_weights::Checkpoint;

/// A key of what is kept and of the matrices that can be marked: FNV-1a of their names, shapes,
/// types and first and middle bytes.
pub(super) fn key(kept: &str, plan: &Plan, checkpoint: &Checkpoint) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    let is_part = |weight: &&Weight| weight.marked || pelton_graph::is_effort_matrix(&weight.name);
    for weight in plan.weights.iter().filter(is_part) {
        add(weight.name.as_bytes());
        for number in [weight.rows, weight.row_len, weight.first()] {
            add(&(number as u64).to_le_bytes());
        }
        add(weight.dtype.to_string().as_bytes());
        if let Some(tensor) = checkpoint.tensor(&weight.name) {
            let bytes = tensor.bytes;
            for from in [0, bytes.len() / 2] {
                add(&bytes[from..bytes.len().min(from + 64)]);
            }
        }
    }
    format!("{kept}-{hash:016x}")
}
