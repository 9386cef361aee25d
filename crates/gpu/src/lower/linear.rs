//! Matrix products: which kernels run them, on activations in which form.

use pelton_graph::{Error, Gating, Linear, Norm, NormKind, WeightId};

use crate::{
    device::BufferList,
    kernels::{
        matvec::{FusedMatrix, MatVec, Tuning},
        matvec_rows::MatVecRows,
        row_ops::{GluOutput, RowOp},
        to_f16::{HalvedNorm, ToF16},
        to_q8::ToQ8,
    },
    lower::{
        dispatch::{Dispatch, Grid, RowClass},
        handoff::{fuses, gates},
        loaded::Loaded,
        lowering::{Lowering, one, refused},
        operand::Operand,
        projection::{NormedProjections, Projection},
        site::Site,
    },
    weights::Matrix,
};

impl<'a> Lowering<'a> {
    /// A product, after a norm where there is one.
    pub(super) fn linear(
        &mut self,
        site: Site<'_>,
        of: &Projection<'_>,
    ) -> Result<Vec<Dispatch>, Error> {
        let matrix = self.loaded.weights.matrix(of.linear.weight)?;
        let operand = self.operand(matrix, site.class);
        let mut calls = match site.handoff.finds_halves {
            true => Vec::new(),
            false => self.prepare(site, operand, of.norm, of.x, [matrix.row_len, 1])?,
        };
        calls.extend(self.product(site, operand, of)?);
        Ok(calls)
    }

    /// A product of prepared activations.
    fn product(
        &mut self,
        site: Site<'_>,
        operand: Operand,
        of: &Projection<'_>,
    ) -> Result<Vec<Dispatch>, Error> {
        match operand {
            Operand::F32 => self.matvec(site, of),
            Operand::Q8 if site.class != RowClass::Prompt => self.matvec_rows(site, of),
            Operand::Q8 | Operand::Normed => self.tiled_matmul(site, of),
            Operand::F16 => self.matmul(site, of),
        }
    }

    /// A product of few rows.
    fn matvec(&mut self, site: Site<'_>, of: &Projection<'_>) -> Result<Vec<Dispatch>, Error> {
        let Projection { linear, norm, x, y, add } = *of;
        let matrix = self.loaded.weights.matrix(linear.weight)?;
        let mut calls = Vec::with_capacity(matrix.shards.len());
        for shard in &matrix.shards {
            let spec = MatVec {
                bias: linear.bias.is_some(),
                activation: site.activation,
                add,
                ..self.spec(site, linear.weight, matrix, shard.rows.clone(), norm)
            };
            let pass = &self.loaded.inputs.pass;
            let mut buffers = BufferList::of([("x", x), ("y", y), ("pass_info", pass)]);
            if let Some(norm) = norm {
                buffers.add("norm_weight", self.rms_weight(norm)?);
            }
            if let Some(bias) = linear.bias {
                buffers.add("bias", self.loaded.weights.vector(bias)?);
            }
            buffers.extend(matrix.planes(shard, 0));
            calls.push(self.matvec_call(site, &spec, &buffers)?);
        }
        Ok(calls)
    }

    /// A product of several rows of quantized activations.
    fn matvec_rows(&mut self, site: Site<'_>, of: &Projection<'_>) -> Result<Vec<Dispatch>, Error> {
        let Projection { linear, norm, x: _, y, add } = *of;
        let matrix = self.loaded.weights.matrix(linear.weight)?;
        let mut calls = Vec::with_capacity(matrix.shards.len());
        for shard in &matrix.shards {
            let spec = MatVecRows {
                norm: norm.is_some(),
                bias: linear.bias.is_some(),
                add,
                ..self.rows_spec(site, linear.weight, matrix, shard.rows.clone())
            };
            let mut buffers = BufferList::of([("y", y)]);
            if let Some(bias) = linear.bias {
                buffers.add("bias", self.loaded.weights.vector(bias)?);
            }
            buffers.extend(matrix.planes(shard, 0));
            calls.push(self.matvec_rows_call(&spec, buffers)?);
        }
        Ok(calls)
    }

    /// A call of `matvec_rows.wgsl`. `buffers` are y, the bias and the planes.
    fn matvec_rows_call<'b>(
        &mut self,
        spec: &MatVecRows,
        mut buffers: BufferList<'b>,
    ) -> Result<Dispatch, Error>
    where
        'a: 'b,
    {
        let Loaded { scratch, inputs, device, .. } = *self.loaded;
        buffers.add("q8_codes", &scratch.codes);
        buffers.add("q8_scales", &scratch.scales);
        buffers.add("pass_info", &inputs.pass);
        if spec.norm {
            buffers.add("factors", &scratch.factors);
        }
        let (source, x) = (spec.source(&device.capabilities)?, spec.groups(&device.capabilities));
        let grid = Grid::Rows { x, batch: spec.batch as u32 };
        let label = format!("matvec_rows {} {}x{}", spec.layout.dtype, spec.rows, spec.k);
        self.call(&label, &source, &buffers, grid)
    }

    /// Products that all read one norm.
    pub(super) fn norm_linear(
        &mut self,
        site: Site<'_>,
        all: &NormedProjections<'_>,
    ) -> Result<Vec<Dispatch>, Error> {
        if let Some(norm) = all.norm.filter(|norm| norm.kind == NormKind::Layer)
            && !self.halves_all(site, all.linears)?
        {
            let normed = &self.loaded.scratch.normed;
            let width = self.loaded.plan.buffer(site.step.inputs[0]).width;
            let mut calls = self.norm(norm, 1, width, all.x, Some(normed))?;
            let all = NormedProjections { norm: None, x: normed, ..*all };
            calls.extend(self.norm_linear(site, &all)?);
            return Ok(calls);
        }
        if let Some(call) = self.side_by_side(site, all)? {
            return Ok(vec![call]);
        }
        if self.fuses_on_cores(site, all.linears) {
            return self.fused_matmul(site, all, None);
        }
        let mut calls = self.prepare_once(site, all)?;
        let products = self.products_of_prepared(site, all)?;
        // K splits share one buffer of partial sums
        calls.extend(match site.class {
            RowClass::ThirtyTwo | RowClass::Many | RowClass::Prompt => products,
            _ => concurrent(products),
        });
        Ok(calls)
    }

    /// Whether all products take activations in 16 bits, the one form that a
    /// LayerNorm has a kernel for.
    fn halves_all(&self, site: Site<'_>, linears: &[Linear]) -> Result<bool, Error> {
        for linear in linears {
            let matrix = self.loaded.weights.matrix(linear.weight)?;
            if self.operand(matrix, site.class) != Operand::F16 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The activations of products, in each form that one of them takes.
    fn prepare_once(
        &mut self,
        site: Site<'_>,
        all: &NormedProjections<'_>,
    ) -> Result<Vec<Dispatch>, Error> {
        let mut operands = Vec::new();
        let mut calls = Vec::with_capacity(1);
        for linear in all.linears {
            let matrix = self.loaded.weights.matrix(linear.weight)?;
            let operand = self.operand(matrix, site.class);
            if !operands.contains(&operand) {
                let k = matrix.row_len;
                calls.extend(match operand {
                    Operand::F16 => self.complete(site, all.norm, all.x, k)?,
                    _ => self.prepare(site, operand, all.norm, all.x, [k, 1])?,
                });
                operands.push(operand);
            }
        }
        Ok(calls)
    }

    /// Products of prepared activations; those of a prompt run in one dispatch where they can.
    fn products_of_prepared(
        &mut self,
        site: Site<'_>,
        all: &NormedProjections<'_>,
    ) -> Result<Vec<Dispatch>, Error> {
        let &NormedProjections { norm, linears, x, outputs } = all;
        let mut calls = Vec::with_capacity(linears.len());
        let mut first = 0;
        while let Some((linear, y)) = linears.get(first).zip(outputs.get(first)) {
            let operand = self.operand(self.loaded.weights.matrix(linear.weight)?, site.class);
            let suits = |other: &&Linear| self.fuses_in_prompts(linear, other);
            let count = match operand {
                Operand::F16 if site.class == RowClass::Prompt => {
                    1 + linears[first + 1..].iter().take_while(suits).take(2).count()
                }
                _ => 1,
            };
            let run = first..first + count;
            calls.extend(match count {
                1 => {
                    let of = Projection { linear, norm, x, y, add: false };
                    self.product(site, operand, &of)?
                }
                _ => self.prompt_matmul(site, &linears[run.clone()], &outputs[run], false)?,
            });
            first += count;
        }
        Ok(calls)
    }

    /// Whether two products of rows of a prompt can run in one dispatch.
    fn fuses_in_prompts(&self, linear: &Linear, other: &Linear) -> bool {
        let matrix = |linear: &Linear| self.loaded.weights.matrix(linear.weight);
        let (Ok(first), Ok(second)) = (matrix(linear), matrix(other)) else { return false };
        let single = first.shards.len() == 1 && second.shards.len() == 1;
        // a plan with an encoder has biases in its attention
        let plain = linear.bias.is_none() && other.bias.is_none();
        let suits = plain || self.loaded.plan.encoder.is_some();
        suits && single && first.layout == second.layout
    }

    /// One call for two or three products of few rows that read one norm, if their matrices are of
    /// formats that suit each other.
    ///
    /// As calls of their own they would not depend on each other, but wgpu has each wait for what
    /// was before it. A buffer that was read is only written behind a barrier. Many rows make that
    /// little of the time, and one kernel for all of it would take a driver long to compile.
    fn side_by_side(
        &mut self,
        site: Site<'_>,
        all: &NormedProjections<'_>,
    ) -> Result<Option<Dispatch>, Error> {
        let &NormedProjections { norm, linears, x, outputs } = all;
        let ([first, _] | [first, _, _]) = *linears else { return Ok(None) };
        if !matches!(site.class, RowClass::One | RowClass::Two | RowClass::Four) {
            return Ok(None);
        }
        // where some have a bias, the others have zeros
        let biased = linears.iter().any(|linear| linear.bias.is_some());
        let matrix = self.loaded.weights.matrix(first.weight)?;
        if self.operand(matrix, site.class) != Operand::F32 {
            return Ok(None);
        }
        let mut sides = Vec::with_capacity(linears.len());
        for linear in linears {
            let other = self.loaded.weights.matrix(linear.weight)?;
            let suits =
                other.layout == matrix.layout || (other.layout.blocks() && matrix.layout.blocks());
            if !suits || other.shards.len() > 1 {
                return Ok(None);
            }
            let rows = self.loaded.plan.weight(linear.weight).rows;
            sides.push(FusedMatrix { layout: other.layout, rows });
        }
        let spec = MatVec {
            bias: biased,
            fused_with: [1, 2].map(|i| sides.get(i).copied()),
            ..self.spec(site, first.weight, matrix, 0..sides[0].rows, norm)
        };
        let source = spec.source(&self.loaded.device.capabilities)?;
        if !self.loaded.device.capabilities.binds(source.bindings().len()) {
            return Ok(None);
        }
        let mut buffers = BufferList::of([("x", x), ("pass_info", &self.loaded.inputs.pass)]);
        if let Some(norm) = norm {
            buffers.add("norm_weight", self.rms_weight(norm)?);
        }
        for (i, (linear, y)) in linears.iter().zip(outputs).enumerate() {
            // the names of the first matrix have no number
            let of = |name: &str| if i > 0 { format!("{name}{i}") } else { name.to_owned() };
            buffers.add(of("y"), y);
            if biased {
                buffers.add(of("bias"), self.bias_or_zeros(linear)?);
            }
            buffers.extend(self.loaded.weights.matrix(linear.weight)?.whole_planes(i));
        }
        self.matvec_call(site, &spec, &buffers).map(Some)
    }

    /// The bias of a product, or zeros.
    pub(super) fn bias_or_zeros(&self, linear: &Linear) -> Result<&'a wgpu::Buffer, Error> {
        match linear.bias {
            Some(bias) => self.loaded.weights.vector(bias),
            None => Ok(&self.loaded.scratch.zeros),
        }
    }

    /// The form in which a product takes its activations.
    pub(super) fn operand(&self, matrix: &Matrix, class: RowClass) -> Operand {
        Operand::of(matrix, class, &self.loaded.device.capabilities)
    }

    /// The factors of a norm before products, which is a plain root-mean-square norm.
    pub(super) fn rms_weight(&self, norm: &Norm) -> Result<&'a wgpu::Buffer, Error> {
        let weight = norm.rms_weight().ok_or_else(|| refused("a fused norm that is no RMSNorm"))?;
        self.loaded.weights.vector(weight)
    }

    /// Brings activations to the form that products take: `per_row` rows of `k`
    /// elements of each row.
    pub(super) fn prepare(
        &mut self,
        site: Site<'_>,
        operand: Operand,
        norm: Option<&Norm>,
        x: &wgpu::Buffer,
        [k, per_row]: [usize; 2],
    ) -> Result<Vec<Dispatch>, Error> {
        match operand {
            Operand::F32 => Ok(Vec::new()),
            Operand::Normed => match norm {
                Some(norm) => self.norm(norm, 1, k, x, Some(&self.loaded.scratch.normed)),
                None => Ok(Vec::new()),
            },
            Operand::F16 => self.halve(norm, x, [k, per_row]).map(one),
            Operand::Q8 => self.quantize(site, norm, x, [k, per_row]).map(one),
        }
    }

    /// Activations in 8 bits.
    fn quantize(
        &mut self,
        site: Site<'_>,
        norm: Option<&Norm>,
        x: &wgpu::Buffer,
        [k, per_row]: [usize; 2],
    ) -> Result<Dispatch, Error> {
        let (norm_eps, threads) = (norm.map(|norm| norm.eps), site.tuning.threads);
        let quantize = ToQ8 { k, per_row, norm: norm_eps, threads };
        let scratch = self.loaded.scratch;
        let to = [("codes", &scratch.codes), ("scales", &scratch.scales)];
        let mut buffers = BufferList::of([("x", x)].into_iter().chain(to));
        if let Some(norm) = norm {
            buffers.add("factors", &scratch.factors);
            buffers.add("norm_weight", self.rms_weight(norm)?);
        }
        let source = quantize.source(&self.loaded.device.capabilities)?;
        self.call("to_q8", &source, &buffers, rows_times(per_row))
    }

    /// Activations for matrix cores.
    fn halve(
        &mut self,
        norm: Option<&Norm>,
        x: &wgpu::Buffer,
        [k, per_row]: [usize; 2],
    ) -> Result<Dispatch, Error> {
        let prepare = ToF16 { k, per_row, norm: norm.map(HalvedNorm::of), partial: None };
        let mut buffers = BufferList::of([("x", x), ("a", &self.loaded.scratch.halves)]);
        if let Some(norm) = norm {
            self.add_norm(&mut buffers, norm)?;
        }
        let source = prepare.source(&self.loaded.device.capabilities)?;
        self.call("to_f16", &source, &buffers, rows_times(per_row))
    }

    /// Adds the factors and the summands of a norm before a conversion to f16.
    pub(super) fn add_norm<'b>(
        &self,
        buffers: &mut BufferList<'b>,
        norm: &Norm,
    ) -> Result<(), Error>
    where
        'a: 'b,
    {
        let factors = norm.weight.ok_or_else(|| refused("a fused norm without factors"))?;
        buffers.add("norm_weight", self.loaded.weights.vector(factors)?);
        if let Some(bias) = norm.bias {
            buffers.add("norm_bias", self.loaded.weights.vector(bias)?);
        }
        Ok(())
    }

    /// Gate and up in one kernel where they are of one type, else one after the other.
    pub(super) fn norm_glu(
        &mut self,
        site: Site<'_>,
        all: &NormedProjections<'_>,
        gating: &Gating,
    ) -> Result<Vec<Dispatch>, Error> {
        let &NormedProjections { norm, linears, x, outputs } = all;
        let ([gate, up], [g]) = (linears, outputs) else {
            return Err(refused("a gated product of other than a gate and its value"));
        };
        let weights = self.loaded.weights;
        let (gates, ups) = (weights.matrix(gate.weight)?, weights.matrix(up.weight)?);
        let rows = |m: &Matrix| m.shards.iter().map(|s| s.rows.clone()).collect::<Vec<_>>();
        let plain = gate.bias.is_none() && up.bias.is_none();
        let alike = gates.layout == ups.layout && rows(gates) == rows(ups) && plain;
        let operand = self.operand(gates, site.class);
        if self.gates_on_cores(site, [gate, up]) {
            return self.fused_matmul(site, all, Some(gating));
        }
        if !alike || operand == Operand::F16 || site.class == RowClass::Prompt {
            let width = self.loaded.plan.weight(up.weight).rows;
            let up = &self.loaded.scratch.up;
            let outputs = &[*g, up];
            let mut calls = self.norm_linear(site, &NormedProjections { outputs, ..*all })?;
            let glu = RowOp::glu(width, gating, width, GluOutput::Gate);
            calls.push(self.row_op(&glu, [("gate", *g), ("up", up)])?);
            return Ok(calls);
        }
        let mut calls = self.prepare(site, operand, norm, x, [gates.row_len, 1])?;
        for (gate_shard, up_shard) in gates.shards.iter().zip(&ups.shards) {
            let rows = gate_shard.rows.clone();
            let mut buffers = BufferList::of([("y", *g)]);
            buffers.extend(gates.planes(gate_shard, 0).chain(ups.planes(up_shard, 1)));
            if operand == Operand::Q8 {
                let spec = self.rows_spec(site, gate.weight, gates, rows);
                let spec = MatVecRows { norm: true, glu: Some(*gating), ..spec };
                calls.push(self.matvec_rows_call(&spec, buffers)?);
                continue;
            }
            let spec = self.spec(site, gate.weight, gates, rows, norm);
            let spec = MatVec { glu: Some(*gating), ..spec };
            buffers.add("x", x);
            buffers.add("pass_info", &self.loaded.inputs.pass);
            if let Some(norm) = norm {
                buffers.add("norm_weight", self.rms_weight(norm)?);
            }
            calls.push(self.matvec_call(site, &spec, &buffers)?);
        }
        Ok(calls)
    }

    /// Whether products of the same activations run in one dispatch on matrix cores.
    fn fuses_on_cores(&self, site: Site<'_>, linears: &[Linear]) -> bool {
        site.class.decodes_on_cores() && fuses(linears, &|id| self.loaded.on_cores(id))
    }

    /// Whether a gate and its value run in one dispatch on matrix cores.
    fn gates_on_cores(&self, site: Site<'_>, linears: [&Linear; 2]) -> bool {
        site.class.decodes_on_cores() && gates(linears, &|id| self.loaded.on_cores(id))
    }

    fn rows_spec(
        &self,
        site: Site<'_>,
        weight: WeightId,
        matrix: &Matrix,
        rows: std::ops::Range<usize>,
    ) -> MatVecRows {
        MatVecRows {
            layout: matrix.layout,
            k: matrix.row_len,
            rows: rows.len(),
            offset: rows.start,
            stride: self.loaded.plan.weight(weight).rows,
            batch: site.class.batch().min(self.loaded.device.capabilities.batch),
            norm: false,
            bias: false,
            add: false,
            glu: None,
            count_at: self.loaded.count_at(site),
            experts: None,
        }
    }

    fn spec(
        &self,
        site: Site<'_>,
        weight: WeightId,
        matrix: &Matrix,
        rows: std::ops::Range<usize>,
        norm: Option<&Norm>,
    ) -> MatVec {
        MatVec {
            layout: matrix.layout,
            k: matrix.row_len,
            rows: rows.len(),
            offset: rows.start,
            stride: self.loaded.plan.weight(weight).rows,
            batch: site.class.batch().min(self.loaded.device.capabilities.batch),
            norm: norm.map(|norm| norm.eps),
            bias: false,
            activation: None,
            add: false,
            glu: None,
            fused_with: [None; 2],
            count_at: self.loaded.count_at(site),
            experts: None,
            // the threads decide the order in which a norm's squares are summed, so they are the
            // same for any number of rows
            tuning: Tuning { threads: site.tuning.threads, ..Tuning::CANDIDATES[0] },
        }
    }

    fn matvec_call(
        &mut self,
        site: Site<'_>,
        spec: &MatVec,
        buffers: &BufferList<'_>,
    ) -> Result<Dispatch, Error> {
        let capabilities = &self.loaded.device.capabilities;
        let tuned = MatVec { tuning: site.tuning, ..*spec };
        let tunes = self.options.phases.is_some() || (spec.batch == 1 && spec.uneven(capabilities));
        let spec = if tunes { &tuned } else { spec };
        let (source, groups) = (spec.source(capabilities)?, spec.groups(capabilities));
        let groups = Grid::Rows { x: groups, batch: spec.batch as u32 };
        self.call(&spec.label(), &source, buffers, groups)
    }
}

/// A workgroup for each of `per_row` parts of each row.
const fn rows_times(per_row: usize) -> Grid {
    match per_row {
        1 => Grid::Row,
        times => Grid::RowTimes(times as u32),
    }
}

/// Marks dispatches that write different buffers and read none of them.
fn concurrent(mut calls: Vec<Dispatch>) -> Vec<Dispatch> {
    for call in calls.iter_mut().skip(1) {
        call.concurrent = true;
    }
    calls
}
