//! The fast path: every step is one region of the thread pool, in which all threads take their
//! share of rows, of outputs or of heads.
//!
//! No result depends on how many threads there are, nor on which rows share a batch: a thread's
//! share changes who computes a number, not how.

mod ahead;
mod attend;
mod attention;
mod products;
mod rows;
mod unpack;

use arrayvec::ArrayVec;
use pelton_graph::{Batch, Error, Op, Plan, Rope, RopeStore};

use crate::{
    kernels::Isa,
    pool::Pool,
    simd::dispatch,
    state::{State, zeros},
};
use attention::Attender;
use products::{Multiplier, Product};

/// Outputs of a step, at most.
const OUTPUTS: usize = 4;

/// The pool, and what steps need beside the plan's buffers.
pub(crate) struct Fast {
    pool: Pool,
    isa: Isa,
    multiplier: Multiplier,
    attender: Attender,
    /// The second factors of gated products.
    up: Vec<f32>,
    /// For each rotation, the cosine and sine of each row's pairs.
    angles: Vec<Vec<(f32, f32)>>,
}

impl Fast {
    pub(crate) fn new(state: &State, threads: usize) -> Result<Self, Error> {
        let State { plan, limits, .. } = state;
        let pool = Pool::new(threads).map_err(|error| Error::Threads { threads, error })?;
        let isa = Isa::detect();
        let up = plan.steps.iter().map(|step| match &step.op {
            Op::NormGlu { up, .. } => plan.weight(up.weight).rows,
            _ => 0,
        });
        Ok(Self {
            multiplier: Multiplier::new(plan, limits.rows.max(limits.selected), isa)?,
            attender: Attender::new(plan, limits, pool.threads())?,
            up: zeros(limits.rows, up.max().unwrap_or(0))?,
            angles: plan
                .ropes
                .iter()
                .map(|rope| Vec::with_capacity(limits.rows * rope.frequencies.len()))
                .collect(),
            isa,
            pool,
        })
    }

    /// Prepares what all layers share: the angles of the rows' positions, and attention's tiles.
    pub(crate) fn begin(&mut self, plan: &Plan, batch: &Batch<'_>) {
        for (rope, angles) in plan.ropes.iter().zip(&mut self.angles) {
            angles.clear();
            for row in batch.rows {
                angles.extend(rope.frequencies.iter().map(|&frequency| {
                    let (sin, cos) = (f64::from(row.position) * f64::from(frequency)).sin_cos();
                    (cos as f32, sin as f32)
                }));
            }
        }
        self.attender.begin(batch);
    }

    /// Runs one step of the plan on all rows.
    pub(crate) fn run(
        &mut self,
        state: &mut State,
        step: usize,
        batch: &Batch<'_>,
    ) -> Result<(), Error> {
        let rows = state.rows(&state.plan.steps[step], batch);
        let State { plan, weights, buffers, caches, .. } = state;
        let step = &plan.steps[step];
        // ops in place find their inputs among these
        let mut outputs: [Vec<f32>; OUTPUTS] = std::array::from_fn(|i| match step.outputs.get(i) {
            Some(id) => std::mem::take(&mut buffers[id.0]),
            None => Vec::new(),
        });
        let [out, second, ..] = &mut outputs;
        let width = |i: usize| plan.buffer(step.inputs[i]).width;
        let input = |i: usize| &buffers[step.inputs[i].0][..rows * width(i)];
        let out_width = step.outputs.first().map_or(1, |id| plan.buffer(*id).width);

        match &step.op {
            Op::Embed { table } => {
                for (row, y) in batch.rows.iter().zip(out.chunks_exact_mut(out_width)) {
                    weights.decode_row(*table, row.token as usize, y)?;
                }
            }
            Op::Norm(norm) => {
                let weight = weights.vector(norm.weight);
                let rows = input(0).chunks_exact(out_width).zip(out.chunks_exact_mut(out_width));
                for (x, y) in rows {
                    dispatch(self.isa, rows::NormRow { x, weight, norm: *norm, y });
                }
            }
            Op::Linear(linear) => {
                let product = [Product::new(plan, weights, linear, out, false)?];
                self.multiplier.run(&self.pool, None, input(0), &product, |_| ());
            }
            Op::LinearAdd(linear) => {
                let product = [Product::new(plan, weights, linear, out, true)?];
                self.multiplier.run(&self.pool, None, input(1), &product, |_| ());
            }
            Op::NormLinear { norm, linears } => {
                let norm = Some((*norm, weights.vector(norm.weight)));
                let products = linears
                    .iter()
                    .zip(&mut outputs)
                    .map(|(linear, out)| Product::new(plan, weights, linear, out, false))
                    .collect::<Result<ArrayVec<_, OUTPUTS>, _>>()?;
                self.multiplier.run(&self.pool, norm, input(0), &products, |_| ());
            }
            Op::NormGlu { norm, gate, up, activation } => {
                let norm = (*norm, weights.vector(norm.weight));
                let gates = Product::new(plan, weights, gate, out, false)?;
                let ups = Product::new(plan, weights, up, &mut self.up, false)?;
                let (gate, up) = (gates.values(), ups.values());
                self.multiplier.run(&self.pool, Some(norm), input(0), &[gates, ups], |share| {
                    for r in 0..rows {
                        let place = r * out_width + share.start..r * out_width + share.end;
                        // SAFETY: the share of outputs is this thread's own, in both.
                        let (gate, up) =
                            unsafe { (gate.slice_mut(place.clone()), up.slice_mut(place)) };
                        dispatch(self.isa, rows::GluRow { activation: *activation, gate, up });
                    }
                });
            }
            Op::HeadNorm { norm, .. } => {
                let weight = weights.vector(norm.weight);
                for x in out.chunks_exact_mut(out_width).take(rows) {
                    dispatch(self.isa, rows::HeadNormRow { x, weight, norm: *norm });
                }
            }
            Op::Rope { rope, heads } => {
                let (rope, angles) = (plan.rope(*rope), &self.angles[rope.0]);
                rotate(rope, angles, out_width / heads, out_width, &mut out[..rows * out_width]);
            }
            Op::Store { cache } => {
                let keys = input(0).chunks_exact(width(0));
                for ((row, k), v) in
                    batch.rows.iter().zip(keys).zip(input(1).chunks_exact(width(1)))
                {
                    let table = &batch.tables[row.sequence as usize];
                    caches[*cache].store(table, row.position as usize, k, v);
                }
            }
            Op::RopeStore(RopeStore { q_norm, k_norm, rope, heads, kv_heads, cache }) => {
                let (rope, angles) = (plan.rope(*rope), &self.angles[rope.0]);
                let k_width = plan.buffer(step.outputs[1]).width;
                for (x, width, heads, norm) in [
                    (&mut *out, out_width, heads, q_norm),
                    (&mut *second, k_width, kv_heads, k_norm),
                ] {
                    let x = &mut x[..rows * width];
                    if let Some(norm) = norm {
                        let weight = weights.vector(norm.weight);
                        for x in x.chunks_exact_mut(width) {
                            dispatch(self.isa, rows::HeadNormRow { x, weight, norm: *norm });
                        }
                    }
                    rotate(rope, angles, width / heads, width, x);
                }
                let keys = second.chunks_exact(k_width);
                for ((row, k), v) in
                    batch.rows.iter().zip(keys).zip(input(2).chunks_exact(width(2)))
                {
                    let table = &batch.tables[row.sequence as usize];
                    caches[*cache].store(table, row.position as usize, k, v);
                }
            }
            Op::Attend(attention) => {
                let cache = &caches[attention.cache];
                self.attender.run(&self.pool, self.isa, attention, cache, batch, input(0), out);
            }
            Op::RopeAttend(..) => return Err(Error::Fused { op: step.op.name() }),
            Op::Add => {
                for (x, y) in out.iter_mut().zip(input(1)) {
                    *x += y;
                }
            }
            Op::Glu(activation) => {
                let out = &mut out[..rows * out_width];
                out.copy_from_slice(input(0));
                let row = rows::GluRow { activation: *activation, gate: out, up: input(1) };
                dispatch(self.isa, row);
            }
            Op::Select => {
                for (&i, y) in batch.selected.iter().zip(out.chunks_exact_mut(out_width)) {
                    let from = i as usize * out_width;
                    y.copy_from_slice(&buffers[step.inputs[0].0][from..from + out_width]);
                }
            }
        }
        for (id, buffer) in step.outputs.iter().zip(outputs) {
            buffers[id.0] = buffer;
        }
        Ok(())
    }
}

/// Turns the heads of all rows by the rows' angles.
fn rotate(rope: &Rope, angles: &[(f32, f32)], head_dim: usize, width: usize, x: &mut [f32]) {
    let pairs = rope.frequencies.len();
    for (row, angles) in x.chunks_exact_mut(width).zip(angles.chunks_exact(pairs)) {
        for head in row.chunks_exact_mut(head_dim) {
            for (i, &(cos, sin)) in angles.iter().enumerate() {
                let (a, b) = rope.pair(i);
                let (x, y) = (head[a], head[b]);
                head[a] = x * cos - y * sin;
                head[b] = x * sin + y * cos;
            }
        }
    }
}
