//! The reference path: one thread, one row at a time, weights decoded to f32, sums in f64.
//!
//! It is the specification that the fast path and the GPU are compared with. It runs elementary
//! ops only: a plan for it is not fused.

mod ops;

use pelton_graph::{Error, Op};

use crate::batch::Batch;
use crate::memory::State;

/// Runs all steps of the plan.
///
/// # Errors
/// If a step is a fused op.
pub(crate) fn run(state: &mut State, batch: &Batch<'_>) -> Result<(), Error> {
    for step in 0..state.plan.steps.len() {
        run_step(state, step, batch)?;
    }
    Ok(())
}

fn run_step(state: &mut State, step: usize, batch: &Batch<'_>) -> Result<(), Error> {
    let State { plan, weights, buffers, caches, limits: _ } = state;
    let step = &plan.steps[step];
    let rows = plan.rows_of(step, batch.rows.len(), batch.selected.len());
    let width = |i: usize| plan.buffer(step.inputs[i]).width;
    let input = |i: usize| buffers.read(step.inputs[i]);
    // ops in place find their first input in `out`
    let mut out = step.outputs.first().map(|&id| buffers.write(id));
    let out_width = step.outputs.first().map_or(1, |&id| plan.buffer(id).width);
    let out = out.as_deref_mut().map_or(&mut [][..], |out| &mut out[..rows * out_width]);

    match &step.op {
        Op::Embed { table } => {
            for (row, y) in batch.rows.iter().zip(out.chunks_mut(out_width)) {
                weights.decode_row(plan, *table, row.token as usize, y)?;
            }
        }
        Op::Norm(norm) => {
            let weight = weights.vector(norm.weight)?;
            for (x, y) in input(0).chunks(width(0)).zip(out.chunks_mut(out_width)) {
                ops::norm(x, weight, norm.eps, y);
            }
        }
        Op::Linear(linear) => {
            let bias = linear.bias.map(|id| weights.vector(id)).transpose()?;
            let mut row = vec![0.0; plan.weight(linear.weight).row_len];
            for n in 0..out_width {
                weights.decode_row(plan, linear.weight, n, &mut row)?;
                let bias = bias.map_or(0.0, |bias| bias[n]);
                for (r, x) in input(0).chunks(width(0)).take(rows).enumerate() {
                    out[r * out_width + n] = ops::dot(&row, x) + bias;
                }
            }
        }
        Op::HeadNorm { norm, heads } => {
            let weight = weights.vector(norm.weight)?;
            for head in out.chunks_mut(out_width / heads) {
                let x = head.to_vec();
                ops::norm(&x, weight, norm.eps, head);
            }
        }
        Op::Rope { rope, heads } => {
            for (row, x) in batch.rows.iter().zip(out.chunks_mut(out_width)) {
                for head in x.chunks_mut(out_width / heads) {
                    ops::rope(head, row.position, plan.rope(*rope));
                }
            }
        }
        Op::Store { cache } => {
            let (keys, values) = (input(0), input(1));
            let both = keys.chunks(width(0)).zip(values.chunks(width(1)));
            for (row, (key, value)) in batch.rows.iter().zip(both) {
                let table = batch.table(plan.caches[*cache].group, row);
                caches[*cache].store(table, row.position as usize, key, value);
            }
        }
        Op::Attend(attention) => {
            let cache = &caches[attention.cache];
            let queries = input(0);
            let queries = queries.chunks(width(0));
            for ((row, q), a) in batch.rows.iter().zip(queries).zip(out.chunks_mut(out_width)) {
                let table = batch.table(plan.caches[attention.cache].group, row);
                ops::attend(attention, cache, table, row.position as usize, q, a);
            }
        }
        Op::Add => {
            for (x, y) in out.iter_mut().zip(input(1).iter()) {
                *x += y;
            }
        }
        Op::Glu(activation) => {
            let (gate, up) = (input(0), input(1));
            ops::glu(*activation, &gate[..out.len()], &up[..out.len()], out);
        }
        Op::Select => {
            let x = input(0);
            for (&i, y) in batch.selected.iter().zip(out.chunks_mut(out_width)) {
                let from = i as usize * out_width;
                y.copy_from_slice(&x[from..from + out_width]);
            }
        }
        Op::NormLinear { norm: _, linears: _ }
        | Op::RopeStore(_)
        | Op::RopeAttend(_, _)
        | Op::LinearAdd(_)
        | Op::NormGlu { norm: _, gate: _, up: _, activation: _ } => {
            let op = step.op.name().to_owned();
            return Err(Error::Op { backend: "cpu".to_owned(), op, layer: step.layer });
        }
    }
    Ok(())
}
