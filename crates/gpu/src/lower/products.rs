//! Matrix products: which kernels run them, on activations in which form.

use pelton_graph::{Error, Gating, Linear, Norm, Rows, Step, WeightId};
use pelton_quant::DType;

use crate::{
    kernels::{
        matvec::{FusedMatrix, MatVec, Tuning},
        matvec_rows::MatVecRows,
        row_ops::{Product, RowOp},
        to_f16::ToF16,
        to_q8::ToQ8,
    },
    lower::{
        dispatch::{Dispatch, Grid, RowBucket},
        lowering::{Lowering, one, refused, whole},
    },
    weights::Matrix,
};

/// The form in which a product takes its activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// As they are: the product quantizes or copies them itself.
    F32,
    /// In 8 bits, once for all products of several rows.
    Q8,
    /// In 16 bits, for matrix cores.
    F16,
    /// In f32 after the norm, for tiles of weights in floats.
    Normed,
}

impl<'a> Lowering<'a> {
    /// A product, after a norm where there is one.
    #[allow(clippy::too_many_arguments, reason = "each is what differs between ops")]
    pub(super) fn linear(
        &mut self,
        linear: &Linear,
        norm: Option<&Norm>,
        x: &wgpu::Buffer,
        y: &wgpu::Buffer,
        step: &Step,
        add: bool,
        bucket: RowBucket,
    ) -> Result<Vec<Dispatch>, Error> {
        let matrix = self.weights.matrix(linear.weight)?;
        let operand = self.operand(matrix, bucket);
        let mut calls = match self.halves_ready(step, bucket) {
            true => Vec::new(),
            false => self.prepare(operand, norm, x, matrix.row_len, 1)?,
        };
        calls.extend(self.product(operand, linear, norm, x, y, step, add, bucket)?);
        Ok(calls)
    }

    /// A product of prepared activations.
    #[allow(clippy::too_many_arguments, reason = "each is what differs between ops")]
    fn product(
        &mut self,
        operand: Operand,
        linear: &Linear,
        norm: Option<&Norm>,
        x: &wgpu::Buffer,
        y: &wgpu::Buffer,
        step: &Step,
        add: bool,
        bucket: RowBucket,
    ) -> Result<Vec<Dispatch>, Error> {
        match operand {
            Operand::F32 => self.matvec(linear, norm, x, y, step, add, bucket),
            Operand::Q8 if bucket != RowBucket::Prompt => {
                self.matvec_rows(linear, norm.is_some(), y, step, add, bucket)
            }
            Operand::Q8 | Operand::Normed => {
                self.tiled_matmul(linear, norm.is_some(), x, y, step, add)
            }
            Operand::F16 => self.matmul(linear, y, step, add, bucket),
        }
    }

    /// A product of few rows.
    #[allow(clippy::too_many_arguments, reason = "each is what differs between ops")]
    fn matvec(
        &mut self,
        linear: &Linear,
        norm: Option<&Norm>,
        x: &wgpu::Buffer,
        y: &wgpu::Buffer,
        step: &Step,
        add: bool,
        bucket: RowBucket,
    ) -> Result<Vec<Dispatch>, Error> {
        let matrix = self.weights.matrix(linear.weight)?;
        let mut calls = Vec::with_capacity(matrix.shards.len());
        for shard in &matrix.shards {
            let spec = MatVec {
                bias: linear.bias.is_some(),
                add,
                ..self.spec(linear.weight, matrix, shard.rows.clone(), norm, step, bucket)
            };
            let mut buffers = whole(&[x, y, &self.inputs.pass]);
            if let Some(norm) = norm {
                buffers.push(self.rms_weight(norm)?.as_entire_buffer_binding());
            }
            if let Some(bias) = linear.bias {
                buffers.push(self.weights.vector(bias)?.as_entire_buffer_binding());
            }
            buffers.extend(shard.bindings());
            calls.push(self.matvec_call(&spec, &buffers)?);
        }
        Ok(calls)
    }

    /// A product of several rows of quantized activations.
    fn matvec_rows(
        &mut self,
        linear: &Linear,
        norm: bool,
        y: &wgpu::Buffer,
        step: &Step,
        add: bool,
        bucket: RowBucket,
    ) -> Result<Vec<Dispatch>, Error> {
        let matrix = self.weights.matrix(linear.weight)?;
        let mut calls = Vec::with_capacity(matrix.shards.len());
        for shard in &matrix.shards {
            let spec = MatVecRows {
                norm,
                bias: linear.bias.is_some(),
                add,
                ..self.rows_spec(linear.weight, matrix, shard.rows.clone(), step, bucket)
            };
            let bias = linear.bias.map(|bias| self.weights.vector(bias)).transpose()?;
            let planes = shard.bindings().collect();
            calls.push(self.matvec_rows_call(&spec, y, bias, planes)?);
        }
        Ok(calls)
    }

    fn matvec_rows_call(
        &mut self,
        spec: &MatVecRows,
        y: &wgpu::Buffer,
        bias: Option<&wgpu::Buffer>,
        planes: Vec<wgpu::BufferBinding<'_>>,
    ) -> Result<Dispatch, Error> {
        let scratch = self.scratch;
        let mut buffers = whole(&[&scratch.codes, &scratch.scales, y, &self.inputs.pass]);
        if spec.norm {
            buffers.push(scratch.factors.as_entire_buffer_binding());
        }
        buffers.extend(bias.map(wgpu::Buffer::as_entire_buffer_binding));
        buffers.extend(planes);
        let capabilities = &self.device.capabilities;
        let (source, x) = (spec.source(capabilities)?, spec.groups(capabilities));
        let grid = Grid::Rows { x, batch: spec.batch as u32 };
        let label = format!("matvec_rows {} {}x{}", spec.layout.dtype, spec.rows, spec.k);
        self.call(&source, &spec.bindings(), &label, &buffers, grid)
    }

    /// Products that all read one norm.
    pub(super) fn norm_linear(
        &mut self,
        norm: &Norm,
        linears: &[Linear],
        x: &wgpu::Buffer,
        outputs: &[&wgpu::Buffer],
        step: &Step,
        bucket: RowBucket,
    ) -> Result<Vec<Dispatch>, Error> {
        if let Some(call) = self.side_by_side(norm, linears, x, outputs, step, bucket)? {
            return Ok(vec![call]);
        }
        if self.fuses_on_cores(linears, bucket)? {
            return self.fused_matmul(norm, linears, x, outputs, step, None, bucket);
        }
        // each kind of operand is prepared once
        let mut operands = Vec::new();
        let mut calls = Vec::with_capacity(linears.len() + 1);
        for linear in linears {
            let matrix = self.weights.matrix(linear.weight)?;
            let operand = self.operand(matrix, bucket);
            if !operands.contains(&operand) {
                calls.extend(match operand {
                    Operand::F16 => self.complete(norm, x, matrix.row_len, step, bucket)?,
                    _ => self.prepare(operand, Some(norm), x, matrix.row_len, 1)?,
                });
                operands.push(operand);
            }
        }
        let mut products = Vec::with_capacity(linears.len());
        let mut rest = linears.iter().zip(outputs).enumerate();
        while let Some((i, (linear, y))) = rest.next() {
            let matrix = self.weights.matrix(linear.weight)?;
            let operand = self.operand(matrix, bucket);
            if bucket == RowBucket::Prompt && operand == Operand::F16 {
                let suits = |other: &&Linear| self.fuses_in_prompts(linear, other);
                let count = 1 + linears[i + 1..].iter().take_while(suits).take(2).count();
                if count > 1 {
                    let (linears, outputs) = (&linears[i..i + count], &outputs[i..i + count]);
                    products.extend(self.prompt_matmul(linears, outputs, step, false)?);
                    rest.nth(count - 2);
                    continue;
                }
            }
            products.extend(self.product(
                operand,
                linear,
                Some(norm),
                x,
                y,
                step,
                false,
                bucket,
            )?);
        }
        // K splits share one buffer of partial sums
        calls.extend(match bucket {
            RowBucket::ThirtyTwo | RowBucket::Many | RowBucket::Prompt => products,
            _ => concurrent(products),
        });
        Ok(calls)
    }

    /// Whether two products of rows of a prompt can run in one dispatch.
    fn fuses_in_prompts(&self, linear: &Linear, other: &Linear) -> bool {
        let matrix = |linear: &Linear| self.weights.matrix(linear.weight);
        let (Ok(first), Ok(second)) = (matrix(linear), matrix(other)) else { return false };
        let plain = linear.bias.is_none() && other.bias.is_none();
        let single = first.shards.len() == 1 && second.shards.len() == 1;
        plain && single && first.layout == second.layout
    }

    /// One call for two or three products of few rows that read one norm, if their matrices are of
    /// formats that suit each other.
    ///
    /// As calls of their own they would not depend on each other, but wgpu has each wait for what
    /// was before it. A buffer that was read is only written behind a barrier. Many rows make that
    /// little of the time, and one kernel for all of it would take a driver long to compile.
    fn side_by_side(
        &mut self,
        norm: &Norm,
        linears: &[Linear],
        x: &wgpu::Buffer,
        outputs: &[&wgpu::Buffer],
        step: &Step,
        bucket: RowBucket,
    ) -> Result<Option<Dispatch>, Error> {
        let ([first, _] | [first, _, _]) = *linears else { return Ok(None) };
        if !matches!(bucket, RowBucket::One | RowBucket::Two | RowBucket::Four) {
            return Ok(None);
        }
        let matrix = self.weights.matrix(first.weight)?;
        let mut sides = Vec::with_capacity(linears.len());
        for linear in linears {
            let other = self.weights.matrix(linear.weight)?;
            let suits =
                other.layout == matrix.layout || (other.layout.blocks() && matrix.layout.blocks());
            let alike = suits && linear.bias.is_some() == first.bias.is_some();
            if !alike || other.shards.len() > 1 {
                return Ok(None);
            }
            let rows = self.plan.weight(linear.weight).rows;
            sides.push(FusedMatrix { layout: other.layout, rows });
        }
        let spec = MatVec {
            bias: first.bias.is_some(),
            fused_with: [1, 2].map(|i| sides.get(i).copied()),
            ..self.spec(first.weight, matrix, 0..sides[0].rows, Some(norm), step, bucket)
        };
        if !self.device.capabilities.binds(spec.bindings().len()) {
            return Ok(None);
        }
        let mut buffers = whole(&[x, outputs[0], &self.inputs.pass]);
        buffers.push(self.rms_weight(norm)?.as_entire_buffer_binding());
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
            buffers.extend(matrix.shards.iter().flat_map(|shard| shard.bindings()));
        }
        self.matvec_call(&spec, &buffers).map(Some)
    }

    /// The form in which a product takes its activations.
    pub(super) fn operand(&self, matrix: &Matrix, bucket: RowBucket) -> Operand {
        match bucket {
            // weights in f32 would lose 16 bits on matrix cores
            RowBucket::Prompt | RowBucket::Many | RowBucket::ThirtyTwo
                if self.device.capabilities.matrix_cores && matrix.layout.dtype != DType::F32 =>
            {
                Operand::F16
            }
            RowBucket::One | RowBucket::Two | RowBucket::Four => Operand::F32,
            _ if matrix.layout.blocks() => Operand::Q8,
            RowBucket::Prompt if !self.device.capabilities.matrix_cores => Operand::Normed,
            _ => Operand::F32,
        }
    }

    /// The factors of a norm before products, which is a plain root-mean-square norm.
    pub(super) fn rms_weight(&self, norm: &Norm) -> Result<&'a wgpu::Buffer, Error> {
        let weight = norm.rms_weight().ok_or_else(|| refused("a fused norm that is no RMSNorm"))?;
        self.weights.vector(weight)
    }

    /// Brings activations to the form that products take: `per_row` rows of `k` elements of each row.
    pub(super) fn prepare(
        &mut self,
        operand: Operand,
        norm: Option<&Norm>,
        x: &wgpu::Buffer,
        k: usize,
        per_row: usize,
    ) -> Result<Vec<Dispatch>, Error> {
        match operand {
            Operand::F32 => Ok(Vec::new()),
            Operand::Normed => match norm {
                Some(norm) => self.norm(norm, 1, k, x, Some(&self.scratch.normed)),
                None => Ok(Vec::new()),
            },
            Operand::F16 => self.halve(norm, x, [k, per_row]).map(one),
            Operand::Q8 => self.quantize(norm, x, [k, per_row]).map(one),
        }
    }

    /// Activations in 8 bits.
    fn quantize(
        &mut self,
        norm: Option<&Norm>,
        x: &wgpu::Buffer,
        [k, per_row]: [usize; 2],
    ) -> Result<Dispatch, Error> {
        let (norm_eps, threads) = (norm.map(|norm| norm.eps), self.tuning.threads);
        let quantize = ToQ8 { k, per_row, norm: norm_eps, threads };
        let mut buffers = whole(&[x, &self.scratch.codes, &self.scratch.scales]);
        if let Some(norm) = norm {
            buffers.extend(whole(&[&self.scratch.factors, self.rms_weight(norm)?]));
        }
        let source = quantize.source(&self.device.capabilities)?;
        self.call(&source, &quantize.bindings(), "to_q8", &buffers, rows_times(per_row))
    }

    /// Activations for matrix cores.
    fn halve(
        &mut self,
        norm: Option<&Norm>,
        x: &wgpu::Buffer,
        [k, per_row]: [usize; 2],
    ) -> Result<Dispatch, Error> {
        let prepare = ToF16 { k, per_row, norm: norm.map(|norm| norm.eps), partial: None };
        let mut buffers = whole(&[x, &self.scratch.halves]);
        if let Some(norm) = norm {
            buffers.push(self.rms_weight(norm)?.as_entire_buffer_binding());
        }
        let source = prepare.source(&self.device.capabilities)?;
        self.call(&source, &prepare.bindings(), "to_f16", &buffers, rows_times(per_row))
    }

    /// Gate and up in one kernel where they are of one type, else one after the other.
    pub(super) fn norm_glu(
        &mut self,
        norm: &Norm,
        [gate, up]: [&Linear; 2],
        gating: &Gating,
        [x, g]: [&wgpu::Buffer; 2],
        step: &Step,
        bucket: RowBucket,
    ) -> Result<Vec<Dispatch>, Error> {
        let (gates, ups) = (self.weights.matrix(gate.weight)?, self.weights.matrix(up.weight)?);
        let rows = |m: &Matrix| m.shards.iter().map(|s| s.rows.clone()).collect::<Vec<_>>();
        let plain = gate.bias.is_none() && up.bias.is_none();
        let alike = gates.layout == ups.layout && rows(gates) == rows(ups) && plain;
        let operand = self.operand(gates, bucket);
        if self.gates_on_cores([gate, up], bucket)? {
            return self.fused_matmul(norm, &[*gate, *up], x, &[g], step, Some(gating), bucket);
        }
        if !alike || operand == Operand::F16 || bucket == RowBucket::Prompt {
            let width = self.plan.weight(up.weight).rows;
            let up_buffer = &self.scratch.up;
            let mut calls =
                self.norm_linear(norm, &[*gate, *up], x, &[g, up_buffer], step, bucket)?;
            let glu = RowOp::glu(width, gating, false, Product::Gate);
            calls.push(self.row_op(&glu, &[g, up_buffer])?);
            return Ok(calls);
        }
        let mut calls = self.prepare(operand, Some(norm), x, gates.row_len, 1)?;
        for (gate_shard, up_shard) in gates.shards.iter().zip(&ups.shards) {
            let rows = gate_shard.rows.clone();
            let planes = gate_shard.bindings().chain(up_shard.bindings());
            if operand == Operand::Q8 {
                let spec = self.rows_spec(gate.weight, gates, rows, step, bucket);
                let spec = MatVecRows { norm: true, glu: Some(*gating), ..spec };
                calls.push(self.matvec_rows_call(&spec, g, None, planes.collect())?);
                continue;
            }
            let spec = self.spec(gate.weight, gates, rows, Some(norm), step, bucket);
            let spec = MatVec { glu: Some(*gating), ..spec };
            let mut buffers = whole(&[x, g, &self.inputs.pass, self.rms_weight(norm)?]);
            buffers.extend(planes);
            calls.push(self.matvec_call(&spec, &buffers)?);
        }
        Ok(calls)
    }

    fn rows_spec(
        &self,
        weight: WeightId,
        matrix: &Matrix,
        rows: std::ops::Range<usize>,
        step: &Step,
        bucket: RowBucket,
    ) -> MatVecRows {
        let selected = self.plan.buffer(step.outputs[0]).rows == Rows::Selected;
        MatVecRows {
            layout: matrix.layout,
            k: matrix.row_len,
            rows: rows.len(),
            offset: rows.start,
            stride: self.plan.weight(weight).rows,
            batch: bucket.batch().min(self.device.capabilities.batch),
            norm: false,
            bias: false,
            add: false,
            glu: None,
            count_at: usize::from(selected),
            experts: None,
        }
    }

    fn spec(
        &self,
        weight: WeightId,
        matrix: &Matrix,
        rows: std::ops::Range<usize>,
        norm: Option<&Norm>,
        step: &Step,
        bucket: RowBucket,
    ) -> MatVec {
        let selected = self.plan.buffer(step.outputs[0]).rows == Rows::Selected;
        MatVec {
            layout: matrix.layout,
            k: matrix.row_len,
            rows: rows.len(),
            offset: rows.start,
            stride: self.plan.weight(weight).rows,
            batch: bucket.batch().min(self.device.capabilities.batch),
            norm: norm.map(|norm| norm.eps),
            bias: false,
            add: false,
            glu: None,
            fused_with: [None; 2],
            count_at: usize::from(selected),
            experts: None,
            // the threads decide the order in which a norm's squares are summed, so they are the
            // same for any number of rows
            tuning: Tuning { threads: self.tuning.threads, ..Tuning::CANDIDATES[0] },
        }
    }

    fn matvec_call(
        &mut self,
        spec: &MatVec,
        buffers: &[wgpu::BufferBinding<'_>],
    ) -> Result<Dispatch, Error> {
        let capabilities = &self.device.capabilities;
        let tuned = MatVec { tuning: self.tuning, ..*spec };
        let tunes = self.joined.is_some() || (spec.batch == 1 && spec.uneven(capabilities));
        let spec = if tunes { &tuned } else { spec };
        let (source, groups) = (spec.source(capabilities)?, spec.groups(capabilities));
        let groups = Grid::Rows { x: groups, batch: spec.batch as u32 };
        self.call(&source, &spec.bindings(), &spec.label(), buffers, groups)
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
