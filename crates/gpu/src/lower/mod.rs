//! From a plan's steps to kernel calls: which kernels, on which buffers, in how many workgroups.

mod heads;

pub(crate) use heads::Cache;

use std::{collections::HashMap, sync::Arc};

use pelton_graph::{
    BufferId, Error, KvType, Linear as LinearOp, Norm, Op, Plan, Rows, Step, WeightId,
};

use pelton_quant::DType;

use crate::{
    attention::Attention,
    device::{Access, Device, Kernel},
    linear::{Beside, Linear, Tuning},
    matmul::{Matmul, Tile},
    prepare::{Prepare, padded},
    simple::Simple,
    tuning::CANDIDATES,
    weights::{Matrix, Weights},
};

/// Rows of a pass that are not yet many.
pub(crate) const MANY: usize = 16;

/// For how many rows a step's calls were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    One,
    Few,
    Several,
    /// Enough for matrix cores, where there are any.
    Many,
}

impl Class {
    pub(crate) const ALL: [Self; 4] = [Self::One, Self::Few, Self::Several, Self::Many];

    /// The class for `rows` rows.
    pub(crate) const fn of(rows: usize) -> Self {
        match rows {
            0..=1 => Self::One,
            2..=4 => Self::Few,
            5..=MANY => Self::Several,
            _ => Self::Many,
        }
    }

    /// Rows that share one reading of the weights.
    const fn batch(self) -> usize {
        match self {
            Self::One => 1,
            Self::Few => 4,
            Self::Several | Self::Many => MANY,
        }
    }
}

/// One dispatch.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) bindings: wgpu::BindGroup,
    groups: Groups,
    /// Whether it works beside the call before it, and need not wait for it.
    pub(crate) beside: bool,
}

/// How many workgroups a call needs.
#[derive(Clone, Copy, Debug)]
enum Groups {
    /// So many along x, and along y one for each `batch` rows.
    Rows { x: u32, batch: u32 },
    /// As [`Tile::groups`] says for a matrix of so many rows.
    Tiles(Tile, usize),
    /// One for each row.
    Row,
    /// Those of few rows' attention, if positions are not shared out in parts.
    Whole(Attention),
    /// The same, if they are.
    Split(Attention),
    /// Those that join such parts; none if there is one.
    Merged(Attention),
    /// Those of many rows' attention.
    Tiled(Attention),
}

/// What the workgroups of a call depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Rows of the step.
    pub(crate) rows: usize,
    /// All rows are at positions below it.
    pub(crate) bound: usize,
    /// Tiles of attention that the rows are cut into.
    pub(crate) tiles: usize,
}

impl Call {
    /// The workgroups for the rows of a pass; `None` if there is nothing to do.
    pub(crate) fn groups(&self, extent: &Extent) -> Option<[u32; 3]> {
        let &Extent { rows, bound, tiles } = extent;
        Some(match self.groups {
            Groups::Rows { x, batch } => [x, (rows as u32).div_ceil(batch), 1],
            Groups::Tiles(tile, outputs) => tile.groups(rows, outputs),
            Groups::Row => [rows as u32, 1, 1],
            Groups::Whole(attention) => match attention.splits(rows, bound) {
                1 => attention.few_groups(rows, 1),
                _ => return None,
            },
            Groups::Split(attention) => match attention.splits(rows, bound) {
                1 => return None,
                splits => attention.few_groups(rows, splits),
            },
            Groups::Merged(attention) => match attention.splits(rows, bound) {
                1 => return None,
                _ => attention.merge_groups(rows),
            },
            Groups::Tiled(attention) => attention.many_groups(tiles),
        })
    }
}

/// What calls are made of.
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
    /// The turns of each rotation.
    pub(crate) turns: &'a [wgpu::Buffer],
    /// Rows of a pass, at most.
    pub(crate) rows: usize,
    /// How products of one row are shared out, where that is not plain.
    pub(crate) tuning: Tuning,
    /// Kernels that were compiled, by their source.
    pub(crate) kernels: HashMap<String, Arc<Kernel>>,
}

/// What the host says of a pass.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// The numbers of all rows and of the selected ones.
    pub(crate) pass: wgpu::Buffer,
    /// Token, position and sequence of each row.
    pub(crate) rows: wgpu::Buffer,
    /// The numbers of the selected rows.
    pub(crate) selected: wgpu::Buffer,
    /// The page tables, of `table` pages each.
    pub(crate) tables: wgpu::Buffer,
    pub(crate) table: usize,
    /// The tiles of attention: first row and number of rows.
    pub(crate) tiles: wgpu::Buffer,
}

/// What kernels leave for each other within one step.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Prepared activations of a product on matrix cores.
    pub(crate) halves: wgpu::Buffer,
    /// What a gate lets through.
    pub(crate) up: wgpu::Buffer,
    /// Parts of attention that are still to be joined.
    pub(crate) parts: wgpu::Buffer,
}

impl Scratch {
    pub(crate) fn new(
        device: &Device,
        plan: &Plan,
        rows: usize,
        parts: usize,
    ) -> Result<Self, Error> {
        let matrices = plan.weights.iter().filter(|weight| weight.rows > 1);
        let longest = matrices.map(|weight| padded(weight.row_len)).max().unwrap_or(0);
        let halves = if device.abilities.matrix_cores { rows * longest } else { 0 };
        let ups = plan.steps.iter().filter_map(|step| match &step.op {
            Op::NormGlu { up, .. } => Some(plan.weight(up.weight).rows),
            _ => None,
        });
        Ok(Self {
            halves: device.buffer("prepared activations", 2 * halves as u64)?,
            up: device.buffer("up", 4 * (rows * ups.max().unwrap_or(0)) as u64)?,
            parts: device.buffer("parts of attention", 4 * parts as u64)?,
        })
    }
}

impl<'a> Lowering<'a> {
    /// The calls of one step for rows of that class.
    ///
    /// With `alone`, the pass has a single row, which is selected: then what is selected is what
    /// there is, and nothing need be copied.
    pub(crate) fn step(
        &mut self,
        step: &Step,
        class: Class,
        alone: bool,
    ) -> Result<Vec<Call>, Error> {
        let all = |ids: &[BufferId]| -> Vec<&'a wgpu::Buffer> {
            ids.iter().map(|&id| self.buffer(id, alone)).collect()
        };
        let (inputs, outputs) = (all(&step.inputs), all(&step.outputs));
        let (read, write) = (|i: usize| inputs[i], |i: usize| outputs[i]);
        let plan = self.plan;
        let width = |i: usize| plan.buffer(step.outputs[i]).width;
        match &step.op {
            Op::Embed { table } => self.embed(*table, write(0)),
            Op::Norm(norm) => self.norm(norm, read(0), write(0), width(0)),
            Op::HeadNorm { norm, heads } => {
                let simple = Simple::norm(width(0) / heads, *heads, norm.eps, true);
                let weight = self.weights.vector(norm.weight)?;
                self.simple(&simple, &[write(0), weight]).map(one)
            }
            Op::Linear(linear) => self.linear(linear, None, read(0), write(0), step, false, class),
            Op::LinearAdd(linear) => {
                self.linear(linear, None, read(1), write(0), step, true, class)
            }
            Op::NormLinear { norm, linears } => {
                self.norm_linear(norm, linears, read(0), &outputs, step, class)
            }
            Op::NormGlu { norm, gate, up, .. } => {
                self.norm_glu(norm, [gate, up], read(0), write(0), step, class)
            }
            Op::Add => self.simple(&Simple::add(width(0)), &[write(0), read(1)]).map(one),
            Op::Glu(_) => {
                self.simple(&Simple::glu(width(0)), &[read(0), read(1), write(0)]).map(one)
            }
            Op::Select if alone => Ok(Vec::new()),
            Op::Select => {
                let buffers = [read(0), &self.inputs.selected, write(0)];
                self.simple(&Simple::select(width(0)), &buffers).map(one)
            }
            Op::Rope { rope, heads } => self.rope(*rope, *heads, step.outputs[0]).map(one),
            Op::Store { cache } => self.store(*cache, [read(0), read(1)]).map(one),
            Op::RopeStore(op) => self.rope_store(op, [read(0), read(1), read(2)]).map(one),
            Op::Attend(op) => self.attend(op, read(0), write(0), class),
            Op::RopeAttend(op, attend) => {
                self.rope_attend(op, attend, [read(0), read(1), read(2)], write(0), class)
            }
        }
    }

    /// A plan's buffer, or where its content is anyway.
    fn buffer(&self, id: BufferId, alone: bool) -> &'a wgpu::Buffer {
        let source = self.plan.steps.iter().find_map(|step| match step.op {
            Op::Select if step.outputs[0] == id => Some(step.inputs[0]),
            _ => None,
        });
        match source {
            Some(source) if alone => &self.buffers[source.0],
            _ => &self.buffers[id.0],
        }
    }

    fn embed(&mut self, table: WeightId, x: &wgpu::Buffer) -> Result<Vec<Call>, Error> {
        let matrix = self.weights.matrix(table)?;
        let mut calls = Vec::with_capacity(matrix.parts.len());
        for part in &matrix.parts {
            let (first, rows) = (part.rows.start, part.rows.len());
            let simple = Simple::embed(&matrix.layout, matrix.row_len, first, rows);
            let mut buffers = whole(&[&self.inputs.rows, x]);
            buffers.extend(part.bindings());
            calls.push(self.call(
                &simple.source()?,
                simple.bindings(),
                "embed",
                &buffers,
                Groups::Rows { x: simple.groups, batch: 1 },
            )?);
        }
        Ok(calls)
    }

    fn norm(
        &mut self,
        norm: &Norm,
        x: &wgpu::Buffer,
        y: &wgpu::Buffer,
        width: usize,
    ) -> Result<Vec<Call>, Error> {
        let weight = self.weights.vector(norm.weight)?;
        self.simple(&Simple::norm(width, 1, norm.eps, false), &[x, y, weight]).map(one)
    }

    #[allow(clippy::too_many_arguments, reason = "one call each, of what differs between ops")]
    fn linear(
        &mut self,
        linear: &LinearOp,
        norm: Option<&Norm>,
        x: &wgpu::Buffer,
        y: &wgpu::Buffer,
        step: &Step,
        add: bool,
        class: Class,
    ) -> Result<Vec<Call>, Error> {
        let matrix = self.weights.matrix(linear.weight)?;
        if self.on_matrix_cores(matrix, class) {
            let mut calls = vec![self.prepare(norm, x, matrix.row_len)?];
            calls.extend(self.matmul(linear, y, step, add)?);
            return Ok(calls);
        }
        let mut calls = Vec::with_capacity(matrix.parts.len());
        for part in &matrix.parts {
            let spec = Linear {
                bias: linear.bias.is_some(),
                add,
                ..self.spec(linear.weight, matrix, part.rows.clone(), norm, step, class)
            };
            let mut buffers = whole(&[x, y, &self.inputs.pass]);
            if let Some(norm) = norm {
                buffers.push(self.weights.vector(norm.weight)?.as_entire_buffer_binding());
            }
            if let Some(bias) = linear.bias {
                buffers.push(self.weights.vector(bias)?.as_entire_buffer_binding());
            }
            buffers.extend(part.bindings());
            calls.push(self.linear_call(&spec, &buffers)?);
        }
        Ok(calls)
    }

    /// Products that all read one norm.
    fn norm_linear(
        &mut self,
        norm: &Norm,
        linears: &[LinearOp],
        x: &wgpu::Buffer,
        outputs: &[&wgpu::Buffer],
        step: &Step,
        class: Class,
    ) -> Result<Vec<Call>, Error> {
        if let Some(call) = self.side_by_side(norm, linears, x, outputs, step, class)? {
            return Ok(vec![call]);
        }
        let mut prepared = Vec::new();
        let mut calls = Vec::with_capacity(linears.len() + 1);
        for (linear, y) in linears.iter().zip(outputs) {
            let matrix = self.weights.matrix(linear.weight)?;
            if self.on_matrix_cores(matrix, class) {
                if prepared.is_empty() {
                    prepared.push(self.prepare(Some(norm), x, matrix.row_len)?);
                }
                calls.extend(self.matmul(linear, y, step, false)?);
            } else {
                calls.extend(self.linear(linear, Some(norm), x, y, step, false, class)?);
            }
        }
        prepared.extend(beside(calls));
        Ok(prepared)
    }

    /// One call for two or three products of few rows that read one norm, if their matrices are of
    /// formats that suit each other.
    ///
    /// As calls of their own they would not depend on each other, but wgpu has each wait for what
    /// was before it: a buffer that was read is only written behind a barrier. With more rows that
    /// is little of the time, and one kernel for all of it would take a driver long to compile.
    fn side_by_side(
        &mut self,
        norm: &Norm,
        linears: &[LinearOp],
        x: &wgpu::Buffer,
        outputs: &[&wgpu::Buffer],
        step: &Step,
        class: Class,
    ) -> Result<Option<Call>, Error> {
        let ([first, _] | [first, _, _]) = *linears else { return Ok(None) };
        if matches!(class, Class::Several | Class::Many) {
            return Ok(None);
        }
        let matrix = self.weights.matrix(first.weight)?;
        let mut sides = Vec::with_capacity(linears.len());
        for linear in linears {
            let other = self.weights.matrix(linear.weight)?;
            let suits =
                other.layout == matrix.layout || (other.layout.blocks() && matrix.layout.blocks());
            let alike = suits && linear.bias.is_some() == first.bias.is_some();
            if !alike || other.parts.len() > 1 {
                return Ok(None);
            }
            let rows = self.plan.weight(linear.weight).rows;
            sides.push(Beside { layout: other.layout, rows });
        }
        let spec = Linear {
            bias: first.bias.is_some(),
            beside: [1, 2].map(|i| sides.get(i).copied()),
            ..self.spec(first.weight, matrix, 0..sides[0].rows, Some(norm), step, class)
        };
        let mut buffers = whole(&[x, outputs[0], &self.inputs.pass]);
        buffers.push(self.weights.vector(norm.weight)?.as_entire_buffer_binding());
        for (i, linear) in linears.iter().enumerate() {
            if i > 0 {
                buffers.push(outputs[i].as_entire_buffer_binding());
            }
            if let Some(bias) = linear.bias {
                buffers.push(self.weights.vector(bias)?.as_entire_buffer_binding());
            }
        }
        for linear in linears {
            let matrix = self.weights.matrix(linear.weight)?;
            buffers.extend(matrix.parts.iter().flat_map(|part| part.bindings()));
        }
        self.linear_call(&spec, &buffers).map(Some)
    }

    /// Whether a product of so many rows is one for matrix cores. Weights in 32 bits are not: they
    /// would be rounded to 16.
    fn on_matrix_cores(&self, matrix: &Matrix, class: Class) -> bool {
        class == Class::Many
            && self.device.abilities.matrix_cores
            && matrix.layout.dtype != DType::F32
    }

    /// Activations for matrix cores.
    fn prepare(&mut self, norm: Option<&Norm>, x: &wgpu::Buffer, k: usize) -> Result<Call, Error> {
        let prepare = Prepare { k, norm: norm.map(|norm| norm.eps) };
        let mut buffers = whole(&[x, &self.scratch.halves]);
        if let Some(norm) = norm {
            buffers.push(self.weights.vector(norm.weight)?.as_entire_buffer_binding());
        }
        let source = prepare.source()?;
        self.call(&source, &prepare.bindings(), "prepare", &buffers, Groups::Row)
    }

    /// A product of prepared activations.
    fn matmul(
        &mut self,
        linear: &LinearOp,
        y: &wgpu::Buffer,
        step: &Step,
        add: bool,
    ) -> Result<Vec<Call>, Error> {
        let matrix = self.weights.matrix(linear.weight)?;
        let selected = self.plan.buffer(step.outputs[0]).rows == Rows::Selected;
        let mut calls = Vec::with_capacity(matrix.parts.len());
        for part in &matrix.parts {
            let matmul = Matmul {
                layout: matrix.layout,
                k: matrix.row_len,
                rows: part.rows.len(),
                offset: part.rows.start,
                stride: self.plan.weight(linear.weight).rows,
                bias: linear.bias.is_some(),
                add,
                count_at: usize::from(selected),
            };
            let tile = matmul.tile(&self.device.abilities, self.rows);
            let mut buffers = whole(&[&self.scratch.halves, y, &self.inputs.pass]);
            if let Some(bias) = linear.bias {
                buffers.push(self.weights.vector(bias)?.as_entire_buffer_binding());
            }
            buffers.extend(part.bindings());
            let groups = Groups::Tiles(tile, matmul.rows);
            let source = matmul.source(&tile)?;
            calls.push(self.call(&source, &matmul.bindings(), "matmul", &buffers, groups)?);
        }
        Ok(calls)
    }

    /// Gate and up in one kernel, where they are of one type; one after the other where not.
    fn norm_glu(
        &mut self,
        norm: &Norm,
        [gate, up]: [&LinearOp; 2],
        x: &wgpu::Buffer,
        g: &wgpu::Buffer,
        step: &Step,
        class: Class,
    ) -> Result<Vec<Call>, Error> {
        let (gates, ups) = (self.weights.matrix(gate.weight)?, self.weights.matrix(up.weight)?);
        let rows = |m: &Matrix| m.parts.iter().map(|p| p.rows.clone()).collect::<Vec<_>>();
        let plain = gate.bias.is_none() && up.bias.is_none();
        let alike = gates.layout == ups.layout && rows(gates) == rows(ups) && plain;
        if !alike || self.on_matrix_cores(gates, class) {
            let width = self.plan.weight(up.weight).rows;
            let up_buffer = &self.scratch.up;
            let mut calls =
                self.norm_linear(norm, &[*gate, *up], x, &[g, up_buffer], step, class)?;
            calls.push(self.simple(&Simple::glu_in_place(width), &[g, up_buffer])?);
            return Ok(calls);
        }
        let mut calls = Vec::with_capacity(gates.parts.len());
        for (gate_part, up_part) in gates.parts.iter().zip(&ups.parts) {
            let spec = Linear {
                glu: true,
                ..self.spec(gate.weight, gates, gate_part.rows.clone(), Some(norm), step, class)
            };
            let mut buffers = whole(&[x, g, &self.inputs.pass, self.weights.vector(norm.weight)?]);
            buffers.extend(gate_part.bindings().chain(up_part.bindings()));
            calls.push(self.linear_call(&spec, &buffers)?);
        }
        Ok(calls)
    }

    fn spec(
        &self,
        weight: WeightId,
        matrix: &Matrix,
        rows: std::ops::Range<usize>,
        norm: Option<&Norm>,
        step: &Step,
        class: Class,
    ) -> Linear {
        let selected = self.plan.buffer(step.outputs[0]).rows == Rows::Selected;
        Linear {
            layout: matrix.layout,
            k: matrix.row_len,
            rows: rows.len(),
            offset: rows.start,
            stride: self.plan.weight(weight).rows,
            batch: class.batch().min(self.device.abilities.batch),
            norm: norm.map(|norm| norm.eps),
            bias: false,
            add: false,
            glu: false,
            beside: [None; 2],
            count_at: usize::from(selected),
            tuning: CANDIDATES[0],
        }
    }

    fn linear_call(
        &mut self,
        spec: &Linear,
        buffers: &[wgpu::BufferBinding<'_>],
    ) -> Result<Call, Error> {
        let abilities = &self.device.abilities;
        let tuned = Linear { tuning: self.tuning, ..*spec };
        let spec = if spec.batch == 1 && spec.uneven(abilities) { &tuned } else { spec };
        let (source, groups) = (spec.source(abilities)?, spec.groups(abilities));
        let groups = Groups::Rows { x: groups, batch: spec.batch as u32 };
        self.call(&source, &spec.bindings(), &spec.label(), buffers, groups)
    }

    fn simple(&mut self, simple: &Simple, buffers: &[&wgpu::Buffer]) -> Result<Call, Error> {
        let source = simple.source()?;
        let groups = Groups::Rows { x: simple.groups, batch: 1 };
        self.call(&source, simple.bindings(), simple.label, &whole(buffers), groups)
    }

    fn call(
        &mut self,
        source: &str,
        accesses: &[Access],
        label: &str,
        buffers: &[wgpu::BufferBinding<'_>],
        groups: Groups,
    ) -> Result<Call, Error> {
        let kernel = match self.kernels.get(source) {
            Some(kernel) => Arc::clone(kernel),
            None => {
                let kernel = Arc::new(self.device.kernel_to_compile(label, source, accesses));
                self.kernels.insert(source.to_owned(), Arc::clone(&kernel));
                kernel
            }
        };
        let bindings = self.device.bind(label, &kernel, buffers)?;
        Ok(Call { kernel, bindings, groups, beside: false })
    }
}

/// Calls that write different buffers and read none of them.
fn beside(mut calls: Vec<Call>) -> Vec<Call> {
    for call in calls.iter_mut().skip(1) {
        call.beside = true;
    }
    calls
}

fn one(call: Call) -> Vec<Call> {
    vec![call]
}

fn whole<'b>(buffers: &[&'b wgpu::Buffer]) -> Vec<wgpu::BufferBinding<'b>> {
    buffers.iter().map(|buffer| buffer.as_entire_buffer_binding()).collect()
}
