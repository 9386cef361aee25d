//! The fast path: every step is one region of the thread pool, in which each thread computes its
//! partition of rows, outputs or heads.
//!
//! No result depends on the number of threads, nor on the other rows of a batch: a partition
//! decides which thread computes a value, not how.

mod activations;
mod attention;
mod grouped;
mod grouped_product;
mod linear;
mod live_pairs;
mod norms;
mod recurrent;
mod rope_store;
mod row_ops;
mod scan;
mod step;

use std::sync::Arc;
use std::time::Instant;

use pelton_graph::{Error, Limits, Op, Phase, Plan, StepProfile};

use crate::batch::Batch;
use crate::isa::Isa;
use crate::memory::{AlignedBuf, State, multiplied};
use crate::observe::Observer;
use crate::pool::Pool;
use crate::route::RouteScratch;
use attention::Attender;
use grouped::Grouped;
use linear::Multiplier;
use rope_store::Angles;

/// The pool, and the memory that steps need besides the plan's buffers.
pub(crate) struct Exec {
    pool: Arc<Pool>,
    isa: Isa,
    /// Whether both phases run the kernels of prompts.
    phases_agree: bool,
    multiplier: Multiplier,
    grouped: Grouped,
    attender: Attender,
    /// The second factors of gated products `[rows, ffn]`.
    up: AlignedBuf,
    /// Rows of tables that are added `[rows, width]`.
    summands: AlignedBuf,
    /// The rotations of the rows, for each of [`Plan::ropes`].
    angles: Vec<Angles>,
    /// The memory of each thread for the choice of experts.
    routes: Vec<RouteScratch>,
}

impl Exec {
    /// Allocates the memory of the steps.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(crate) fn new(plan: &Plan, limits: &Limits, pool: Arc<Pool>) -> Result<Self, Error> {
        let isa = Isa::chosen().map_err(|what| Error::Device { device: "cpu".to_owned(), what })?;
        let angles = plan.ropes.iter().map(|rope| Angles::new(rope, limits.rows));
        let Widest { up, summand, experts } = Widest::of(plan);
        let rows = limits.rows.max(limits.wants);
        Ok(Self {
            multiplier: Multiplier::new(plan, limits, isa, pool.threads())?,
            grouped: Grouped::new(plan, limits, isa, pool.threads())?,
            attender: Attender::new(plan, limits, pool.threads())?,
            up: AlignedBuf::zeroed("gated products", rows, up)?,
            summands: AlignedBuf::zeroed("rows of tables", rows, summand)?,
            angles: angles.collect::<Result<_, _>>()?,
            routes: (0..pool.threads()).map(|_| RouteScratch::new(experts)).collect(),
            isa,
            phases_agree: phases_agree(plan),
            pool,
        })
    }

    /// Bytes that [`new`](Self::new) allocates on a pool of `threads`.
    pub(crate) fn bytes(plan: &Plan, limits: &Limits, threads: usize) -> u128 {
        let angles = plan.ropes.iter().map(|rope| Angles::bytes(rope, limits.rows));
        let Widest { up, summand, experts } = Widest::of(plan);
        let rows = limits.rows.max(limits.wants);
        angles
            .chain([
                Multiplier::bytes(plan, limits, threads),
                Grouped::bytes(plan, limits, threads),
                Attender::bytes(plan, limits, threads),
                AlignedBuf::bytes(rows, up),
                AlignedBuf::bytes(rows, summand),
                RouteScratch::bytes(experts).saturating_mul(threads as u128),
            ])
            .fold(0, u128::saturating_add)
    }

    /// The pool that steps run on.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The instruction set of the kernels.
    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    /// Whether both phases give the same bits for a row.
    pub(crate) fn phases_agree(&self) -> bool {
        self.phases_agree
    }

    /// Runs all steps of the plan, and shows an observer the inputs of each.
    ///
    /// # Errors
    /// If an op or a weight is not of the kind that loading accepts.
    pub(crate) fn run(
        &mut self,
        state: &mut State,
        batch: &Batch<'_>,
        observer: Option<&Observer>,
    ) -> Result<(), Error> {
        self.begin(state, batch);
        state.plan.steps_of(batch.phase).try_for_each(|step| {
            if let Some(observer) = observer {
                observer.see(state, &state.plan.steps[step], batch);
            }
            self.run_step(state, step, batch)
        })
    }

    /// Runs all steps of the plan and adds the time of each to `times` `[steps]`.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn run_timed(
        &mut self,
        state: &mut State,
        batch: &Batch<'_>,
        steps: &mut [StepProfile],
    ) -> Result<(), Error> {
        self.begin(state, batch);
        let mut last = Instant::now();
        for i in state.plan.steps_of(batch.phase) {
            let step = &mut steps[i];
            let before = self.multiplied();
            self.run_step(state, i, batch)?;
            let now = Instant::now();
            step.time += now - last;
            last = now;
            step.live = share(before, self.multiplied()).unwrap_or(1.0);
        }
        Ok(())
    }

    /// Weights that rows below 1 multiplied since the load, and all weights of their
    /// matrices.
    fn multiplied(&self) -> [f64; 2] {
        let [of_rows, of_pairs] = [self.multiplier.multiplied(), self.grouped.multiplied()];
        [of_rows[0] + of_pairs[0], of_rows[1] + of_pairs[1]]
    }

    /// The share of the weights of marked matrices that rows below 1 have multiplied
    /// since the load. `None` before the first such row.
    pub(crate) fn live_share(&self) -> Option<f64> {
        share([0.0; 2], self.multiplied())
    }

    /// Prepares what all steps of a pass share.
    fn begin(&mut self, state: &State, batch: &Batch<'_>) {
        // the rotations of the positions and the tiles of attention are the same in all layers
        for (rope, angles) in state.plan.ropes.iter().zip(&mut self.angles) {
            angles.begin(rope, batch);
        }
        let phase = match batch.phase {
            Phase::Decode if !self.phases_agree => Phase::Decode,
            Phase::Prompt | Phase::Decode | Phase::Mixed { .. } | Phase::Encode => Phase::Prompt,
        };
        self.multiplier.begin(phase);
        self.grouped.begin(phase);
        self.attender.begin(batch, &state.plan);
    }
}

/// The share of weights multiplied between two counts; `None` if no row was counted.
fn share([before, all_before]: [f64; 2], [after, all_after]: [f64; 2]) -> Option<f64> {
    (all_after > all_before).then(|| (after - before) / (all_after - all_before))
}

/// Whether a plan runs the kernels of prompts in both phases. Kernels for products in f32 that sum
/// in another order are faster for few rows, but then a sequence's answer is computed again where
/// it becomes a part of a prompt. So a plan has them if a part of its weights worth the while is in
/// F32, F16 or BF16, not only the routers of its experts.
fn phases_agree(plan: &Plan) -> bool {
    let (mut floats, mut all) = (0_u128, 0);
    for (weight, multiplied) in plan.weights.iter().zip(multiplied(plan)) {
        if multiplied && weight.is_matrix() {
            let elements = (weight.count() * weight.rows) as u128 * weight.row_len as u128;
            let (len, bytes) = (weight.dtype.block_len(), weight.dtype.block_bytes());
            let bytes = elements * bytes as u128 / len as u128;
            all += bytes;
            floats += if len == 1 { bytes } else { 0 };
        }
    }
    floats == 0 || floats.saturating_mul(8) < all
}

/// The widest rows of a plan's steps.
struct Widest {
    /// Outputs of the `up` linears of gated products.
    up: usize,
    /// Rows of tables that are added.
    summand: usize,
    /// Experts of a choice.
    experts: usize,
}

impl Widest {
    fn of(plan: &Plan) -> Self {
        let mut widest = Self { up: 0, summand: 0, experts: 0 };
        for step in &plan.steps {
            match &step.op {
                Op::NormGlu { norm: _, gate: _, up, gating: _ } => {
                    widest.up = widest.up.max(plan.weight(up.weight).rows);
                }
                Op::ExpertGlu { gate: _, up, gating: _ } => {
                    let width = plan.weight(up.weight).rows.saturating_mul(up.used);
                    widest.up = widest.up.max(width);
                }
                Op::AddTable { table, row: _ } => {
                    widest.summand = widest.summand.max(plan.weight(*table).row_len);
                }
                Op::Route(route) => widest.experts = widest.experts.max(route.experts),
                _ => {}
            }
        }
        widest
    }
}
