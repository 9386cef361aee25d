//! Products with matrices in input-major order.
//!
//! One or two rows of decoding of effort 1 are multiplied with the matrices as they are
//! (`input_major.wgsl`). More rows of effort 1, and rows of prompts, need whole matrices. These are
//! copied row by row to scratch memory, once for all rows, and multiplied there as without effort.
//! Each row of an effort below 1 is multiplied alone, after a dispatch that makes the lists of live
//! inputs (`choose_inputs.wgsl`).
//!
//! One or two rows of decoding of effort 1 run in `input_major.wgsl`. Its partial sums are those of
//! the lanes of `matvec.wgsl`, added in the same tree, so effort 1 gives the same bits. All other
//! rows of effort 1 run in the ordinary kernels: `row_major.wgsl` first copies the step's matrices
//! to scratch memory that all steps share.
//!
//! Below effort 1, `choose_inputs.wgsl` chooses the live inputs (`select_inputs.wgsl`, a radix
//! selection, or `select_energy.wgsl` for a share of squared scores) and writes lists of them with
//! their codes. The product then reads their lines alone.

use pelton_graph::{Error, Linear, Rows, Step};

use crate::{
    device::BufferList,
    kernels::{
        input_major::{InputMajor, RowMajor, RowsBelow},
        row_ops::{GluOutput, RowOp},
    },
    lower::{
        dispatch::{Dispatch, Grid, RowClass, When},
        effort_sizes::StepProducts,
        loaded::Loaded,
        lowering::{Lowering, refused},
        projection::NormedProjections,
        site::Site,
    },
    weights,
};

/// The inputs that products multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Multiplied {
    /// All inputs of every row.
    All,
    /// The live ones of every row.
    Chosen,
    /// The live ones of the rows of an effort below 1.
    OnlyBelow,
}

impl<'a> Lowering<'a> {
    /// Whether a step has a matrix in input-major order.
    pub(super) fn has_effort(&self, step: &Step) -> bool {
        let marked = |linear: &&Linear| self.loaded.plan.weight(linear.weight).effort;
        StepProducts::of(step).is_some_and(|products| products.linears.iter().any(marked))
    }

    /// The dispatches of such a step.
    pub(super) fn effort_step(&mut self, site: Site<'_>) -> Result<Vec<Dispatch>, Error> {
        let Some(products) = StepProducts::of(site.step) else {
            return Err(refused("an op without a matrix"));
        };
        // where the width of subgroups is known, rows of effort 1 can have the sums of lanes
        let capabilities = &self.loaded.device.capabilities;
        let fixed = capabilities.subgroup == capabilities.widest_subgroup;
        let exact = fixed && site.class != RowClass::Prompt;
        let few = matches!(site.class, RowClass::One | RowClass::Two);
        let dense = match exact && few && self.fits_whole(site, &products)? {
            true => self.products_by_row(&products, site, Multiplied::All)?,
            false => {
                let mut dense = self.rows_of_matrices(&products)?;
                dense.extend(self.dense_step(site)?);
                dense
            }
        };
        if exact {
            let by_row = self.products_by_row(&products, site, Multiplied::Chosen)?;
            return Ok(joined([when(dense, When::AllFull), when(by_row, When::SomeBelow)]));
        }
        let below = self.products_by_row(&products, site, Multiplied::OnlyBelow)?;
        let (dense, below) = (when(dense, When::SomeFull), when(below, When::SomeBelow));
        if !products.add {
            return Ok(joined([dense, below]));
        }
        // the products are added to what y was before
        let rows = self.rows_below(site, products.linears[0], None)?;
        Ok(joined([below, dense, when(vec![rows], When::SomeBelow)]))
    }

    /// Whether the GPU has the workgroup memory for whole rows of a step's products.
    fn fits_whole(&self, site: Site<'_>, products: &StepProducts<'_>) -> Result<bool, Error> {
        for group in products.groups(self.loaded.plan) {
            let product = products.product(self.loaded.plan, &group, site.tuning.threads)?;
            if !product.fits(&self.loaded.device.capabilities) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Copies of the step's matrices row by row.
    fn rows_of_matrices(&mut self, products: &StepProducts<'_>) -> Result<Vec<Dispatch>, Error> {
        let mut calls = Vec::with_capacity(products.linears.len());
        for linear in &products.linears {
            let Some(matrix) = self.loaded.weights.input_major(linear.weight) else { continue };
            let start = self.loaded.weights.row_major_start(linear.weight);
            let copy = RowMajor { lines: matrix.lines, start };
            let mut buffers = BufferList::of([("planes", self.loaded.weights.row_major())]);
            buffers.add_range("m", matrix.binding());
            let grid = Grid::Fixed(copy.groups());
            calls.push(self.call("row_major", &copy.source()?, &buffers, grid)?);
        }
        Ok(calls)
    }

    /// The products of rows one by one: of all rows, or of those of an effort below 1, for which the
    /// results of a sum are kept apart.
    fn products_by_row(
        &mut self,
        products: &StepProducts<'_>,
        site: Site<'_>,
        inputs: Multiplied,
    ) -> Result<Vec<Dispatch>, Error> {
        let plan = self.loaded.plan;
        let selected = plan.buffer(site.step.outputs[0]).rows == Rows::Selected;
        let x = self.buffer(site.step.inputs[usize::from(products.add)], site.alone);
        let only_below = inputs == Multiplied::OnlyBelow;
        let gates = products.gates(plan) && !only_below;
        let mut outputs: Vec<&'a wgpu::Buffer> =
            site.step.outputs.iter().map(|&id| self.buffer(id, site.alone)).collect();
        if products.gating.is_some() {
            outputs.push(&self.loaded.scratch.up);
        }
        let mut calls = Vec::new();
        for group in products.groups(plan) {
            let product = products.product(plan, &group, site.tuning.threads)?;
            let product = InputMajor {
                apart: only_below && products.add,
                glu: product.glu.filter(|_| gates),
                chosen: inputs != Multiplied::All,
                lives_at: self.loaded.inputs.lives_at(
                    plan,
                    products.linears[group[0]].weight,
                    selected,
                ),
                only_below,
                ..product
            };
            if product.chosen {
                calls.push(self.choice(products, &product, &group, x)?);
            }
            calls.push(self.product_by_row(products, &product, &group, x, &outputs)?);
        }
        calls.extend(self.unmarked_products(products, site)?);
        if let Some(gating) = products.gating.filter(|_| !gates) {
            let width = plan.weight(products.linears[1].weight).rows;
            calls.push(match only_below {
                true => self.rows_below(site, products.linears[0], Some(*gating))?,
                false => {
                    let glu = RowOp::glu(width, gating, false, GluOutput::Gate);
                    self.row_op(&glu, [("gate", outputs[0]), ("up", outputs[1])])?
                }
            });
        }
        Ok(calls)
    }

    /// The products of a normed row with those matrices of a step that effort does not apply to.
    pub(super) fn unmarked_products(
        &mut self,
        products: &StepProducts<'_>,
        site: Site<'_>,
    ) -> Result<Vec<Dispatch>, Error> {
        let others = products.unmarked(self.loaded.plan);
        let Some(norm) = products.norm.filter(|_| !others.is_empty()) else {
            return Ok(Vec::new());
        };
        if products.gating.is_some() {
            return Err(refused("a gated product of which effort applies to one matrix alone"));
        }
        let linears: Vec<Linear> = others.iter().map(|&i| *products.linears[i]).collect();
        let x = self.buffer(site.step.inputs[0], site.alone);
        let outputs: Vec<&wgpu::Buffer> =
            others.iter().map(|&i| self.buffer(site.step.outputs[i], site.alone)).collect();
        // more rows would complete sums that the product before has not left
        let all = NormedProjections { norm: Some(norm), linears: &linears, x, outputs: &outputs };
        self.norm_linear(site.few_rows(), &all)
    }

    /// The lists of the live inputs of a group of matrices.
    fn choice(
        &mut self,
        products: &StepProducts<'_>,
        product: &InputMajor,
        group: &[usize],
        x: &wgpu::Buffer,
    ) -> Result<Dispatch, Error> {
        let capabilities = &self.loaded.device.capabilities;
        let choice = product.choice(self.loaded.plan.effort.energy);
        if !choice.fits(capabilities) {
            return Err(Error::Effort(format!(
                "this GPU has {} bytes of workgroup memory, too few for a choice of inputs",
                capabilities.workgroup_bytes
            )));
        }
        let Loaded { inputs, scratch, .. } = *self.loaded;
        let mut buffers =
            BufferList::of([("x", x), ("lives", &inputs.lives), ("lists", &scratch.lists)]);
        if let Some(norm) = products.norm {
            buffers.add("norm_weight", self.rms_weight(norm)?);
        }
        for (i, &linear) in group.iter().enumerate() {
            let norms = self.lines_of(products.linears[linear])?.norms();
            buffers.add_range(format!("norms{i}"), norms);
        }
        let source = choice.source(capabilities, self.loaded.scratch.list_row)?;
        let grid = Grid::Rows { x: choice.groups(capabilities), batch: 1 };
        self.call(&choice.label(), &source, &buffers, grid)
    }

    fn product_by_row(
        &mut self,
        products: &StepProducts<'_>,
        product: &InputMajor,
        group: &[usize],
        x: &wgpu::Buffer,
        outputs: &[&wgpu::Buffer],
    ) -> Result<Dispatch, Error> {
        let capabilities = &self.loaded.device.capabilities;
        if !product.fits(capabilities) {
            return Err(Error::Effort(format!(
                "this GPU has {} bytes of workgroup memory, too few for products of an effort",
                capabilities.workgroup_bytes
            )));
        }
        let mut buffers = match product.chosen {
            true => BufferList::of([("lists", &self.loaded.scratch.lists)]),
            false => BufferList::of([("x", x)]),
        };
        if product.only_below {
            buffers.add("lives", &self.loaded.inputs.lives);
        }
        if let Some(norm) = products.norm.filter(|_| !product.chosen) {
            buffers.add("norm_weight", self.rms_weight(norm)?);
        }
        if product.apart {
            buffers.add("kept", &self.loaded.scratch.kept);
        }
        for (i, &linear) in group.iter().enumerate() {
            let matrix = self.lines_of(products.linears[linear])?;
            buffers.add_range(format!("m{i}"), matrix.binding());
            if product.glu.is_none() || i == 0 {
                buffers.add(format!("y{i}"), outputs[linear]);
            }
            if let Some(bias) = products.linears[linear].bias {
                buffers.add(format!("bias{i}"), self.loaded.weights.vector(bias)?);
            }
        }
        let source = product.source(capabilities, self.loaded.scratch.list_row)?;
        let grid = Grid::Rows { x: product.groups(capabilities), batch: 1 };
        self.call(&product.label(), &source, &buffers, grid)
    }

    fn lines_of(&self, linear: &Linear) -> Result<&'a weights::InputMajor, Error> {
        self.loaded
            .weights
            .input_major(linear.weight)
            .ok_or_else(|| refused("a matrix without lines"))
    }

    /// The results of rows of an effort below 1: kept ones copied to the step's output, or with a
    /// gating gated there.
    pub(super) fn rows_below(
        &mut self,
        site: Site<'_>,
        linear: &Linear,
        glu: Option<pelton_graph::Gating>,
    ) -> Result<Dispatch, Error> {
        let weight = self.loaded.plan.weight(linear.weight);
        let selected = self.loaded.plan.buffer(site.step.outputs[0]).rows == Rows::Selected;
        let lives_at = self.loaded.inputs.lives_at(self.loaded.plan, linear.weight, selected);
        let op = RowsBelow { width: weight.rows, lives_at, glu };
        let other = if glu.is_some() { &self.loaded.scratch.up } else { &self.loaded.scratch.kept };
        let y = self.buffer(site.step.outputs[0], site.alone);
        let lives = &self.loaded.inputs.lives;
        let buffers = BufferList::of([("other", other), ("lives", lives), ("y", y)]);
        let grid = Grid::Rows { x: op.groups(), batch: 1 };
        self.call("rows_below", &op.source()?, &buffers, grid)
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
