//! LoRA adapters (arXiv 2106.09685) that hold for all sequences of a plan.

use pelton_quant::DType;
use pelton_weights::LoraTensors;

use crate::{Buffer, BufferId, Error, Linear, Op, Plan, Rows, Step, Weight, WeightId, WeightKind};

impl Plan {
    /// Adds an adapter: after each linear `y = W·x` of one of its matrices the steps
    /// `y = y + b·(a·x)`. Called before [`fuse`](Self::fuse).
    ///
    /// # Errors
    ///
    /// [`Error::Adapter`] if no linear of the plan has a matrix of the adapter.
    pub fn add_lora(mut self, adapter: &[LoraTensors]) -> Result<Self, Error> {
        for lora in adapter {
            let mut steps = Vec::with_capacity(self.steps.len() + 3);
            let mut found = false;
            for step in std::mem::take(&mut self.steps) {
                let linear = match step.op {
                    Op::Linear(linear) if self.weight(linear.weight).name == lora.tensor => linear,
                    _ => {
                        steps.push(step);
                        continue;
                    }
                };
                found = true;
                let (x, y, layer) = (step.inputs[0], step.outputs[0], step.layer);
                let rows = self.buffer(y).rows;
                steps.push(step);
                let matrix = self.weight(linear.weight).clone();
                let a = self.add_matrix(&lora.a, lora.rank, matrix.row_len, None);
                let b = self.add_matrix(&lora.b, matrix.rows, lora.rank, Some(&matrix));
                let t = self.add_buffer("lora", lora.rank, rows);
                let sum = self.add_buffer("lora_sum", matrix.rows, rows);
                let mut add = |op, inputs: &[BufferId], output| {
                    steps.push(Step { op, inputs: inputs.to_vec(), outputs: vec![output], layer });
                };
                add(Op::Linear(Linear { weight: a, bias: None }), &[x], t);
                add(Op::Linear(Linear { weight: b, bias: None }), &[t], sum);
                add(Op::Add, &[y, sum], y);
            }
            self.steps = steps;
            if !found {
                return Err(Error::Adapter { tensor: lora.tensor.clone() });
            }
        }
        Ok(self)
    }

    /// A matrix of F32; with `part` the same range of rows.
    fn add_matrix(
        &mut self,
        name: &str,
        rows: usize,
        row_len: usize,
        part: Option<&Weight>,
    ) -> WeightId {
        let part = part.and_then(|weight| weight.part);
        let (name, dtype, kind) = (name.to_owned(), DType::F32, WeightKind::Matrix);
        self.weights.push(Weight { name, dtype, kind, rows, row_len, part });
        WeightId(self.weights.len() - 1)
    }

    fn add_buffer(&mut self, name: &'static str, width: usize, rows: Rows) -> BufferId {
        let buffer = Buffer { name, width, rows };
        let known = self.buffers.iter().position(|other| *other == buffer);
        BufferId(known.unwrap_or_else(|| {
            self.buffers.push(buffer);
            self.buffers.len() - 1
        }))
    }
}
