//! The dispatches of each step, made once at load.

use pelton_graph::{Activation, Adapters, BufferId, Error, Op, Phase};

use crate::{
    device::{BufferList, KernelSource},
    kernels::row_ops::RowOp,
    lower::{
        dispatch::{Bound, Dispatch, Grid, RowClass, When},
        handoff::{Handoff, activation_after, handoffs},
        kernel_cache::KernelCache,
        live_sizes::StepProducts,
        loaded::Loaded,
        operand::Operand,
        options::Options,
        projection::{NormedProjections, Projection},
        site::Site,
    },
};

/// The lowering of the steps of a plan to dispatches.
pub(crate) struct Lowering<'a> {
    pub(super) loaded: &'a Loaded<'a>,
    pub(super) options: Options,
    /// The handoffs of each step in decoding passes on matrix cores.
    handoffs: Vec<Handoff>,
    kernels: &'a mut KernelCache,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(
        loaded: &'a Loaded<'a>,
        options: Options,
        kernels: &'a mut KernelCache,
    ) -> Self {
        let handoffs = handoffs(loaded.plan, &|id| loaded.on_cores(id));
        Self { loaded, options, handoffs, kernels }
    }

    /// The dispatches of each step for passes of a row class. A pass that is `alone` has a single
    /// row, which is selected. The steps of an encoder, and of parts of the host, have dispatches
    /// in the class of prompts alone.
    ///
    /// # Errors
    /// If a kernel cannot be made or bound.
    pub(crate) fn steps(
        &mut self,
        class: RowClass,
        alone: bool,
    ) -> Result<Vec<Vec<Dispatch>>, Error> {
        let on_cores = matches!(class, RowClass::ThirtyTwo | RowClass::Many);
        let plan = self.loaded.plan;
        let encoder = plan.steps_of(Phase::Encode);
        let steps = plan.steps.iter().enumerate();
        steps
            .map(|(i, step)| {
                let of_host = plan.host.iter().any(|part| part.steps.contains(&i));
                if (of_host || encoder.contains(&i)) && class != RowClass::Prompt {
                    return Ok(Vec::new());
                }
                // the product before has applied the function
                if i > 0 && self.applied(i - 1, class).is_some() {
                    return Ok(Vec::new());
                }
                let handoff = if on_cores { self.handoffs[i] } else { Handoff::default() };
                let tuning = self.options.tunings.of(i);
                let activation = self.applied(i, class);
                self.step(Site { step, class, alone, tuning, activation, handoff })
            })
            .collect()
    }

    /// The function of the step after a product, if the kernel of the product applies it.
    fn applied(&self, i: usize, class: RowClass) -> Option<Activation> {
        let step = &self.loaded.plan.steps[i];
        let activation = activation_after(self.loaded.plan, i)?;
        let linear = match &step.op {
            Op::Linear(linear) => linear,
            Op::NormLinear { norm: _, linears } => linears.first()?,
            _ => return None,
        };
        let matrix = self.loaded.weights.matrix(linear.weight).ok()?;
        let operand = self.operand(matrix, class);
        let applies = matches!(operand, Operand::F16 | Operand::F32)
            && StepProducts::of(self.loaded.plan, step).is_none();
        applies.then_some(activation)
    }

    fn step(&mut self, site: Site<'_>) -> Result<Vec<Dispatch>, Error> {
        match StepProducts::of(self.loaded.plan, site.step).filter(|_| !self.options.dense) {
            Some(products) => self.effort_step(&products, site),
            None => self.dense_step(site),
        }
    }

    /// The dispatches of a step with matrices row by row.
    pub(super) fn dense_step(&mut self, site: Site<'_>) -> Result<Vec<Dispatch>, Error> {
        let Site { step, class, alone, .. } = site;
        let all = |ids: &[BufferId]| -> Vec<&'a wgpu::Buffer> {
            ids.iter().map(|&id| self.buffer(id, alone)).collect()
        };
        let (inputs, outputs) = (all(&step.inputs), all(&step.outputs));
        let (read, write) = (|i: usize| inputs[i], |i: usize| outputs[i]);
        let plan = self.loaded.plan;
        let width = |i: usize| plan.buffer(step.outputs[i]).width;
        match &step.op {
            Op::Embed { table } => self.embed(*table, write(0)),
            Op::AddTable { table, row } => self.add_table(*table, *row, write(0)),
            // rows without a token are never decoded
            Op::Inject { .. } if class != RowClass::Prompt => Ok(Vec::new()),
            Op::Inject { slice, adds } => {
                let slices = plan.injected.map_or(0, |of| of.slices);
                let op = RowOp::inject(width(0), [*slice, slices], *adds);
                let inputs = self.loaded.inputs;
                let buffers = [
                    ("places", &inputs.row_places),
                    ("embeddings", &inputs.embeddings),
                    ("x", write(0)),
                ];
                self.row_op(&op, buffers).map(one)
            }
            Op::Xielu(xielu) => {
                self.row_op(&RowOp::xielu(width(0), *xielu), [("x", write(0))]).map(one)
            }
            Op::Clamp { low, high } => {
                self.row_op(&RowOp::clamp(width(0), *low, *high), [("x", write(0))]).map(one)
            }
            Op::Norm(norm) => {
                let y = (step.inputs[0] != step.outputs[0]).then(|| write(0));
                self.norm(norm, 1, width(0), read(0), y)
            }
            Op::HeadNorm { norm, heads } => self.norm(norm, *heads, width(0), write(0), None),
            Op::Linear(linear) => {
                let (x, y) = (read(0), write(0));
                self.linear(site, &Projection { linear, norm: None, x, y, add: false })
            }
            Op::LinearAdd(linear) => {
                let (x, y) = (read(1), write(0));
                self.linear(site, &Projection { linear, norm: None, x, y, add: true })
            }
            Op::NormLinear { norm, linears } => {
                let (x, outputs) = (read(0), &outputs[..]);
                self.norm_linear(site, &NormedProjections { norm: Some(norm), linears, x, outputs })
            }
            Op::NormGlu { norm, gate, up, gating } => {
                let (x, outputs) = (read(0), &[write(0)][..]);
                let linears = &[*gate, *up];
                let all = NormedProjections { norm: Some(norm), linears, x, outputs };
                self.norm_glu(site, &all, gating)
            }
            Op::Add => {
                self.row_op(&RowOp::add(width(0)), [("x", write(0)), ("y", read(1))]).map(one)
            }
            Op::Glu(gating) => self.glu(gating, step, [read(0), read(1), write(0)]),
            Op::Activate(f) => {
                self.row_op(&RowOp::activate(width(0), *f), [("x", write(0))]).map(one)
            }
            Op::Scale(factor) => {
                self.row_op(&RowOp::scale(width(0), *factor), [("x", write(0))]).map(one)
            }
            Op::Softcap(cap) => {
                self.row_op(&RowOp::softcap(width(0), *cap), [("x", write(0))]).map(one)
            }
            Op::Temper { beta, interval, offset } => {
                let op = RowOp::temper(width(0), *beta, *interval, *offset);
                self.row_op(&op, [("rows", &self.loaded.inputs.rows), ("x", write(0))]).map(one)
            }
            Op::Copy(copy) => self.copy(copy, step, [read(0), write(0)]),
            Op::Pool(pooling) => self.pool(*pooling, width(0), [read(0), write(0)]),
            Op::ExpertScale { factors, used } => {
                let op = RowOp::expert_scale(width(0), *used);
                let factors = self.loaded.weights.vector(*factors)?;
                self.row_op(&op, [("x", write(0)), ("ids", read(1)), ("factors", factors)]).map(one)
            }
            Op::ExpertSum { used } => {
                let op = RowOp::expert_sum(width(0), *used, false);
                self.row_op(&op, [("x", read(0)), ("weights", read(1)), ("y", write(0))]).map(one)
            }
            Op::ExpertSumAdd { used } => {
                let op = RowOp::expert_sum(width(0), *used, true);
                self.row_op(&op, [("x", read(1)), ("weights", read(2)), ("y", write(0))]).map(one)
            }
            // the logits are copied from their own buffer
            Op::Select if alone && step.outputs[0] != plan.logits => Ok(Vec::new()),
            Op::Select => {
                let selected = &self.loaded.inputs.selected;
                let buffers = [("x", read(0)), ("selected", selected), ("y", write(0))];
                self.row_op(&RowOp::select(width(0)), buffers).map(one)
            }
            Op::Rope { rope, heads } => self.rope(*rope, *heads, step.outputs[0]).map(one),
            Op::Store { cache } => self.store(*cache, read(0), inputs.get(1).copied()).map(one),
            Op::RopeStore(op) => self.rope_store(op, [read(0), read(1), read(2)]).map(one),
            Op::Attend(op) => self.attend(op, read(0), write(0), class),
            Op::RopeAttend(op, attend) => {
                self.rope_attend(site, (op, attend), [read(0), read(1), read(2)], write(0))
            }
            Op::Adapters(Adapters { count: _, used }) => {
                let inputs = self.loaded.inputs;
                let buffers = [
                    ("rows", &inputs.rows),
                    ("adapters", &inputs.adapters),
                    ("ids", write(0)),
                    ("weights", write(1)),
                ];
                self.row_op(&RowOp::adapters(*used), buffers).map(one)
            }
            Op::Route(op) => self.route(op, read(0), [write(0), write(1)]).map(one),
            Op::ExpertLinear(linear) => {
                self.expert_linear(site, linear, [read(0), read(1), write(0)])
            }
            Op::ExpertGlu { gate, up, gating } => {
                let buffers = [read(0), read(1), write(0)];
                self.expert_glu(site, [gate, up], gating, buffers)
            }
            Op::HeadLinear { weight, heads } => {
                self.head_linear(site, *weight, *heads, [read(0), write(0)])
            }
            Op::ShortConv(conv) => self.short_conv(conv, width(0), write(0)).map(one),
            Op::GatedDelta(delta) => self.gated_delta(delta, &inputs, write(0)),
            Op::SelectiveScan(scan) => self.selective_scan(scan, [read(0), read(1), write(0)]),
        }
    }

    /// A plan's buffer; with `alone`, that of all rows in place of that of the selected ones.
    pub(super) fn buffer(&self, id: BufferId, alone: bool) -> &'a wgpu::Buffer {
        let source = self.loaded.plan.steps.iter().find_map(|step| match step.op {
            Op::Select if step.outputs[0] == id => Some(step.inputs[0]),
            _ => None,
        });
        match source {
            Some(source) if alone && id != self.loaded.plan.logits => {
                &self.loaded.buffers[source.0]
            }
            _ => &self.loaded.buffers[id.0],
        }
    }

    pub(super) fn call(
        &mut self,
        label: &str,
        source: &KernelSource,
        buffers: &BufferList<'_>,
        grid: Grid,
    ) -> Result<Dispatch, Error> {
        let buffers = buffers.in_order(label, source)?;
        let kernel = self.kernels.of(self.loaded.device, label, source);
        let bindings = self.loaded.device.bind(label, &kernel, &buffers)?;
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
