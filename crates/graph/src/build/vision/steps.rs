//! A plan of a tower or its projector under construction.

use super::super::builder::known_or_new;
use super::super::tensors::Tensors;
use super::sizes::Sizes;
use crate::{
    Buffer, BufferId, Error, Linear, NormKind, Op, OutputKind, Part, Plan, Rows, Shape, Step,
    Strided, StridedCopy,
};

/// A plan of a tower or its projector under construction.
pub(super) struct Steps<'t, 'a> {
    pub(super) tensors: &'t mut Tensors<'a>,
    pub(super) plan: Plan,
    pub(super) eps: f32,
    /// The layer that steps belong to.
    pub(super) layer: Option<usize>,
}

impl<'t, 'a> Steps<'t, 'a> {
    pub(super) fn new(name: &str, sizes: &Sizes, tensors: &'t mut Tensors<'a>) -> Self {
        let shape = Shape {
            architecture: name.to_owned(),
            layers: sizes.layers,
            hidden: sizes.hidden,
            heads: sizes.heads,
            kv_heads: sizes.heads,
            head_dim: sizes.head_dim,
            ffn: sizes.ffn,
            tied: false,
        };
        let plan = Plan {
            shape,
            weights: Vec::new(),
            buffers: Vec::new(),
            caches: Vec::new(),
            groups: Vec::new(),
            states: Vec::new(),
            ropes: Vec::new(),
            steps: Vec::new(),
            // rows have no tokens
            vocab: 0,
            token_types: 1,
            context: sizes.rows,
            // no row is decoded: a picture is in one pass
            whole_sequences: true,
            marks: Default::default(),
            output: OutputKind::Embedding,
            logits: BufferId(0),
            entry: Vec::new(),
            exit: Vec::new(),
            injected: None,
            encoder: None,
            host: Vec::new(),
        };
        Self { tensors, plan, eps: sizes.eps, layer: None }
    }

    /// The plan, whose results are its exit.
    pub(super) fn finish(mut self, exit: Vec<BufferId>) -> Plan {
        self.plan.weights = std::mem::take(&mut self.tensors.weights);
        if let Some(first) = exit.first() {
            self.plan.logits = *first;
        }
        self.plan.exit = exit;
        self.plan
    }

    pub(super) fn width(&self, id: BufferId) -> usize {
        self.plan.buffer(id).width
    }

    pub(super) fn buffer(&mut self, name: &'static str, width: usize) -> BufferId {
        known_or_new(&mut self.plan.buffers, Buffer { name, width, rows: Rows::All })
    }

    /// A buffer of its own, whatever others are called.
    pub(super) fn new_buffer(&mut self, name: &'static str, width: usize) -> BufferId {
        self.plan.buffers.push(Buffer { name, width, rows: Rows::All });
        BufferId(self.plan.buffers.len() - 1)
    }

    /// A buffer that comes with a pass.
    pub(super) fn entry(&mut self, name: &'static str, width: usize) -> BufferId {
        let buffer = self.new_buffer(name, width);
        self.plan.entry.push(buffer);
        buffer
    }

    pub(super) fn step(&mut self, op: Op, inputs: &[BufferId], outputs: &[BufferId]) {
        let (inputs, outputs) = (inputs.to_vec(), outputs.to_vec());
        self.plan.steps.push(Step { op, inputs, outputs, layer: self.layer });
    }

    pub(super) fn in_place(&mut self, op: Op, buffer: BufferId) {
        self.step(op, &[buffer], &[buffer]);
    }

    /// Copies a buffer to another one of its width.
    pub(super) fn copy(&mut self, from: BufferId, to: BufferId) {
        let width = self.width(from);
        let at = Strided { offset: 0, stride: width };
        self.step(Op::Copy(StridedCopy { count: 1, width, from: at, to: at }), &[from], &[to]);
    }

    /// The norm with the tensors `name`, of `x` to a buffer of this name.
    pub(super) fn norm(
        &mut self,
        kind: NormKind,
        name: &str,
        x: BufferId,
        to: &'static str,
    ) -> Result<BufferId, Error> {
        let norm = self.tensors.norm(kind, name, self.width(x), self.eps)?;
        let y = self.buffer(to, self.width(x));
        self.step(Op::Norm(norm), &[x], &[y]);
        Ok(y)
    }

    /// The linear with the tensors `name`, of `x` to a buffer of this name.
    pub(super) fn linear(
        &mut self,
        name: &str,
        x: BufferId,
        to: &'static str,
        rows: usize,
    ) -> Result<BufferId, Error> {
        let y = self.buffer(to, rows);
        self.linear_to(name, x, y)?;
        Ok(y)
    }

    /// The linear with the tensors `name`, and the bounds of its inputs and outputs if the file has
    /// them (Gemma 4).
    pub(super) fn linear_to(&mut self, name: &str, x: BufferId, y: BufferId) -> Result<(), Error> {
        let linear = self.tensors.linear(name, self.width(y), self.width(x))?;
        let x = match self.clamp(name, "input")? {
            Some(clamp) => {
                let clamped = self.buffer("clamped", self.width(x));
                self.copy(x, clamped);
                self.in_place(clamp, clamped);
                clamped
            }
            None => x,
        };
        self.step(Op::Linear(linear), &[x], &[y]);
        if let Some(clamp) = self.clamp(name, "output")? {
            self.in_place(clamp, y);
        }
        Ok(())
    }

    /// The linear of some rows of the tensors `name`.
    pub(super) fn linear_part(
        &mut self,
        name: &str,
        part: Part,
        x: BufferId,
        y: BufferId,
    ) -> Result<(), Error> {
        let (rows, row_len) = (self.width(y), self.width(x));
        let linear: Linear = self.tensors.linear_part(name, part, rows, row_len)?;
        self.step(Op::Linear(linear), &[x], &[y]);
        Ok(())
    }

    /// The bounds of the inputs or outputs of a linear; `None` if there are none.
    fn clamp(&mut self, name: &str, side: &str) -> Result<Option<Op>, Error> {
        let names = ["min", "max"].map(|end| format!("{name}.{side}_{end}"));
        if !names.iter().any(|name| self.tensors.has(name)) {
            return Ok(None);
        }
        let [low, high] =
            [self.tensors.decode(&names[0], &[1])?, self.tensors.decode(&names[1], &[1])?];
        let (low, high) = (low[0], high[0]);
        // files state bounds that are none
        if low <= high && low < f32::INFINITY && high > f32::NEG_INFINITY {
            let (low, high) = (low.max(f32::MIN), high.min(f32::MAX));
            let is_none = (low, high) == (f32::MIN, f32::MAX);
            return Ok((!is_none).then_some(Op::Clamp { low, high }));
        }
        Err(self.tensors.value_fault(&names[0], low.to_string(), "less than the greatest bound"))
    }
}
