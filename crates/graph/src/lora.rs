//! LoRA adapters (arXiv 2106.09685), chosen for each row by its slot.
//!
//! `Op::Adapters` writes the ids and factors of each row's adapters. The thin products `y += Σ
//! factor · b·(a·x)` are `ExpertLinear` and `ExpertSum` over the stacked matrices of all adapters:
//! rows of different adapters are rows of different experts. A slot without adapters has factors of
//! 0.

use pelton_quant::DType;
use pelton_weights::LoraTensors;

use crate::{
    Adapters, Buffer, BufferId, Error, ExpertLinear, Op, Plan, Rows, Step, Weight, WeightId,
    WeightKind, plan::SCALED,
};

/// The buffers of the chosen adapters of each row.
#[derive(Clone, Copy)]
struct Chosen {
    ids: BufferId,
    weights: BufferId,
}

impl Plan {
    /// Adds adapters, of which each row has at most `used`: after each linear `y = W·x` of one of
    /// their matrices the steps `y = y + Σ_s weights[s] · b[ids[s]]·(a[ids[s]]·x)`. Called once,
    /// before [`fuse`](Self::fuse).
    ///
    /// # Errors
    ///
    /// [`Error::Adapter`] if no linear of the plan has a matrix of the adapters.
    pub fn add_loras(mut self, matrices: &[LoraTensors], used: usize) -> Result<Self, Error> {
        let Some(count) = matrices.first().map(|matrix| matrix.adapters) else { return Ok(self) };
        let used = used.clamp(1, count);
        let all = self.chosen(used, Rows::All);
        let selected = self.chosen(used, Rows::Selected);
        let mut found = vec![false; matrices.len()];
        let (mut is_selected, mut needs_selected) = (false, false);
        let mut steps = vec![Step {
            op: Op::Adapters(Adapters { count, used }),
            inputs: Vec::new(),
            outputs: vec![all.ids, all.weights],
            layer: None,
        }];
        let mut select_at = 0;
        for step in std::mem::take(&mut self.steps) {
            if matches!(step.op, Op::Select | Op::Pool(_)) && !is_selected {
                (is_selected, select_at) = (true, steps.len() + 1);
            }
            let lora = match step.op {
                Op::Linear(linear) => {
                    let name = &self.weight(linear.weight).name;
                    let at = matrices.iter().position(|matrix| matrix.tensor == *name);
                    at.map(|at| (at, linear))
                }
                _ => None,
            };
            let (x, y) = (step.inputs.first().copied(), step.outputs.first().copied());
            // a factor next to the matrix is none of the adapters
            let x = x.and_then(|x| match self.buffer(x).name == SCALED {
                true => steps.iter().rev().find_map(|step| {
                    let copies = matches!(step.op, Op::Copy(_)) && step.outputs == [x];
                    step.inputs.first().copied().filter(|_| copies)
                }),
                false => Some(x),
            });
            let layer = step.layer;
            steps.push(step);
            let (Some((at, linear)), Some(x), Some(y)) = (lora, x, y) else { continue };
            found[at] = true;
            let rows = self.buffer(y).rows;
            needs_selected |= rows == Rows::Selected;
            let chosen = if rows == Rows::Selected { selected } else { all };
            let matrix = self.weight(linear.weight).clone();
            let LoraTensors { tensor: _, a, b, rank, adapters: _ } = &matrices[at];
            let a = self.add_matrices(a, count, *rank, matrix.row_len, None);
            let b = self.add_matrices(b, count, matrix.rows, *rank, Some(&matrix));
            let t = self.add_buffer("lora", used * rank, rows);
            let products = self.add_buffer("lora_out", used * matrix.rows, rows);
            let sum = self.add_buffer("lora_sum", matrix.rows, rows);
            let mut add = |op, inputs: &[BufferId], output| {
                steps.push(Step { op, inputs: inputs.to_vec(), outputs: vec![output], layer });
            };
            let linear = |weight| Op::ExpertLinear(ExpertLinear { weight, bias: None, used });
            add(linear(a), &[x, chosen.ids], t);
            add(linear(b), &[t, chosen.ids], products);
            add(Op::ExpertSum { used }, &[products, chosen.weights], sum);
            add(Op::Add, &[y, sum], y);
        }
        if needs_selected {
            let select = |from, to| Step {
                op: Op::Select,
                inputs: vec![from],
                outputs: vec![to],
                layer: None,
            };
            let both = [(all.ids, selected.ids), (all.weights, selected.weights)];
            steps.splice(select_at..select_at, both.map(|(from, to)| select(from, to)));
        }
        self.steps = steps;
        match found.iter().position(|found| !found) {
            Some(at) => Err(Error::Adapter { tensor: matrices[at].tensor.clone() }),
            None => Ok(self),
        }
    }

    /// The buffers of the chosen adapters.
    fn chosen(&mut self, used: usize, rows: Rows) -> Chosen {
        let ids = self.add_buffer("lora_ids", used, rows);
        Chosen { ids, weights: self.add_buffer("lora_weights", used, rows) }
    }

    /// Matrices of F32; with `part` the same range of rows of each.
    fn add_matrices(
        &mut self,
        name: &str,
        count: usize,
        rows: usize,
        row_len: usize,
        part: Option<&Weight>,
    ) -> WeightId {
        let part = part.and_then(|weight| weight.part);
        let (name, dtype, kind) = (name.to_owned(), DType::F32, WeightKind::Matrices { count });
        self.weights.push(Weight { name, dtype, kind, rows, row_len, part, marked: false });
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
