//! One step of a plan: its op, its weights and its buffers.

use std::ops::Range;

use arrayvec::ArrayVec;
use pelton_graph::{
    Error, ExpertLinear, GatedDelta, Gating, Linear, Norm, Op, Plan, RopeStore, Step, TableRow,
};

use super::Exec;
use super::activations::{Each, Factor, Function, Glu};
use super::grouped::{Grouped, Pairs};
use super::grouped_product::GroupedProduct;
use super::linear::{Efforts, PRODUCTS, Product};
use super::norms::{HeadNormRow, NormRow, NormWeights};
use super::recurrent::{Convolution, LinearAttention};
use super::rope_store::{Heads, RopeStoreRows};
use super::row_ops::{
    AddTo, WeightedSum, copy_row, each_range, each_row, pool_rows, store_rows, temper, try_each_row,
};
use super::scan::Scan;
use crate::batch::Batch;
use crate::memory::{AlignedBuf, Buffers, State, Weights};
use crate::pool::{Pool, SharedMut};
use crate::simd::dispatch;

/// A step, and the rows that it computes.
struct Context<'a> {
    plan: &'a Plan,
    weights: &'a Weights,
    buffers: &'a Buffers,
    step: &'a Step,
    rows: usize,
    efforts: Efforts<'a>,
}

type Read<'a> = std::cell::Ref<'a, AlignedBuf>;
type Write<'a> = std::cell::RefMut<'a, AlignedBuf>;

impl<'a> Context<'a> {
    /// Elements of a row of input `i`.
    fn width(&self, i: usize) -> usize {
        self.plan.buffer(self.step.inputs[i]).width
    }

    fn input(&self, i: usize) -> Read<'a> {
        self.buffers.read(self.step.inputs[i])
    }

    /// Elements of a row of the first output.
    fn out_width(&self) -> usize {
        self.step.outputs.first().map_or(1, |&id| self.plan.buffer(id).width)
    }

    /// Output `i`. Ops in place find their first input in the first output.
    fn output(&self, i: usize) -> Write<'a> {
        self.buffers.write(self.step.outputs[i])
    }

    /// Whether the first output is input `i`.
    fn is_in_place(&self, i: usize) -> bool {
        self.step.inputs[i] == self.step.outputs[0]
    }

    fn norm(&self, norm: &Norm) -> Result<NormWeights<'a>, Error> {
        NormWeights::new(self.weights, norm)
    }
}

impl Exec {
    /// Runs one step.
    ///
    /// # Errors
    /// If its op or a weight is not of the kind that loading accepts.
    pub(super) fn run_step(
        &mut self,
        state: &mut State,
        step: usize,
        batch: &Batch<'_>,
    ) -> Result<(), Error> {
        let State { plan, weights, buffers, caches, states, adapters, limits: _ } = state;
        let step = &plan.steps[step];
        let kind = plan.step_rows(step);
        let rows = plan.rows_of(step, batch.rows.len(), batch.selected.len());
        let efforts = Efforts { batch, rows: kind };
        let context = Context { plan, weights, buffers, step, rows, efforts };
        let at = &context;
        let (input, output) = (|i| at.input(i), |i| at.output(i));
        let (width, out_width) = (|i| at.width(i), at.out_width());
        let (pool, isa) = (&*self.pool, self.isa);

        match &step.op {
            Op::Embed { table } => {
                try_each_row(pool, &mut output(0)[..rows * out_width], out_width, |r, y| {
                    let token = batch.row(kind, r).token as usize % plan.vocab;
                    weights.decode_row(plan, *table, 0, token, y)
                })?;
            }
            Op::AddTable { table, row } => {
                let summands = &mut self.summands[..rows * out_width];
                try_each_row(pool, summands, out_width, |r, y| {
                    let index = match row {
                        TableRow::Position => batch.row(kind, r).position as usize,
                        TableRow::Fixed(row) => *row,
                        TableRow::TokenType => batch.row(kind, r).token as usize / plan.vocab,
                    };
                    weights.decode_row(plan, *table, 0, index, y)
                })?;
                each_range(pool, &mut output(0)[..rows * out_width], |first, x| {
                    dispatch(isa, AddTo { y: &self.summands[first..first + x.len()], x });
                });
            }
            Op::Inject { slice, adds } => {
                for (r, x) in output(0)[..rows * out_width].chunks_exact_mut(out_width).enumerate()
                {
                    match batch.slice(plan, batch.row(kind, r), *slice) {
                        Some(y) if *adds => dispatch(isa, AddTo { x, y }),
                        Some(y) => x.copy_from_slice(y),
                        None => {}
                    }
                }
            }
            Op::Norm(norm) => {
                let norm = at.norm(norm)?;
                let x = (!at.is_in_place(0)).then(|| input(0));
                let x = x.as_deref();
                each_row(pool, &mut output(0)[..rows * out_width], out_width, |r, y| {
                    let x = x.map(|x| &x[r * out_width..(r + 1) * out_width]);
                    dispatch(isa, NormRow { x, norm, y });
                });
            }
            Op::Linear(linear) => {
                let (x, mut out) = (input(0), output(0));
                let product = [Product::new(plan, weights, linear, &mut out, false)?];
                self.multiplier.run(pool, None, &x[..rows * width(0)], &product, efforts, |_| ());
            }
            Op::LinearAdd(linear) => {
                let (x, mut out) = (input(1), output(0));
                let product = [Product::new(plan, weights, linear, &mut out, true)?];
                self.multiplier.run(pool, None, &x[..rows * width(1)], &product, efforts, |_| ());
            }
            Op::NormLinear { norm, linears } => self.norm_linear(at, norm, linears)?,
            Op::NormGlu { norm, gate, up, gating } => {
                self.norm_glu(at, norm, [gate, up], *gating)?;
            }
            Op::HeadNorm { norm, heads } => {
                let (norm, head_dim) = (at.norm(norm)?, out_width / heads);
                each_row(pool, &mut output(0)[..rows * out_width], out_width, |_, x| {
                    dispatch(isa, HeadNormRow { x, head_dim, norm });
                });
            }
            Op::HeadLinear { weight, heads } => {
                let (x, mut out) = (input(0), output(0));
                let products = [GroupedProduct::new(plan, weights, *weight, None, &mut out)?];
                let pairs = Pairs {
                    count: rows * heads,
                    of_row: *heads,
                    matrices: *heads,
                    matrix: |pair| pair % heads,
                    input: |pair| pair,
                };
                let x = &x[..rows * width(0)];
                self.grouped.run(pool, x, *heads, &pairs, (&products, efforts), |_, _| ());
            }
            Op::Rope { rope, heads } => {
                let (angles, rope) = (&self.angles[rope.0], plan.rope(*rope));
                each_row(pool, &mut output(0)[..rows * out_width], out_width, |row, x| {
                    angles.rotate(isa, rope, row, out_width / heads, x);
                });
            }
            Op::Temper { beta, interval, offset } => {
                each_row(pool, &mut output(0)[..rows * out_width], out_width, |r, x| {
                    let factor = temper(*beta, *interval, *offset, batch.row(kind, r).position);
                    dispatch(isa, Each { function: Function::Scale(factor), x });
                });
            }
            Op::Store { cache } => {
                let cache = &mut caches[*cache];
                let values = (cache.stored_value_dim() > 0).then(|| input(1));
                store_rows(pool, cache, batch, &input(0), values.as_deref().map_or(&[], |v| v));
            }
            Op::RopeStore(op) => {
                let &RopeStore { q_norm, k_norm, rope, heads: _, kv_heads: _, cache } = op;
                let (mut queries, mut keys, values) = (output(0), output(1), input(2));
                let norm_of = |norm: Option<Norm>| norm.map(|norm| at.norm(&norm)).transpose();
                let k_width = plan.buffer(step.outputs[1]).width;
                let (q_norm, k_norm) = (norm_of(q_norm)?, norm_of(k_norm)?);
                RopeStoreRows {
                    rope: plan.rope(rope),
                    angles: &self.angles[rope.0],
                    queries: Heads { values: &mut queries, width: out_width, norm: q_norm },
                    keys: Heads { values: &mut keys, width: k_width, norm: k_norm },
                    values: &values,
                    cache: &mut caches[cache],
                }
                .run(pool, isa, batch);
            }
            Op::Attend(attention) => {
                let (q, mut out) = (input(0), output(0));
                let sinks = weights.optional(attention.sinks)?;
                let cache = &caches[attention.cache];
                self.attender.run(pool, isa, attention, sinks, cache, batch, &q, &mut out);
            }
            Op::ShortConv(conv) => {
                let weight = weights.vector(conv.weight)?;
                let states = states.all(conv.state);
                Convolution {
                    conv,
                    weight,
                    bias: weights.optional(conv.bias)?,
                    states,
                    channels: out_width,
                }
                .run(pool, isa, batch, &mut output(0)[..rows * out_width]);
            }
            Op::GatedDelta(delta) => {
                let &GatedDelta { state, rate, shift, .. } = delta;
                let [q, k, v, alpha, beta] = [0, 1, 2, 3, 4].map(input);
                LinearAttention {
                    delta,
                    rate: weights.vector(rate)?,
                    shift: weights.vector(shift)?,
                    q: &q,
                    k: &k,
                    v: &v,
                    alpha: &alpha,
                    beta: &beta,
                    states: states.all(state),
                }
                .run(pool, isa, batch, &mut output(0));
            }
            Op::SelectiveScan(scan) => {
                let (xbc, dt) = (input(0), input(1));
                Scan {
                    scan,
                    rate: weights.vector(scan.rate)?,
                    skip: weights.vector(scan.skip)?,
                    shift: weights.vector(scan.shift)?,
                    xbc: &xbc,
                    dt: &dt,
                    states: states.all(scan.state),
                }
                .run(pool, isa, batch, &mut output(0));
            }
            Op::Add => {
                let y = input(1);
                let y = &**y;
                each_range(pool, &mut output(0)[..rows * out_width], |first, x| {
                    dispatch(isa, AddTo { y: &y[first..first + x.len()], x });
                });
            }
            Op::Glu(gating) => self.glu(at, *gating),
            Op::Activate(activation) => self.each(at, Function::Activate(*activation)),
            Op::Scale(factor) => self.each(at, Function::Scale(*factor)),
            Op::Softcap(cap) => self.each(at, Function::Softcap(*cap)),
            Op::Clamp { low, high } => self.each(at, Function::Clamp(*low, *high)),
            Op::Xielu(xielu) => self.each(at, Function::Xielu(*xielu)),
            Op::Copy(copy) => {
                let (x, width) = (input(0), width(0));
                let x = &**x;
                each_row(pool, &mut output(0)[..rows * out_width], out_width, |r, y| {
                    copy_row(copy, &x[r * width..(r + 1) * width], y);
                });
            }
            Op::Adapters(pelton_graph::Adapters { count: _, used }) => {
                let (mut ids, mut factors) = (output(0), output(1));
                for r in 0..rows {
                    let row = adapters.of(batch.row(kind, r).slot);
                    ids[r * used..(r + 1) * used].copy_from_slice(row.0);
                    factors[r * used..(r + 1) * used].copy_from_slice(row.1);
                }
            }
            Op::Route(route) => {
                let (logits, mut ids, mut chosen) = (input(0), output(0), output(1));
                let logits = &**logits;
                let bias = weights.optional(route.bias)?;
                let expert_scale = weights.optional(route.expert_scale)?;
                let (ids, chosen) = (SharedMut::new(&mut ids), SharedMut::new(&mut chosen));
                let scratch = SharedMut::new(&mut self.routes);
                let work = |thread: usize, rows: Range<usize>| {
                    // SAFETY: each thread has its own scratch memory.
                    let scratch = unsafe { scratch.slice_mut(thread..thread + 1) };
                    let [scratch] = scratch else { return };
                    for r in rows {
                        let place = r * route.used..(r + 1) * route.used;
                        // SAFETY: one thread computes a row.
                        let (ids, weights) =
                            unsafe { (ids.slice_mut(place.clone()), chosen.slice_mut(place)) };
                        let logits = &logits[r * route.experts..(r + 1) * route.experts];
                        scratch.route(route, bias, expert_scale, logits, ids, weights);
                    }
                };
                match rows {
                    1 => work(0, 0..1),
                    _ => pool.run(|worker| work(worker.index(), worker.split(rows, 1))),
                }
            }
            Op::ExpertLinear(linear) => {
                let mut out = output(0);
                let &ExpertLinear { weight, bias, used: _ } = linear;
                let products = [GroupedProduct::new(plan, weights, weight, bias, &mut out)?];
                experts(&mut self.grouped, pool, at, linear, &products, |_, _| ());
            }
            Op::ExpertGlu { gate, up, gating } => self.expert_glu(at, [gate, up], *gating)?,
            Op::ExpertScale { factors, used } => {
                let (ids, factors) = (input(1), weights.vector(*factors)?);
                let ids = &**ids;
                each_row(pool, &mut output(0)[..rows * out_width], out_width, |r, x| {
                    let ids = &ids[r * used..(r + 1) * used];
                    for (x, &id) in x.chunks_exact_mut(out_width / used).zip(ids) {
                        x.iter_mut().for_each(|x| *x *= factors[id as usize]);
                    }
                });
            }
            Op::ExpertSum { used } => {
                let (y, chosen) = (input(0), input(1));
                let (y, chosen) = (&**y, &**chosen);
                each_row(pool, &mut output(0)[..rows * out_width], out_width, |r, o| {
                    let y = &y[r * used * out_width..(r + 1) * used * out_width];
                    let weights = &chosen[r * used..(r + 1) * used];
                    dispatch(isa, WeightedSum { y, weights, o });
                });
            }
            Op::Select => {
                let x = input(0);
                let mut out = output(0);
                for (&i, y) in batch.selected.iter().zip(out.chunks_exact_mut(out_width)) {
                    let from = i as usize * out_width;
                    y.copy_from_slice(&x[from..from + out_width]);
                }
            }
            Op::Pool(pooling) => {
                let x = &input(0)[..batch.rows.len() * out_width];
                let y = &mut output(0)[..rows * out_width];
                pool_rows(pool, *pooling, batch, x, y, out_width);
            }
            Op::RopeAttend(_, _) | Op::ExpertSumAdd { used: _ } => {
                let op = step.op.name().to_owned();
                return Err(Error::Op { backend: "cpu".to_owned(), op, layer: step.layer });
            }
        }
        Ok(())
    }

    fn norm_linear(
        &mut self,
        at: &Context<'_>,
        norm: &Norm,
        linears: &[Linear],
    ) -> Result<(), Error> {
        let norm = at.norm(norm)?;
        let x = at.input(0);
        let x = &x[..at.rows * at.width(0)];
        for (linears, ids) in linears.chunks(PRODUCTS).zip(at.step.outputs.chunks(PRODUCTS)) {
            let mut outputs: ArrayVec<_, PRODUCTS> =
                ids.iter().map(|&id| at.buffers.write(id)).collect();
            let products = linears
                .iter()
                .zip(&mut outputs)
                .map(|(linear, out)| Product::new(at.plan, at.weights, linear, out, false))
                .collect::<Result<ArrayVec<_, PRODUCTS>, _>>()?;
            self.multiplier.run(&self.pool, Some(norm), x, &products, at.efforts, |_| ());
        }
        Ok(())
    }

    fn norm_glu(
        &mut self,
        at: &Context<'_>,
        norm: &Norm,
        [gate, up]: [&Linear; 2],
        gating: Gating,
    ) -> Result<(), Error> {
        let norm = at.norm(norm)?;
        let (x, mut out, out_width) = (at.input(0), at.output(0), at.out_width());
        let gates = Product::new(at.plan, at.weights, gate, &mut out, false)?;
        let ups = Product::new(at.plan, at.weights, up, &mut self.up, false)?;
        let (gate, up) = (gates.values(), ups.values());
        let x = &x[..at.rows * at.width(0)];
        let (isa, rows) = (self.isa, at.rows);
        let products = [gates, ups];
        self.multiplier.run(&self.pool, Some(norm), x, &products, at.efforts, |partition| {
            for r in 0..rows {
                let place = r * out_width + partition.start..r * out_width + partition.end;
                // SAFETY: this thread alone writes its partition of both outputs.
                let (to, up) = unsafe { (gate.slice_mut(place.clone()), up.slice(place)) };
                let (gate, up) = (Factor::Replaced, Factor::Elements(up));
                dispatch(isa, Glu { gating, gate, up, to });
            }
        });
        Ok(())
    }

    fn glu(&self, at: &Context<'_>, gating: Gating) {
        let (out_width, isa) = (at.out_width(), self.isa);
        let gate_width = at.width(0);
        let read = |i: usize| (!at.is_in_place(i)).then(|| at.input(i));
        let (gates, ups) = (read(0), read(1));
        let (gates, ups) = (gates.as_deref(), ups.as_deref());
        let mut out = at.output(0);
        let out = &mut out[..at.rows * out_width];
        if gate_width < out_width {
            let neighbours = out_width / gate_width;
            return each_row(&self.pool, out, out_width, |r, to| {
                for (i, to) in to.chunks_mut(neighbours).enumerate() {
                    let up = factor(ups, r * out_width + i * neighbours, to.len());
                    let gate = gates.map_or(0.0, |gates| gates[r * gate_width + i]);
                    dispatch(isa, Glu { gating, gate: Factor::One(gate), up, to });
                }
            });
        }
        each_range(&self.pool, out, |first, to| {
            let (gate, up) = (factor(gates, first, to.len()), factor(ups, first, to.len()));
            dispatch(isa, Glu { gating, gate, up, to });
        });
    }

    fn each(&self, at: &Context<'_>, function: Function) {
        let isa = self.isa;
        each_range(&self.pool, &mut at.output(0)[..at.rows * at.out_width()], |_, x| {
            dispatch(isa, Each { function, x });
        });
    }

    fn expert_glu(
        &mut self,
        at: &Context<'_>,
        [gate, up]: [&ExpertLinear; 2],
        gating: Gating,
    ) -> Result<(), Error> {
        let mut out = at.output(0);
        let (plan, weights, isa) = (at.plan, at.weights, self.isa);
        let of = |linear: &ExpertLinear, out| {
            GroupedProduct::new(plan, weights, linear.weight, linear.bias, out)
        };
        let products = [of(gate, &mut out)?, of(up, &mut self.up)?];
        let (gates, values) = (products[0].values(), products[1].values());
        let outputs = products[0].outputs();
        experts(&mut self.grouped, &self.pool, at, gate, &products, |rows, range| {
            for &row in rows {
                let first = row as usize * outputs;
                let place = first + range.start..first + range.end;
                // SAFETY: this thread alone writes these outputs of the row.
                let (to, up) = unsafe { (gates.slice_mut(place.clone()), values.slice(place)) };
                let (gate, up) = (Factor::Replaced, Factor::Elements(up));
                dispatch(isa, Glu { gating, gate, up, to });
            }
        });
        Ok(())
    }
}

/// The products of the chosen experts of each row.
fn experts(
    grouped: &mut Grouped,
    pool: &Pool,
    at: &Context<'_>,
    linear: &ExpertLinear,
    products: &[GroupedProduct<'_>],
    finish: impl Fn(&[u32], Range<usize>) + Sync,
) {
    let (x, ids) = (at.input(0), at.input(1));
    let (weight, used) = (at.plan.weight(linear.weight), linear.used);
    let experts = weight.count();
    // rows of the input for each row of the pass
    let factor = at.width(0) / weight.row_len;
    let pairs = Pairs {
        count: at.rows * used,
        of_row: used,
        matrices: experts,
        matrix: |pair: usize| (ids[pair] as usize).min(experts - 1),
        input: |pair| pair * factor / used,
    };
    let x = &x[..at.rows * at.width(0)];
    grouped.run(pool, x, factor, &pairs, (products, at.efforts), finish);
}

/// Some elements of a factor, or those that the product replaces.
fn factor(all: Option<&AlignedBuf>, first: usize, len: usize) -> Factor<'_> {
    match all {
        Some(all) => Factor::Elements(&all[first..first + len]),
        None => Factor::Replaced,
    }
}
