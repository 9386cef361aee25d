//! Observation of the inputs of matrix products, for the importance of their columns.

use std::fmt;
use std::sync::Arc;

use pelton_graph::{Linear, Op, Step, Weight, WeightId};

use crate::batch::Batch;
use crate::memory::State;

/// The input `[weight.row_len]` of a product of one row of a pass with one matrix.
#[derive(Clone, Copy, Debug)]
pub struct MatrixInput<'a> {
    /// The weight: one matrix, or several of the same shape.
    pub weight: &'a Weight,
    /// The index of the matrix among those of the weight, such as the number of an expert.
    pub matrix: usize,
    /// The index of the layer; none for the output layer.
    pub layer: Option<usize>,
    /// The values before the product. On no path are they rounded.
    pub values: &'a [f32],
}

/// A callback for the inputs of all matrix products.
#[derive(Clone)]
pub(crate) struct Observer(Arc<dyn Fn(MatrixInput<'_>) + Send + Sync>);

impl Observer {
    pub(crate) fn new(call: impl Fn(MatrixInput<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    /// Calls back for the inputs of a step that is about to run. Fused ops have none.
    pub(crate) fn see(&self, state: &State, step: &Step, batch: &Batch<'_>) {
        let plan = &state.plan;
        let rows = plan.rows_of(step, batch.rows.len(), batch.selected.len());
        let input = |i: usize| {
            let id = step.inputs[i];
            let width = plan.buffer(id).width;
            (state.buffers.read(id), width)
        };
        match &step.op {
            Op::Linear(Linear { weight, bias: _ }) => {
                let (x, width) = input(0);
                for row in x[..rows * width].chunks_exact(width) {
                    self.call(state, step, *weight, 0, row);
                }
            }
            Op::HeadLinear { weight, heads } => {
                let (x, width) = input(0);
                for (i, head) in x[..rows * width].chunks_exact(width / heads).enumerate() {
                    self.call(state, step, *weight, i % heads, head);
                }
            }
            Op::ExpertLinear(linear) => {
                let ((x, width), (ids, used)) = (input(0), input(1));
                let weight = plan.weight(linear.weight);
                let (cols, experts) = (weight.row_len, weight.count());
                for (pair, &id) in ids[..rows * used].iter().enumerate() {
                    // one input for all experts of the row, or one for each
                    let first =
                        pair / used * width + if width == cols { 0 } else { pair % used * cols };
                    let expert = (id as usize).min(experts - 1);
                    self.call(state, step, linear.weight, expert, &x[first..first + cols]);
                }
            }
            _ => {}
        }
    }

    fn call(&self, state: &State, step: &Step, weight: WeightId, matrix: usize, values: &[f32]) {
        let weight = state.plan.weight(weight);
        (self.0)(MatrixInput { weight, matrix, layer: step.layer, values });
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
