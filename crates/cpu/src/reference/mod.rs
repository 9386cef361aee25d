//! The reference path: one thread, one row at a time, weights decoded to f32, sums in f64.
//!
//! It is the specification that the fast path and the GPU are compared with. It runs elementary
//! ops only: a plan for it is not fused.

mod attend;
mod ops;
mod recurrent;
mod rows;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panic")]
mod tests;

use pelton_graph::{BufferId, Error, ExpertLinear, Op, Plan, Rows, Values};

use crate::batch::Batch;
use crate::memory::State;
use crate::observe::Observer;
use crate::route::RouteScratch;
use recurrent::{DeltaRow, ScanFactors};

/// Runs all steps of the plan, and shows an observer the inputs of each.
///
/// # Errors
/// If a step is a fused op.
pub(crate) fn run(
    state: &mut State,
    batch: &Batch<'_>,
    observer: Option<&Observer>,
) -> Result<(), Error> {
    for step in state.plan.steps_of(batch.phase) {
        if let Some(observer) = observer {
            observer.see(state, &state.plan.steps[step], batch);
        }
        run_step(state, step, batch)?;
    }
    Ok(())
}

/// A copy of a buffer that a step reads.
struct Input {
    values: Vec<f32>,
    width: usize,
}

impl Input {
    fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.width..(i + 1) * self.width]
    }
}

/// Runs one step of the plan.
///
/// # Errors
/// If it is a fused op.
fn run_step(state: &mut State, step: usize, batch: &Batch<'_>) -> Result<(), Error> {
    let State { plan, weights, buffers, caches, states, adapters, limits: _ } = state;
    let step = &plan.steps[step];
    let kind = plan.step_rows(step);
    let rows = plan.rows_of(step, batch.rows.len(), batch.selected.len());
    let read = |id: BufferId| {
        let buffer = plan.buffer(id);
        let rows = match buffer.rows {
            Rows::All => batch.rows.len(),
            Rows::Selected => batch.selected.len(),
        };
        let values = buffers.read(id)[..rows * buffer.width].to_vec();
        Input { values, width: buffer.width }
    };
    let inputs: Vec<Input> = step.inputs.iter().map(|&id| read(id)).collect();
    let input = |i: usize, row: usize| inputs[i].row(row);
    // ops in place find their first input in `out`
    let out_width = step.outputs.first().map_or(1, |&id| plan.buffer(id).width);
    let mut out = step.outputs.first().map(|&id| buffers.write(id));
    let out = out.as_deref_mut().map_or(&mut [][..], |out| &mut out[..rows * out_width]);
    let out_rows = || (0..rows).map(|r| batch.row(kind, r));

    match &step.op {
        Op::Embed { table } => {
            for (row, y) in out_rows().zip(out.chunks_mut(out_width)) {
                weights.decode_row(plan, *table, 0, row.token as usize % plan.vocab, y)?;
            }
        }
        Op::AddTable { table, row: of } => {
            let mut summand = vec![0.0; out_width];
            for (row, x) in out_rows().zip(out.chunks_mut(out_width)) {
                let index = rows::table_row(*of, row, plan.vocab);
                weights.decode_row(plan, *table, 0, index, &mut summand)?;
                rows::add(x, &summand);
            }
        }
        Op::Inject { slice, adds } => {
            for (row, x) in out_rows().zip(out.chunks_mut(out_width)) {
                match batch.slice(plan, row, *slice) {
                    Some(embedding) if *adds => rows::add(x, embedding),
                    Some(embedding) => x.copy_from_slice(embedding),
                    None => {}
                }
            }
        }
        Op::Norm(norm) => {
            let (weight, bias) = (weights.optional(norm.weight)?, weights.optional(norm.bias)?);
            for (r, y) in out.chunks_mut(out_width).enumerate() {
                ops::norm(norm.kind, norm.eps, weight, bias, input(0, r), y);
            }
        }
        Op::Linear(linear) => {
            let bias = weights.optional(linear.bias)?;
            let mut row = vec![0.0; plan.weight(linear.weight).row_len];
            for n in 0..out_width {
                weights.decode_row(plan, linear.weight, 0, n, &mut row)?;
                let bias = bias.map_or(0.0, |bias| bias[n]);
                for r in 0..rows {
                    out[r * out_width + n] = ops::dot(&row, input(0, r)) + bias;
                }
            }
        }
        Op::HeadNorm { norm, heads } => {
            let (weight, bias) = (weights.optional(norm.weight)?, weights.optional(norm.bias)?);
            let head_dim = out_width / heads;
            for (i, y) in out.chunks_mut(head_dim).enumerate() {
                let of = |all: Option<&'_ [f32]>| {
                    all.map(|all| rows::of_head(all, i % heads, head_dim).to_vec())
                };
                let (weight, bias) = (of(weight), of(bias));
                let x = y.to_vec();
                ops::norm(norm.kind, norm.eps, weight.as_deref(), bias.as_deref(), &x, y);
            }
        }
        Op::HeadLinear { weight, heads } => {
            let (cols, outputs) = (plan.weight(*weight).row_len, plan.weight(*weight).rows);
            let mut row = vec![0.0; cols];
            for (head, n) in (0..*heads).flat_map(|head| (0..outputs).map(move |n| (head, n))) {
                weights.decode_row(plan, *weight, head, n, &mut row)?;
                for r in 0..rows {
                    let x = &input(0, r)[head * cols..(head + 1) * cols];
                    out[r * out_width + head * outputs + n] = ops::dot(&row, x);
                }
            }
        }
        Op::Rope { rope, heads } => {
            for (row, x) in out_rows().zip(out.chunks_mut(out_width)) {
                for head in x.chunks_mut(out_width / heads) {
                    ops::rope(head, row.place.at, plan.rope(*rope));
                }
            }
        }
        Op::Temper { beta, interval, offset } => {
            for (row, x) in out_rows().zip(out.chunks_mut(out_width)) {
                let factor = ops::temper(*beta, *interval, *offset, row.position);
                rows::each(x, |x| x * factor);
            }
        }
        Op::Store { cache } => {
            for (r, row) in batch.rows.iter().enumerate() {
                let table = batch.table(plan.caches[*cache].group, row);
                let value = match plan.caches[*cache].values {
                    Values::Own { dim: _ } => input(1, r),
                    Values::KeyPrefix { dim: _ } => &[],
                };
                caches[*cache].store(table, row.position as usize, input(0, r), value);
            }
        }
        Op::Attend(attention) => {
            let cache = &caches[attention.cache];
            let sinks = weights.optional(attention.sinks)?;
            for (r, a) in out.chunks_mut(out_width).enumerate() {
                let row = batch.row(kind, r);
                let table = batch.table(plan.caches[attention.cache].group, row);
                let position = row.position as usize;
                let len = batch.len_of(row.slot);
                let seen = attention.mask.range(position, len, row.place.group);
                attend::attend(attention, sinks, (cache, table), position, seen, input(0, r), a);
            }
        }
        Op::ShortConv(conv) => {
            let weight = weights.vector(conv.weight)?;
            let bias = weights.optional(conv.bias)?;
            for (row, x) in out_rows().zip(out.chunks_mut(out_width)) {
                let len = (conv.taps - 1) * out_width;
                let state = states.slot(conv.state, row.slot, len);
                if row.position == 0 {
                    state.fill(0.0);
                }
                recurrent::short_conv(conv, weight, bias, state, x);
            }
        }
        Op::GatedDelta(delta) => {
            let (rate, shift) = (weights.vector(delta.rate)?, weights.vector(delta.shift)?);
            for (r, o) in out.chunks_mut(out_width).enumerate() {
                let row = batch.row(kind, r);
                let len = delta.value_heads * delta.key_dim * delta.value_dim;
                let state = states.slot(delta.state, row.slot, len);
                if row.position == 0 {
                    state.fill(0.0);
                }
                let row = DeltaRow {
                    q: input(0, r),
                    k: input(1, r),
                    v: input(2, r),
                    alpha: input(3, r),
                    beta: input(4, r),
                };
                recurrent::gated_delta(delta, rate, shift, &row, state, o);
            }
        }
        Op::SelectiveScan(scan) => {
            let factors = ScanFactors {
                rate: weights.vector(scan.rate)?,
                skip: weights.vector(scan.skip)?,
                shift: weights.vector(scan.shift)?,
            };
            for (r, y) in out.chunks_mut(out_width).enumerate() {
                let row = batch.row(kind, r);
                let len = scan.heads * scan.head_dim * scan.state_dim;
                let state = states.slot(scan.state, row.slot, len);
                if row.position == 0 {
                    state.fill(0.0);
                }
                recurrent::selective_scan(scan, &factors, [input(0, r), input(1, r)], state, y);
            }
        }
        Op::Add => {
            for (r, x) in out.chunks_mut(out_width).enumerate() {
                rows::add(x, input(1, r));
            }
        }
        Op::Glu(gating) => {
            for (r, g) in out.chunks_mut(out_width).enumerate() {
                let gates = input(0, r);
                let neighbours = out_width / gates.len();
                for (i, (g, &up)) in g.iter_mut().zip(input(1, r)).enumerate() {
                    *g = ops::gate(*gating, gates[i / neighbours], up);
                }
            }
        }
        Op::Activate(activation) => rows::each(out, |x| ops::activate(*activation, x)),
        Op::Scale(factor) => rows::each(out, |x| x * f64::from(*factor)),
        Op::Softcap(cap) => rows::each(out, |x| f64::from(*cap) * (x / f64::from(*cap)).tanh()),
        Op::Xielu(xielu) => rows::each(out, |x| ops::xielu(*xielu, x)),
        Op::Clamp { low, high } => {
            rows::each(out, |x| x.clamp(f64::from(*low), f64::from(*high)));
        }
        Op::Copy(copy) => {
            for (r, y) in out.chunks_mut(out_width).enumerate() {
                ops::copy(copy, input(0, r), y);
            }
        }
        Op::Adapters(pelton_graph::Adapters { count: _, used }) => {
            let mut factors = buffers.write(step.outputs[1]);
            for (r, ids) in out.chunks_mut(out_width).enumerate() {
                let row = adapters.of(batch.row(kind, r).slot);
                ids.copy_from_slice(row.0);
                factors[r * used..(r + 1) * used].copy_from_slice(row.1);
            }
        }
        Op::Route(route) => {
            let bias = weights.optional(route.bias)?;
            let expert_scale = weights.optional(route.expert_scale)?;
            let mut scratch = RouteScratch::new(route.experts);
            let mut chosen = buffers.write(step.outputs[1]);
            for (r, ids) in out.chunks_mut(out_width).enumerate() {
                let weights = &mut chosen[r * route.used..(r + 1) * route.used];
                scratch.route(route, bias, expert_scale, input(0, r), ids, weights);
            }
        }
        Op::ExpertLinear(linear) => {
            let bias = weights.optional(linear.bias)?;
            let mut matrix_row = vec![0.0; plan.weight(linear.weight).row_len];
            for (r, y) in out.chunks_mut(out_width).enumerate() {
                let chosen = chosen(plan, linear, input(0, r), input(1, r));
                for (y, (expert, x)) in y.chunks_mut(out_width / linear.used).zip(chosen) {
                    for (n, y) in y.iter_mut().enumerate() {
                        weights.decode_row(plan, linear.weight, expert, n, &mut matrix_row)?;
                        let outputs = plan.weight(linear.weight).rows;
                        let bias = bias.map_or(0.0, |bias| bias[expert * outputs + n]);
                        *y = ops::dot(&matrix_row, x) + bias;
                    }
                }
            }
        }
        Op::ExpertScale { factors, used } => {
            let factors = weights.vector(*factors)?;
            for (r, x) in out.chunks_mut(out_width).enumerate() {
                for (x, &id) in x.chunks_mut(out_width / used).zip(input(1, r)) {
                    x.iter_mut().for_each(|x| *x *= factors[id as usize]);
                }
            }
        }
        Op::ExpertSum { used: _ } => {
            for (r, o) in out.chunks_mut(out_width).enumerate() {
                rows::weighted_sum(input(0, r), input(1, r), o);
            }
        }
        Op::Select => {
            for (&i, y) in batch.selected.iter().zip(out.chunks_mut(out_width)) {
                y.copy_from_slice(input(0, i as usize));
            }
        }
        Op::Pool(pooling) => {
            for (r, y) in out.chunks_mut(out_width).enumerate() {
                let slot = batch.row(kind, r).slot;
                let of_slot = |&i: &usize| batch.rows[i].slot == slot;
                let sequence = (0..batch.rows.len()).filter(of_slot).map(|i| input(0, i));
                rows::pool(*pooling, sequence, y);
            }
        }
        Op::NormLinear { norm: _, linears: _ }
        | Op::RopeStore(_)
        | Op::RopeAttend(_, _)
        | Op::LinearAdd(_)
        | Op::ExpertSumAdd { used: _ }
        | Op::NormGlu { norm: _, gate: _, up: _, gating: _ }
        | Op::ExpertGlu { gate: _, up: _, gating: _ } => {
            let op = step.op.name().to_owned();
            return Err(Error::Op { backend: "cpu".to_owned(), op, layer: step.layer });
        }
    }
    Ok(())
}

/// The chosen experts of a row and the input of each: `x` for all of them, or its part.
fn chosen<'a>(
    plan: &Plan,
    linear: &ExpertLinear,
    x: &'a [f32],
    ids: &'a [f32],
) -> impl Iterator<Item = (usize, &'a [f32])> {
    let weight = plan.weight(linear.weight);
    let (cols, experts) = (weight.row_len, weight.count());
    let is_shared = x.len() == cols;
    ids.iter().enumerate().map(move |(s, &id)| {
        let first = if is_shared { 0 } else { s * cols };
        ((id as usize).min(experts - 1), &x[first..first + cols])
    })
}
