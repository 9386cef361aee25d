//! The dispatches of each step, made once at load.

use std::{collections::HashMap, sync::Arc};

use pelton_graph::{Adapters, BufferId, Error, KvType, Op, Plan, Step};

use crate::{
    device::{Access, Device, Kernel},
    kernels::{matvec::Tuning, row_ops::RowOp},
    lower::{
        buffers::{Cache, Inputs, Scratch},
        dispatch::{Bound, Dispatch, Grid, RowBucket, When},
    },
    weights::{Weights, has_buckets},
};

/// The lowering of steps: its inputs, and the buffers of dispatches.
pub(crate) struct Lowering<'a> {
    pub(crate) device: &'a Device,
    pub(crate) plan: &'a Plan,
    pub(crate) weights: &'a Weights,
    /// The plan's buffers.
    pub(crate) buffers: &'a [wgpu::Buffer],
    pub(crate) inputs: &'a Inputs,
    pub(crate) scratch: &'a Scratch,
    /// The caches of the layers, and the type of their elements.
    pub(crate) caches: &'a [Cache],
    pub(crate) kv: KvType,
    /// The recurrent states `[states]`, each `[slots, len]` f32.
    pub(crate) states: &'a [wgpu::Buffer],
    /// The rotation steps of each rope.
    pub(crate) turns: &'a [wgpu::Buffer],
    /// The most rows of a pass, and of a decoding pass.
    pub(crate) rows: usize,
    pub(crate) decode_rows: usize,
    /// The launch configuration of the step's products of few rows.
    pub(crate) tuning: Tuning,
    /// Threads of every workgroup, for kernels that become phases of a persistent kernel; `None` if
    /// each kernel has its own number.
    pub(crate) joined: Option<usize>,
    /// Whether attention as such a phase loads keys before it waits for the phase before.
    pub(crate) early: bool,
    /// Whether products with matrices in input-major order are lowered as if these were row by row.
    pub(crate) dense: bool,
    /// Kernels to be compiled, by their source.
    pub(crate) kernels: HashMap<String, Arc<Kernel>>,
}

impl<'a> Lowering<'a> {
    /// The dispatches of one step for rows of that bucket.
    ///
    /// `alone` says that the pass has a single row, which is selected. Then the selected rows are
    /// all rows, and nothing need be copied.
    pub(crate) fn step(
        &mut self,
        step: &Step,
        bucket: RowBucket,
        alone: bool,
    ) -> Result<Vec<Dispatch>, Error> {
        match (self.dense || !self.has_effort(step), has_buckets(self.plan)) {
            (true, _) => self.dense_step(step, bucket, alone),
            (false, true) => self.bucket_step(step, bucket, alone),
            (false, false) => self.effort_step(step, bucket, alone),
        }
    }

    /// The dispatches of a step with matrices row by row.
    pub(super) fn dense_step(
        &mut self,
        step: &Step,
        bucket: RowBucket,
        alone: bool,
    ) -> Result<Vec<Dispatch>, Error> {
        let all = |ids: &[BufferId]| -> Vec<&'a wgpu::Buffer> {
            ids.iter().map(|&id| self.buffer(id, alone)).collect()
        };
        let (inputs, outputs) = (all(&step.inputs), all(&step.outputs));
        let (read, write) = (|i: usize| inputs[i], |i: usize| outputs[i]);
        let plan = self.plan;
        let width = |i: usize| plan.buffer(step.outputs[i]).width;
        match &step.op {
            Op::Embed { table } => self.embed(*table, write(0)),
            Op::AddTable { table, row } => self.add_table(*table, *row, write(0)),
            Op::Norm(norm) => {
                let y = (step.inputs[0] != step.outputs[0]).then(|| write(0));
                self.norm(norm, 1, width(0), read(0), y)
            }
            Op::HeadNorm { norm, heads } => self.norm(norm, *heads, width(0), write(0), None),
            Op::Linear(linear) => self.linear(linear, None, read(0), write(0), step, false, bucket),
            Op::LinearAdd(linear) => {
                self.linear(linear, None, read(1), write(0), step, true, bucket)
            }
            Op::NormLinear { norm, linears } => {
                self.norm_linear(norm, linears, read(0), &outputs, step, bucket)
            }
            Op::NormGlu { norm, gate, up, gating } => {
                self.norm_glu(norm, [gate, up], gating, [read(0), write(0)], step, bucket)
            }
            Op::Add => self.row_op(&RowOp::add(width(0)), &[write(0), read(1)]).map(one),
            Op::Glu(gating) => self.glu(gating, step, [read(0), read(1), write(0)]),
            Op::Activate(f) => self.row_op(&RowOp::activate(width(0), *f), &[write(0)]).map(one),
            Op::Scale(factor) => {
                self.row_op(&RowOp::scale(width(0), *factor), &[write(0)]).map(one)
            }
            Op::Softcap(cap) => self.row_op(&RowOp::softcap(width(0), *cap), &[write(0)]).map(one),
            Op::Temper { beta, interval, offset } => {
                let op = RowOp::temper(width(0), *beta, *interval, *offset);
                self.row_op(&op, &[&self.inputs.rows, write(0)]).map(one)
            }
            Op::Copy(copy) => self.copy(copy, step, [read(0), write(0)]),
            Op::Pool(pooling) => self.pool(*pooling, width(0), [read(0), write(0)]),
            Op::ExpertScale { factors, used } => {
                let op = RowOp::expert_scale(width(0), *used);
                let factors = self.weights.vector(*factors)?;
                self.row_op(&op, &[write(0), read(1), factors]).map(one)
            }
            Op::ExpertSum { used } => {
                let op = RowOp::expert_sum(width(0), *used, false);
                self.row_op(&op, &[read(0), read(1), write(0)]).map(one)
            }
            Op::ExpertSumAdd { used } => {
                let op = RowOp::expert_sum(width(0), *used, true);
                self.row_op(&op, &[read(1), read(2), write(0)]).map(one)
            }
            // the logits are copied from their own buffer
            Op::Select if alone && step.outputs[0] != plan.logits => Ok(Vec::new()),
            Op::Select => {
                let buffers = [read(0), &self.inputs.selected, write(0)];
                self.row_op(&RowOp::select(width(0)), &buffers).map(one)
            }
            Op::Rope { rope, heads } => self.rope(*rope, *heads, step.outputs[0]).map(one),
            Op::Store { cache } => self.store(*cache, read(0), inputs.get(1).copied()).map(one),
            Op::RopeStore(op) => self.rope_store(op, [read(0), read(1), read(2)]).map(one),
            Op::Attend(op) => self.attend(op, read(0), write(0), bucket),
            Op::RopeAttend(op, attend) => {
                self.rope_attend(op, attend, [read(0), read(1), read(2)], write(0), bucket)
            }
            Op::Adapters(Adapters { count: _, used }) => {
                let inputs = self.inputs;
                let buffers = [&inputs.rows, &inputs.adapters, write(0), write(1)];
                self.row_op(&RowOp::adapters(*used), &buffers).map(one)
            }
            Op::Route(op) => self.route(op, read(0), [write(0), write(1)]).map(one),
            Op::ExpertLinear(linear) => {
                self.expert_linear(linear, [read(0), read(1), write(0)], step, bucket)
            }
            Op::ExpertGlu { gate, up, gating } => {
                let buffers = [read(0), read(1), write(0)];
                self.expert_glu([gate, up], gating, buffers, step, bucket)
            }
            Op::HeadLinear { weight, heads } => {
                self.head_linear(*weight, *heads, [read(0), write(0)], step, bucket)
            }
            Op::ShortConv(conv) => self.short_conv(conv, width(0), write(0)).map(one),
            Op::GatedDelta(delta) => self.gated_delta(delta, &inputs, write(0)),
        }
    }

    /// A plan's buffer; with `alone`, that of all rows in place of that of the selected ones.
    pub(super) fn buffer(&self, id: BufferId, alone: bool) -> &'a wgpu::Buffer {
        let source = self.plan.steps.iter().find_map(|step| match step.op {
            Op::Select if step.outputs[0] == id => Some(step.inputs[0]),
            _ => None,
        });
        match source {
            Some(source) if alone && id != self.plan.logits => &self.buffers[source.0],
            _ => &self.buffers[id.0],
        }
    }

    pub(super) fn call(
        &mut self,
        source: &str,
        accesses: &[Access],
        label: &str,
        buffers: &[wgpu::BufferBinding<'_>],
        grid: Grid,
    ) -> Result<Dispatch, Error> {
        let kernel = match self.kernels.get(source) {
            Some(kernel) => Arc::clone(kernel),
            None => {
                let kernel = Arc::new(self.device.kernel_to_compile(label, source, accesses));
                self.kernels.insert(source.to_owned(), Arc::clone(&kernel));
                kernel
            }
        };
        let bindings = self.device.bind(label, &kernel, buffers)?;
        Ok(Dispatch {
            kernel,
            bindings,
            buffers: buffers.iter().map(Bound::of).collect(),
            grid,
            rows: 0..=usize::MAX,
            concurrent: false,
            when: When::Always,
        })
    }
}

/// The error of an op that `run::accept` should have refused.
pub(super) fn refused(what: &str) -> Error {
    Error::Kernel { kernel: "lowering".into(), what: format!("{what} has no kernel") }
}

pub(super) fn one(call: Dispatch) -> Vec<Dispatch> {
    vec![call]
}

pub(super) fn whole<'b>(buffers: &[&'b wgpu::Buffer]) -> Vec<wgpu::BufferBinding<'b>> {
    buffers.iter().map(|buffer| buffer.as_entire_buffer_binding()).collect()
}
