//! Products with matrices in input-major order.
//!
//! One or two rows of decoding run in the kernels for rows of any effort (`input_major.wgsl`). More rows
//! of effort 1, and rows of prompts, need whole matrices: these are copied row by row to scratch
//! memory, once for all rows, and multiplied there as without effort. A row of an effort below 1 is
//! always multiplied alone.

use pelton_graph::{Error, Linear, Rows, Step};

use crate::{
    kernels::{
        input_major::{InputMajor, RowMajor, RowsBelow},
        row_ops::{Product, RowOp},
    },
    lower::{
        dispatch::{Dispatch, Grid, RowBucket, When},
        effort_sizes::Products,
        lowering::{Lowering, refused, whole},
    },
};

impl<'a> Lowering<'a> {
    /// Whether a step has a matrix in input-major order.
    pub(super) fn has_effort(&self, step: &Step) -> bool {
        let marked = |linear: &&Linear| self.plan.weight(linear.weight).effort;
        Products::of(step).is_some_and(|products| products.linears.iter().any(marked))
    }

    /// The dispatches of such a step.
    pub(super) fn effort_step(
        &mut self,
        step: &Step,
        bucket: RowBucket,
        alone: bool,
    ) -> Result<Vec<Dispatch>, Error> {
        let Some(products) = Products::of(step) else {
            return Err(refused("an op without a matrix"));
        };
        // where the width of subgroups is known, rows of effort 1 can have the sums of lanes
        let capabilities = &self.device.capabilities;
        let fixed = capabilities.subgroup == capabilities.widest_subgroup;
        let exact = fixed && bucket != RowBucket::Prompt;
        if exact && matches!(bucket, RowBucket::One | RowBucket::Two) {
            return self.products_by_row(&products, step, bucket, alone, false);
        }
        let mut dense = self.rows_of_matrices(&products)?;
        dense.extend(self.dense_step(step, bucket, alone)?);
        if exact {
            let by_row = self.products_by_row(&products, step, bucket, alone, false)?;
            return Ok(joined([when(dense, When::AllFull), when(by_row, When::SomeBelow)]));
        }
        let below = self.products_by_row(&products, step, bucket, alone, true)?;
        let (dense, below) = (when(dense, When::SomeFull), when(below, When::SomeBelow));
        if !products.add {
            return Ok(joined([dense, below]));
        }
        // the products are added to what y was before
        let rows = self.rows_below(step, products.linears[0], alone, None)?;
        Ok(joined([below, dense, when(vec![rows], When::SomeBelow)]))
    }

    /// Copies of the step's matrices row by row.
    fn rows_of_matrices(&mut self, products: &Products<'_>) -> Result<Vec<Dispatch>, Error> {
        let mut calls = Vec::with_capacity(products.linears.len());
        for linear in &products.linears {
            let Some(matrix) = self.weights.input_major(linear.weight) else { continue };
            let start = self.weights.row_major_start(linear.weight);
            let copy = RowMajor { lines: matrix.lines, start };
            let buffers = [matrix.binding(), self.weights.row_major().as_entire_buffer_binding()];
            let grid = Grid::Fixed(copy.groups());
            let bindings = RowMajor::bindings();
            calls.push(self.call(&copy.source()?, &bindings, "row_major", &buffers, grid)?);
        }
        Ok(calls)
    }

    /// The products of rows one by one: of all rows, or of those of an effort below 1, for which the
    /// results of a sum are kept apart.
    fn products_by_row(
        &mut self,
        products: &Products<'_>,
        step: &Step,
        bucket: RowBucket,
        alone: bool,
        only_below: bool,
    ) -> Result<Vec<Dispatch>, Error> {
        let plan = self.plan;
        let selected = plan.buffer(step.outputs[0]).rows == Rows::Selected;
        let x = self.buffer(step.inputs[usize::from(products.add)], alone);
        let decode = bucket != RowBucket::Prompt;
        let gates = products.gates(plan) && decode && !only_below;
        let mut outputs: Vec<&'a wgpu::Buffer> =
            step.outputs.iter().map(|&id| self.buffer(id, alone)).collect();
        if products.gating.is_some() {
            outputs.push(&self.scratch.up);
        }
        let mut calls = Vec::new();
        for group in products.groups(plan) {
            let k = plan.weight(products.linears[group[0]].weight).row_len;
            let product = products.product(plan, &group, self.tuning.threads)?;
            let product = InputMajor {
                apart: only_below && products.add,
                glu: product.glu.filter(|_| gates),
                lives_at: self.inputs.lives_at(k, selected),
                only_below,
                on_grid: decode && !only_below,
                ..product
            };
            calls.push(self.product_by_row(products, &product, &group, x, &outputs)?);
        }
        let others: Vec<usize> = (0..products.linears.len())
            .filter(|&i| !plan.weight(products.linears[i].weight).effort)
            .collect();
        if let Some(norm) = products.norm.filter(|_| !others.is_empty()) {
            // more rows would complete sums that the product before has not left
            let bucket = match bucket {
                RowBucket::ThirtyTwo | RowBucket::Many => RowBucket::Sixteen,
                bucket => bucket,
            };
            let linears: Vec<Linear> = others.iter().map(|&i| *products.linears[i]).collect();
            let to: Vec<&wgpu::Buffer> = others.iter().map(|&i| outputs[i]).collect();
            calls.extend(self.norm_linear(norm, &linears, x, &to, step, bucket)?);
        }
        if let Some(gating) = products.gating.filter(|_| !gates) {
            let width = plan.weight(products.linears[1].weight).rows;
            calls.push(match only_below {
                true => self.rows_below(step, products.linears[0], alone, Some(*gating))?,
                false => {
                    let glu = RowOp::glu(width, gating, false, Product::Gate);
                    self.row_op(&glu, &[outputs[0], outputs[1]])?
                }
            });
        }
        Ok(calls)
    }

    fn product_by_row(
        &mut self,
        products: &Products<'_>,
        product: &InputMajor,
        group: &[usize],
        x: &wgpu::Buffer,
        outputs: &[&wgpu::Buffer],
    ) -> Result<Dispatch, Error> {
        let capabilities = &self.device.capabilities;
        if !product.fits(capabilities) {
            let linear = products.linears[group[0]];
            return Err(Error::Effort(format!(
                "tensor '{}' has rows of {}, too many for a choice on this GPU",
                self.plan.weight(linear.weight).name,
                self.plan.weight(linear.weight).row_len
            )));
        }
        let mut buffers = whole(&[x, &self.inputs.lives]);
        if product.slots(capabilities) > 0 {
            buffers.push(self.scratch.slots.as_entire_buffer_binding());
        }
        if let Some(norm) = products.norm {
            buffers.push(self.rms_weight(norm)?.as_entire_buffer_binding());
        }
        if product.apart {
            buffers.push(self.scratch.kept.as_entire_buffer_binding());
        }
        for (i, &linear) in group.iter().enumerate() {
            let weight = products.linears[linear].weight;
            let Some(matrix) = self.weights.input_major(weight) else {
                return Err(refused("a matrix without lines"));
            };
            buffers.extend([matrix.binding(), matrix.norms()]);
            if product.glu.is_none() || i == 0 {
                buffers.push(outputs[linear].as_entire_buffer_binding());
            }
            if let Some(bias) = products.linears[linear].bias {
                buffers.push(self.weights.vector(bias)?.as_entire_buffer_binding());
            }
        }
        let source = product.source(capabilities, self.scratch.row_slots)?;
        let grid = Grid::Rows { x: product.groups(capabilities), batch: 1 };
        let bindings = product.bindings(capabilities);
        self.call(&source, &bindings, &product.label(), &buffers, grid)
    }

    /// The results of rows of an effort below 1: kept ones copied to the step's output, or with a
    /// gating gated there.
    pub(super) fn rows_below(
        &mut self,
        step: &Step,
        linear: &Linear,
        alone: bool,
        glu: Option<pelton_graph::Gating>,
    ) -> Result<Dispatch, Error> {
        let weight = self.plan.weight(linear.weight);
        let selected = self.plan.buffer(step.outputs[0]).rows == Rows::Selected;
        let lives_at = self.inputs.lives_at(weight.row_len, selected);
        let op = RowsBelow { width: weight.rows, lives_at, glu };
        let other = if glu.is_some() { &self.scratch.up } else { &self.scratch.kept };
        let y = self.buffer(step.outputs[0], alone);
        let buffers = whole(&[other, &self.inputs.lives, y]);
        let grid = Grid::Rows { x: op.groups(), batch: 1 };
        self.call(&op.source()?, &RowsBelow::bindings(), "rows_below", &buffers, grid)
    }
}

/// Dispatches that run with these efforts.
pub(super) fn when(calls: Vec<Dispatch>, when: When) -> Vec<Dispatch> {
    calls.into_iter().map(|call| Dispatch { when, ..call }).collect()
}

/// Lists of dispatches one after the other.
pub(super) fn joined<const N: usize>(lists: [Vec<Dispatch>; N]) -> Vec<Dispatch> {
    lists.into_iter().flatten().collect()
}
