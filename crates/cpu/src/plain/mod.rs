//! The plain path: one thread, one row at a time, weights decoded to f32.
//!
//! It is the specification that every faster way of running a plan is tested against. It knows
//! the elementary ops only: a plan for it is not fused.

mod ops;

use pelton_graph::{Batch, Error, Op};

use crate::{lines::Lines, state::State};

/// Runs one step of the plan on all rows.
pub(crate) fn run(state: &mut State, step: usize, batch: &Batch<'_>) -> Result<(), Error> {
    let plan = &state.plan;
    let step = &plan.steps[step];
    let width = |i: usize| plan.buffer(step.inputs[i]).width;
    // ops in place find their first input in `out`
    let mut out = match step.outputs.first() {
        Some(id) => std::mem::take(&mut state.buffers[id.0]),
        None => Lines::default(),
    };
    let input = |i: usize| &state.buffers[step.inputs[i].0];
    let out_width = step.outputs.first().map_or(1, |id| plan.buffer(*id).width);
    let rows = state.rows(step, batch);
    let out_rows = out.chunks_mut(out_width).take(rows);

    match &step.op {
        Op::Embed { table } => {
            for (row, y) in batch.rows.iter().zip(out_rows) {
                state.weights.decode_row(*table, row.token as usize, y)?;
            }
        }
        Op::Norm(norm) => {
            let weight = state.weights.vector(norm.weight);
            for (x, y) in input(0).chunks(width(0)).zip(out_rows) {
                ops::norm(x, weight, norm.eps, y);
            }
        }
        Op::Linear(linear) => {
            let mut row = vec![0.0; plan.weight(linear.weight).row_len];
            for n in 0..out_width {
                state.weights.decode_row(linear.weight, n, &mut row)?;
                let bias = linear.bias.map_or(0.0, |id| state.weights.vector(id)[n]);
                for (r, x) in input(0).chunks(width(0)).take(rows).enumerate() {
                    out[r * out_width + n] = ops::dot(&row, x) + bias;
                }
            }
        }
        Op::HeadNorm { norm, heads } => {
            let weight = state.weights.vector(norm.weight);
            for x in out_rows {
                for head in x.chunks_mut(out_width / heads) {
                    let x = head.to_vec();
                    ops::norm(&x, weight, norm.eps, head);
                }
            }
        }
        Op::Rope { rope, heads } => {
            for (row, x) in batch.rows.iter().zip(out_rows) {
                for head in x.chunks_mut(out_width / heads) {
                    ops::rope(head, row.position, plan.rope(*rope));
                }
            }
        }
        Op::Store { cache } => {
            let (keys, values) = (input(0).chunks(width(0)), input(1).chunks(width(1)));
            for (row, (key, value)) in batch.rows.iter().zip(keys.zip(values)) {
                let table = &batch.tables[row.sequence as usize];
                state.caches[*cache].store(table, row.position as usize, key, value);
            }
        }
        Op::Attend(attention) => {
            let cache = &state.caches[attention.cache];
            for ((row, q), a) in batch.rows.iter().zip(input(0).chunks(width(0))).zip(out_rows) {
                let table = &batch.tables[row.sequence as usize];
                ops::attend(attention, cache, table, row.position as usize, q, a);
            }
        }
        Op::Add => {
            for (x, y) in out_rows.flatten().zip(input(1).iter()) {
                *x += y;
            }
        }
        Op::Glu(activation) => {
            let (gate, up) = (input(0).chunks(width(0)), input(1).chunks(width(1)));
            for ((gate, up), g) in gate.zip(up).zip(out_rows) {
                ops::glu(*activation, gate, up, g);
            }
        }
        Op::Select => {
            for (&i, y) in batch.selected.iter().zip(out_rows) {
                let from = i as usize * out_width;
                y.copy_from_slice(&input(0)[from..from + out_width]);
            }
        }
        Op::NormLinear { .. }
        | Op::RopeStore(_)
        | Op::RopeAttend(..)
        | Op::LinearAdd(_)
        | Op::NormGlu { .. } => return Err(Error::Fused { op: step.op.name() }),
    }
    if let Some(id) = step.outputs.first() {
        state.buffers[id.0] = out;
    }
    Ok(())
}
