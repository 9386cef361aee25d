//! Products of rows with one matrix of many each: of experts, and of heads.
//!
//! The rows of each matrix are listed, and the matrix is multiplied once with all of them. Rows
//! become activations once, however many matrices multiply them.

use std::ops::Range;

use arrayvec::ArrayVec;
use pelton_graph::{Error, Limits, Op, Phase, Plan};

use super::grouped_product::{GroupedProduct, PRODUCTS};
use super::linear::Efforts;
use super::live_pairs::{LivePair, LivePairs};
use crate::gemm::{ActivationKind, Activations, Picked, ROW_ALIGN};
use crate::isa::Isa;
use crate::pool::{Pool, span};

/// The pairs of a row and a matrix that multiplies it.
pub(super) struct Pairs<M, I> {
    /// Number of pairs; the result of each is a row of its own.
    pub(super) count: usize,
    /// Pairs of a row of the pass.
    pub(super) of_row: usize,
    /// Number of matrices.
    pub(super) matrices: usize,
    /// The matrix of a pair.
    pub(super) matrix: M,
    /// The row of a pair.
    pub(super) input: I,
}

/// The form and shape of the inputs of an op: rows for each row of a pass, and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupedShape {
    kind: ActivationKind,
    factor: usize,
    cols: usize,
}

/// The lists of the rows of each matrix, and the memory of the activations.
pub(super) struct Grouped {
    isa: Isa,
    activations: Vec<(GroupedShape, Activations)>,
    /// The first place of each matrix in the lists, and the end.
    bounds: Vec<u32>,
    /// The matrices that have rows.
    chosen: Vec<u32>,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    /// The pairs of rows below 1, which are in no list.
    live: LivePairs,
    /// Whether each pair of the op is in a list.
    listed: Vec<bool>,
}

impl Grouped {
    /// Allocates for the largest op of a plan.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(super) fn new(
        plan: &Plan,
        limits: &Limits,
        isa: Isa,
        threads: usize,
    ) -> Result<Self, Error> {
        let mut activations = Vec::new();
        for shape in shapes(plan) {
            let rows = most_rows(limits).saturating_mul(shape.factor);
            activations.push((shape, Activations::new(shape.kind, rows, shape.cols)?));
        }
        let (matrices, pairs) = most(plan);
        let pairs = pairs.saturating_mul(most_rows(limits));
        let zeros = |len| vec![0; len];
        Ok(Self {
            isa,
            activations,
            bounds: zeros(matrices + 1),
            chosen: Vec::with_capacity(matrices),
            inputs: zeros(pairs),
            outputs: zeros(pairs),
            live: LivePairs::new(plan, pairs, threads),
            listed: Vec::with_capacity(pairs),
        })
    }

    /// Begins a pass over rows of a phase.
    pub(super) fn begin(&mut self, phase: Phase) {
        self.activations.iter_mut().for_each(|(_, activations)| activations.set_phase(phase));
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub(super) fn bytes(plan: &Plan, limits: &Limits, threads: usize) -> u128 {
        let (matrices, pairs) = most(plan);
        let pairs = pairs.saturating_mul(most_rows(limits));
        let lists = (pairs as u128).saturating_mul(9).saturating_add(8 * matrices as u128);
        let lists = lists.saturating_add(LivePairs::bytes(plan, pairs, threads));
        let bytes = shapes(plan).into_iter().map(|shape| {
            let rows = most_rows(limits).saturating_mul(shape.factor);
            Activations::bytes(shape.kind, rows, shape.cols)
        });
        bytes.fold(lists, u128::saturating_add)
    }

    /// Weights that rows below 1 multiplied since the load, and all weights of their
    /// matrices.
    pub(super) fn multiplied(&self) -> [f64; 2] {
        self.live.multiplied()
    }

    /// Lists the rows of each matrix, in the order of the pairs, but for those below 1 if
    /// there are `efforts`.
    fn collect<M: Fn(usize) -> usize, I: Fn(usize) -> usize>(
        &mut self,
        pairs: &Pairs<M, I>,
        efforts: Option<Efforts<'_>>,
    ) {
        let Pairs { count, of_row, matrices, matrix, input } = pairs;
        let bounds = &mut self.bounds[..=*matrices];
        bounds.fill(0);
        self.live.clear();
        self.listed.clear();
        for pair in 0..*count {
            let is_live = efforts.is_some_and(|Efforts { batch, rows }| {
                let level = batch.level(rows, pair / of_row);
                let (input, matrix) = (input(pair), matrix(pair));
                self.live.keeps(LivePair { input, matrix, output: pair as u32, level })
            });
            self.listed.push(!is_live);
            if !is_live {
                bounds[matrix(pair) + 1] += 1;
            }
        }
        self.chosen.clear();
        for i in 0..*matrices {
            if bounds[i + 1] > 0 {
                self.chosen.push(i as u32);
            }
            bounds[i + 1] += bounds[i];
        }
        // each bound moves to the end of its list, which is the next one's beginning
        for pair in (0..*count).filter(|&pair| self.listed[pair]) {
            let next = &mut bounds[matrix(pair)];
            self.inputs[*next as usize] = input(pair) as u32;
            self.outputs[*next as usize] = pair as u32;
            *next += 1;
        }
        bounds.copy_within(..*matrices, 1);
        bounds[0] = 0;
    }

    /// The rows of a matrix.
    fn picked(&self, matrix: usize) -> Picked<'_> {
        let list = self.bounds[matrix] as usize..self.bounds[matrix + 1] as usize;
        Picked { inputs: &self.inputs[list.clone()], outputs: &self.outputs[list] }
    }

    /// Multiplies the rows of `x` `[_, cols]`, `factor` for each row of the pass, with the matrices
    /// of their pairs. A thread that has computed some outputs of some pairs with all products
    /// calls `finish` with both.
    pub(super) fn run<M: Fn(usize) -> usize, I: Fn(usize) -> usize>(
        &mut self,
        pool: &Pool,
        x: &[f32],
        factor: usize,
        pairs: &Pairs<M, I>,
        (products, efforts): (&[GroupedProduct<'_>], Efforts<'_>),
        finish: impl Fn(&[u32], Range<usize>) + Sync,
    ) {
        let has_effort = products.iter().all(|product| product.has_buckets());
        self.collect(pairs, has_effort.then_some(efforts));
        let this = &*self;
        this.live.run(pool, this.isa, x, products, &finish);
        let Some(first) = products.first().filter(|_| !this.chosen.is_empty()) else { return };
        let (cols, rows) = (first.inputs(), first.outputs());
        let find = |product: &GroupedProduct<'_>| {
            let shape = GroupedShape { kind: product.kind(), factor, cols };
            this.activations.iter().find(|(of, _)| *of == shape).map(|(_, found)| found)
        };
        let activations: ArrayVec<&Activations, PRODUCTS> =
            products.iter().filter_map(find).collect();
        let units = Activations::units(x.len() / cols, cols);
        // blocks of `ROW_ALIGN` outputs of a matrix, and of all chosen matrices
        let of_matrix = rows.div_ceil(ROW_ALIGN);
        let blocks = of_matrix * this.chosen.len();
        let bytes: usize = products.iter().map(GroupedProduct::bytes_of_matrix).sum();
        pool.run(|worker| {
            for (i, activations) in activations.iter().enumerate() {
                if products[..i].iter().all(|before| before.kind() != products[i].kind()) {
                    // SAFETY: one thread prepares a unit, and products read it after the barrier.
                    unsafe { activations.prepare(x, cols, worker.split(units, 1)) };
                }
            }
            worker.barrier();
            let run = |blocks: Range<usize>| {
                let mut block = blocks.start;
                while block < blocks.end {
                    let (index, first) = (block / of_matrix, block % of_matrix);
                    let end = of_matrix.min(first + blocks.end - block);
                    block += end - first;
                    let matrix = this.chosen[index] as usize;
                    let outputs = first * ROW_ALIGN..rows.min(end * ROW_ALIGN);
                    let picked = this.picked(matrix);
                    for (product, activations) in products.iter().zip(&activations) {
                        // SAFETY: activations are complete, and one thread computes an output.
                        unsafe {
                            product.run(this.isa, matrix, activations, picked, outputs.clone());
                        };
                    }
                    finish(picked.outputs, outputs);
                }
            };
            let parts = worker.parts(blocks, bytes * this.chosen.len());
            worker.share(parts, |of| run(span(blocks, 1, &of, parts)));
        });
    }
}

fn most_rows(limits: &Limits) -> usize {
    limits.rows.max(limits.wants)
}

/// The distinct shapes of the inputs of a plan's grouped products.
fn shapes(plan: &Plan) -> Vec<GroupedShape> {
    let mut shapes = Vec::new();
    for step in &plan.steps {
        let weights = match &step.op {
            Op::HeadLinear { weight, heads: _ } => [Some(*weight), None],
            Op::ExpertLinear(linear) => [Some(linear.weight), None],
            Op::ExpertGlu { gate, up, gating: _ } => [Some(gate.weight), Some(up.weight)],
            _ => [None, None],
        };
        for id in weights.into_iter().flatten() {
            let weight = plan.weight(id);
            let width = plan.buffer(step.inputs[0]).width;
            let (kind, cols) = (ActivationKind::of(weight.dtype), weight.row_len);
            let shape = GroupedShape { kind, factor: width / cols, cols };
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
    }
    shapes
}

/// The most matrices of a grouped product of a plan, and the most pairs of a row.
fn most(plan: &Plan) -> (usize, usize) {
    let mut most = (0, 0);
    for step in &plan.steps {
        let (id, pairs) = match &step.op {
            Op::HeadLinear { weight, heads } => (*weight, *heads),
            Op::ExpertLinear(linear) => (linear.weight, linear.used),
            Op::ExpertGlu { gate, up: _, gating: _ } => (gate.weight, gate.used),
            _ => continue,
        };
        most = (most.0.max(plan.weight(id).count()), most.1.max(pairs));
    }
    most
}
