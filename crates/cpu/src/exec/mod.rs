//! The fast path: every step is one region of the thread pool, in which each thread computes its
//! partition of rows, outputs or heads.
//!
//! No result depends on the number of threads, nor on the other rows of a batch: a partition
//! decides which thread computes a value, not how.

mod attention;
mod linear;
mod norms;
mod rope_store;
mod row_ops;

use std::sync::Arc;

use arrayvec::ArrayVec;
use pelton_graph::{Error, Limits, Mask, Norm, Op, Plan, RopeStore, Values};

use crate::batch::Batch;
use crate::isa::Isa;
use crate::memory::{AlignedBuf, State, Weights};
use crate::pool::Pool;
use crate::reference;
use crate::simd::dispatch;
use attention::Attender;
use linear::{Multiplier, Product};
use norms::{HeadNormRow, NormRow, NormWeights};
use rope_store::{Angles, Heads, RopeStoreRows};

/// Matrices that one region multiplies, at most.
const PRODUCTS: usize = 8;

/// The pool, and the memory that steps need besides the plan's buffers.
pub(crate) struct Exec {
    pool: Arc<Pool>,
    isa: Isa,
    multiplier: Multiplier,
    attender: Attender,
    /// The second factors of gated products `[rows, ffn]`.
    up: AlignedBuf,
    /// The rotations of the rows, for each of [`Plan::ropes`].
    angles: Vec<Angles>,
}

impl Exec {
    /// Allocates the memory of the steps.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(crate) fn new(plan: &Plan, limits: &Limits, pool: Arc<Pool>) -> Result<Self, Error> {
        let isa = Isa::detect();
        let angles = plan.ropes.iter().map(|rope| Angles::new(rope, limits.rows));
        Ok(Self {
            multiplier: Multiplier::new(plan, limits, isa)?,
            attender: Attender::new(plan, limits, pool.threads())?,
            up: AlignedBuf::zeroed("gated products", limits.rows, widest_up(plan))?,
            angles: angles.collect::<Result<_, _>>()?,
            isa,
            pool,
        })
    }

    /// Bytes that [`new`](Self::new) allocates on a pool of `threads`.
    pub(crate) fn bytes(plan: &Plan, limits: &Limits, threads: usize) -> u128 {
        let angles = plan.ropes.iter().map(|rope| Angles::bytes(rope, limits.rows));
        angles
            .chain([
                Multiplier::bytes(plan, limits),
                Attender::bytes(plan, limits, threads),
                AlignedBuf::bytes(limits.rows, widest_up(plan)),
            ])
            .fold(0, u128::saturating_add)
    }

    /// The pool that steps run on.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Runs all steps of the plan.
    ///
    /// # Errors
    /// If an op or a weight is not of the kind that loading accepts.
    pub(crate) fn run(&mut self, state: &mut State, batch: &Batch<'_>) -> Result<(), Error> {
        // the rotations of the positions and the tiles of attention are the same in all layers
        for (rope, angles) in state.plan.ropes.iter().zip(&mut self.angles) {
            angles.begin(rope, batch);
        }
        self.attender.begin(batch);
        for step in 0..state.plan.steps.len() {
            self.run_step(state, step, batch)?;
        }
        Ok(())
    }

    fn run_step(&mut self, state: &mut State, step: usize, batch: &Batch<'_>) -> Result<(), Error> {
        if !is_own(&state.plan, &state.plan.steps[step].op) {
            return reference::run_step(state, step, batch);
        }
        let State { plan, weights, buffers, caches, states: _, limits: _ } = state;
        let step = &plan.steps[step];
        let rows = plan.rows_of(step, batch.rows.len(), batch.selected.len());
        let width = |i: usize| plan.buffer(step.inputs[i]).width;
        let input = |i: usize| buffers.read(step.inputs[i]);
        let out_width = step.outputs.first().map_or(1, |&id| plan.buffer(id).width);
        // ops in place find their first input in the first output
        let output = |i: usize| buffers.write(step.outputs[i]);

        match &step.op {
            Op::Embed { table } => {
                let mut out = output(0);
                for (row, y) in batch.rows.iter().zip(out.chunks_exact_mut(out_width)) {
                    weights.decode_row(plan, *table, 0, row.token as usize, y)?;
                }
            }
            Op::Norm(norm) => {
                let norm = NormWeights::new(weights, norm)?;
                let (x, mut y) = (input(0), output(0));
                let both = x.chunks_exact(out_width).zip(y.chunks_exact_mut(out_width));
                for (x, y) in both.take(rows) {
                    dispatch(self.isa, NormRow { x, norm, y });
                }
            }
            Op::Linear(linear) => {
                let (x, mut out) = (input(0), output(0));
                let product = [Product::new(plan, weights, linear, &mut out, false)?];
                self.multiplier.run(&self.pool, None, &x[..rows * width(0)], &product, |_| ());
            }
            Op::LinearAdd(linear) => {
                let (x, mut out) = (input(1), output(0));
                let product = [Product::new(plan, weights, linear, &mut out, true)?];
                self.multiplier.run(&self.pool, None, &x[..rows * width(1)], &product, |_| ());
            }
            Op::NormLinear { norm, linears } => {
                let norm = NormWeights::new(weights, norm)?;
                let x = input(0);
                let x = &x[..rows * width(0)];
                for (linears, ids) in linears.chunks(PRODUCTS).zip(step.outputs.chunks(PRODUCTS)) {
                    let mut outputs: ArrayVec<_, PRODUCTS> =
                        ids.iter().map(|&id| buffers.write(id)).collect();
                    let products = linears
                        .iter()
                        .zip(&mut outputs)
                        .map(|(linear, out)| Product::new(plan, weights, linear, out, false))
                        .collect::<Result<ArrayVec<_, PRODUCTS>, _>>()?;
                    self.multiplier.run(&self.pool, Some(norm), x, &products, |_| ());
                }
            }
            Op::NormGlu { norm, gate, up, gating } => {
                let norm = NormWeights::new(weights, norm)?;
                let (x, mut out) = (input(0), output(0));
                let gates = Product::new(plan, weights, gate, &mut out, false)?;
                let ups = Product::new(plan, weights, up, &mut self.up, false)?;
                let (gate, up) = (gates.values(), ups.values());
                let x = &x[..rows * width(0)];
                self.multiplier.run(&self.pool, Some(norm), x, &[gates, ups], |partition| {
                    for r in 0..rows {
                        let place = r * out_width + partition.start..r * out_width + partition.end;
                        // SAFETY: this thread alone writes its partition of both outputs.
                        let (gate, up) =
                            unsafe { (gate.slice_mut(place.clone()), up.slice_mut(place)) };
                        dispatch(self.isa, row_ops::GluRow { gating: *gating, gate, up });
                    }
                });
            }
            Op::HeadNorm { norm, heads } => {
                let norm = NormWeights::new(weights, norm)?;
                let head_dim = out_width / heads;
                for x in output(0).chunks_exact_mut(out_width).take(rows) {
                    dispatch(self.isa, HeadNormRow { x, head_dim, norm });
                }
            }
            Op::Rope { rope, heads } => {
                let (rope, angles) = (plan.rope(*rope), &self.angles[rope.0]);
                for (row, x) in output(0).chunks_exact_mut(out_width).take(rows).enumerate() {
                    angles.rotate(self.isa, rope, row, out_width / heads, x);
                }
            }
            Op::Store { cache } => {
                let (keys, values) = (input(0), input(1));
                let both = keys.chunks_exact(width(0)).zip(values.chunks_exact(width(1)));
                let cache = &mut caches[*cache];
                for (row, (key, value)) in batch.rows.iter().zip(both) {
                    let table = batch.table(cache.shape().group, row);
                    cache.store(table, row.position as usize, key, value);
                }
            }
            Op::RopeStore(op) => {
                let &RopeStore { q_norm, k_norm, rope, heads: _, kv_heads: _, cache } = op;
                let (mut queries, mut keys, values) = (output(0), output(1), input(2));
                let k_width = plan.buffer(step.outputs[1]).width;
                RopeStoreRows {
                    rope: plan.rope(rope),
                    angles: &self.angles[rope.0],
                    queries: Heads {
                        values: &mut queries,
                        width: out_width,
                        norm: norm_of(weights, q_norm)?,
                    },
                    keys: Heads {
                        values: &mut keys,
                        width: k_width,
                        norm: norm_of(weights, k_norm)?,
                    },
                    values: &values,
                    cache: &mut caches[cache],
                }
                .run(&self.pool, self.isa, batch);
            }
            Op::Attend(attention) => {
                let (q, mut out) = (input(0), output(0));
                let cache = &caches[attention.cache];
                self.attender.run(&self.pool, self.isa, attention, cache, batch, &q, &mut out);
            }
            Op::Add => {
                for (x, y) in output(0)[..rows * out_width].iter_mut().zip(input(1).iter()) {
                    *x += y;
                }
            }
            Op::Glu(gating) => {
                let (gate, up, mut out) = (input(0), input(1), output(0));
                let out = &mut out[..rows * out_width];
                out.copy_from_slice(&gate[..out.len()]);
                let up = &up[..out.len()];
                dispatch(self.isa, row_ops::GluRow { gating: *gating, gate: out, up });
            }
            Op::Select => {
                let (x, mut out) = (input(0), output(0));
                for (&i, y) in batch.selected.iter().zip(out.chunks_exact_mut(out_width)) {
                    let from = i as usize * out_width;
                    y.copy_from_slice(&x[from..from + out_width]);
                }
            }
            _ => {
                let op = step.op.name().to_owned();
                return Err(Error::Op { backend: "cpu".to_owned(), op, layer: step.layer });
            }
        }
        Ok(())
    }
}

/// A norm with its weights.
fn norm_of<'a>(weights: &'a Weights, norm: Option<Norm>) -> Result<Option<NormWeights<'a>>, Error> {
    norm.map(|norm| NormWeights::new(weights, &norm)).transpose()
}

fn is_own(plan: &Plan, op: &Op) -> bool {
    match op {
        Op::Attend(a) => {
            matches!(a.mask, Mask::Causal { .. })
                && a.softcap.is_none()
                && a.sinks.is_none()
                && a.alibi.is_none()
                && plan.caches[a.cache].head_dim().is_some()
        }
        Op::Store { cache } => matches!(plan.caches[*cache].values, Values::Own { .. }),
        Op::Glu(_) | Op::Norm(_) => false,
        Op::Embed { .. }
        | Op::Linear(_)
        | Op::HeadNorm { .. }
        | Op::Rope { .. }
        | Op::Add
        | Op::Select
        | Op::NormLinear { .. }
        | Op::NormGlu { .. }
        | Op::LinearAdd(_)
        | Op::RopeStore(_) => true,
        _ => false,
    }
}

/// Outputs of the widest `up` linear of the gated products.
fn widest_up(plan: &Plan) -> usize {
    let width = |op: &Op| match op {
        Op::NormGlu { norm: _, gate: _, up, gating: _ } => plan.weight(up.weight).rows,
        _ => 0,
    };
    plan.steps.iter().map(|step| width(&step.op)).max().unwrap_or(0)
}
