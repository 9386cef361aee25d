//! The fast path: every step is one region of the thread pool, in which all threads take their
//! share of rows, of outputs or of heads.
//!
//! No result depends on how many threads there are, nor on which rows share a batch: a thread's
//! share changes who computes a number, not how.

mod ahead;
mod attend;
mod attention;
mod heads;
mod products;
mod rows;
mod unpack;

use arrayvec::ArrayVec;
use pelton_graph::{Batch, Error, Norm, Op, Plan};

use crate::{kernels::Isa, lines::Lines, pool::Pool, simd::dispatch, state::State};
use attention::Attender;
use heads::{Angles, Heads, RopeStore};
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
    up: Lines,
    /// One for each of the plan's rotations.
    angles: Vec<Angles>,
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
            up: Lines::zeroed(limits.rows, up.max().unwrap_or(0))?,
            angles: plan.ropes.iter().map(|rope| Angles::new(rope, limits.rows)).collect(),
            isa,
            pool,
        })
    }

    /// Prepares what all layers share: the angles of the rows' positions, and attention's tiles.
    pub(crate) fn begin(&mut self, plan: &Plan, batch: &Batch<'_>) {
        for (rope, angles) in plan.ropes.iter().zip(&mut self.angles) {
            angles.begin(rope, batch);
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
        let mut outputs: [Lines; OUTPUTS] = std::array::from_fn(|i| match step.outputs.get(i) {
            Some(id) => std::mem::take(&mut buffers[id.0]),
            None => Lines::default(),
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
                for (row, x) in out.chunks_exact_mut(out_width).take(rows).enumerate() {
                    angles.turn(self.isa, rope, row, out_width / heads, x);
                }
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
            Op::RopeStore(op) => {
                let norm =
                    |norm: Option<Norm>| norm.map(|norm| (norm, weights.vector(norm.weight)));
                let k_width = plan.buffer(step.outputs[1]).width;
                RopeStore {
                    rope: plan.rope(op.rope),
                    angles: &self.angles[op.rope.0],
                    queries: Heads { values: out, width: out_width, norm: norm(op.q_norm) },
                    keys: Heads { values: second, width: k_width, norm: norm(op.k_norm) },
                    values: input(2),
                    cache: &mut caches[op.cache],
                }
                .run(&self.pool, self.isa, batch);
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
