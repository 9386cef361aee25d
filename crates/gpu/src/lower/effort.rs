//! Steps whose matrices effort applies to.
//!
//! Full rows run in the kernels of a load without effort, which multiply the matrices of the file.
//! A row of an effort below 1 is multiplied alone, by matrices in input-major order
//! (`live_product.wgsl`). So its bits do not depend on the others of its pass.
//!
//! A product has two dispatches: partial sums over slices of inputs, each of which finds its own
//! live inputs, and the results. The results of a gated product are made by the product that reads
//! it, and in passes of one row queries, keys and values by attention. No dispatch chooses inputs.

use pelton_graph::{Error, Linear, Rows, WeightId};

use crate::{
    device::BufferList,
    kernels::{
        attention::SlicedHeads,
        live_product::{GRID_ROWS, LiveProduct, RowsBelow, TEAM},
    },
    lower::{
        dispatch::{Dispatch, Grid, RowClass, When, joined, when},
        live_sizes::{StepProducts, gated_before, heads_before, is_added_later},
        lowering::{Lowering, refused},
        options::PhaseOptions,
        site::Site,
    },
};

/// The biases of queries, keys and values.
type Biases = [Option<WeightId>; 3];

impl<'a> Lowering<'a> {
    /// The dispatches of a step with such products.
    pub(super) fn effort_step(
        &mut self,
        products: &StepProducts<'_>,
        site: Site<'_>,
    ) -> Result<Vec<Dispatch>, Error> {
        let others = products.unmarked(self.loaded.plan);
        if !others.is_empty() && products.norm.is_none() {
            return Err(refused("a product to a part of which effort applies"));
        }
        let mut dense = when(self.dense_step(site)?, When::SomeFull);
        if site.few_rows().class != site.class {
            // a row below 1 has its sums at once
            let mixed = when(self.dense_step(site.few_rows())?, When::Mixed);
            dense = joined([when(dense, When::AllFull), mixed]);
        }
        if !others.is_empty() {
            // those are of all rows
            dense = when(self.dense_step(site.few_rows())?, When::Always);
        }
        let is_apart = products.add && site.class != RowClass::One;
        let below = when(self.products_of_lines(products, site, is_apart)?, When::SomeBelow);
        if !is_apart {
            return Ok(joined([dense, below]));
        }
        // the products are added to what y was before
        let rows = self.rows_below(site, products.linears[0])?;
        Ok(joined([below, dense, when(vec![rows], When::SomeBelow)]))
    }

    /// The products of the rows below 1 with matrices in input-major order, with `apart` written to
    /// memory of their own.
    fn products_of_lines(
        &mut self,
        products: &StepProducts<'_>,
        site: Site<'_>,
        apart: bool,
    ) -> Result<Vec<Dispatch>, Error> {
        let plan = self.loaded.plan;
        let gated = gated_before(plan, site.step).and_then(|before| {
            let product = self.live_product(&before, before.groups(plan).first()?, site);
            product.gated_sums()
        });
        let mut calls = Vec::new();
        for group in products.groups(plan) {
            let product = self.live_product(products, &group, site);
            let product = LiveProduct { apart, gated, ..product };
            if !product.fits(&self.loaded.device.capabilities) {
                return Err(Error::Effort(format!(
                    "'{}' has too few threads or too little workgroup memory for efforts below 1",
                    self.loaded.device.name
                )));
            }
            calls.push(self.partial_sums(products, &product, &group, site)?);
            if !is_added_later(plan, site.step) && !self.attended_later(site)? {
                calls.push(self.results(products, &product, &group, site)?);
            }
        }
        Ok(calls)
    }

    /// The queries, keys and values before a step with attention that adds their partial sums, in
    /// passes of one row of an effort below 1.
    pub(super) fn sliced_heads(
        &self,
        site: Site<'_>,
    ) -> Result<Option<(SlicedHeads, Biases)>, Error> {
        let plan = self.loaded.plan;
        let applies = site.class == RowClass::One && !self.options.dense;
        let Some(products) = heads_before(plan, site.step).filter(|_| applies) else {
            return Ok(None);
        };
        let product = self.live_product(&products, &[0, 1, 2], site);
        let Some(slices) = product.sliced_heads() else { return Ok(None) };
        let biases = [0, 1, 2].map(|i: usize| products.linears[i].bias);
        Ok(self.adds_slices(site, slices)?.then_some((slices, biases)))
    }

    /// Whether the next step is attention that adds the partial sums of this one.
    fn attended_later(&self, site: Site<'_>) -> Result<bool, Error> {
        let steps = self.loaded.plan.steps.windows(2);
        let mut next = steps.filter(|pair| std::ptr::eq(&pair[0], site.step)).map(|pair| &pair[1]);
        match next.next() {
            Some(step) => Ok(self.sliced_heads(Site { step, ..site })?.is_some()),
            None => Ok(false),
        }
    }

    /// The product of a group of a step's matrices.
    fn live_product(
        &self,
        products: &StepProducts<'_>,
        group: &[usize],
        site: Site<'_>,
    ) -> LiveProduct {
        let (plan, inputs) = (self.loaded.plan, self.loaded.inputs);
        // the only row is the first of both, and layers then have one text
        let selected = !site.alone && plan.buffer(site.step.outputs[0]).rows == Rows::Selected;
        let lives_at = |id| inputs.lives_at(id, selected);
        let rows_at = inputs.first_words(selected);
        let product = products.live_product(plan, group, &lives_at, rows_at);
        // more rows have workgroups enough
        let on_grid = site.class != RowClass::Prompt && site.class.batch() <= GRID_ROWS;
        let (teams, is_phase) = match self.options.phases {
            Some(PhaseOptions { threads, early: _ }) => ((threads / TEAM).max(1), true),
            None => (1, false),
        };
        LiveProduct { mixed: site.class != RowClass::One, on_grid, teams, is_phase, ..product }
    }

    /// The partial sums of one product.
    fn partial_sums(
        &mut self,
        products: &StepProducts<'_>,
        product: &LiveProduct,
        group: &[usize],
        site: Site<'_>,
    ) -> Result<Dispatch, Error> {
        let scratch = self.loaded.scratch;
        let mut buffers = BufferList::of([("lives", &self.loaded.inputs.lives)]);
        match product.gated {
            Some(_) => buffers.add("gates", &scratch.live_gates),
            None => {
                let x = site.step.inputs[usize::from(products.add)];
                buffers.add("x", self.buffer(x, site.alone));
            }
        }
        if let Some(norm) = products.norm {
            buffers.add("norm_weight", self.rms_weight(norm)?);
        }
        let weights: Vec<WeightId> = group.iter().map(|&i| products.linears[i].weight).collect();
        buffers.add_range("place", self.loaded.inputs.place_binding(weights[0]));
        let matrices = self.loaded.weights.input_major(&weights);
        let matrices = matrices.ok_or_else(|| refused("a matrix without lines"))?;
        buffers.add_range("m", matrices.binding());
        let is_gates = is_added_later(self.loaded.plan, site.step);
        buffers.add("partial", if is_gates { &scratch.live_gates } else { &scratch.live_sums });
        let source = product.product_source(&self.loaded.device.capabilities)?;
        let grid = Grid::Rows { x: product.product_groups(), batch: 1 };
        self.call(&product.label(), &source, &buffers, grid)
    }

    /// The results of one product.
    fn results(
        &mut self,
        products: &StepProducts<'_>,
        product: &LiveProduct,
        group: &[usize],
        site: Site<'_>,
    ) -> Result<Dispatch, Error> {
        let scratch = self.loaded.scratch;
        let mut buffers = BufferList::of([("partial", &scratch.live_sums)]);
        if product.mixed {
            buffers.add("lives", &self.loaded.inputs.lives);
        }
        let written = if product.glu.is_some() { &group[..1] } else { group };
        for (i, &linear) in written.iter().enumerate() {
            let y = self.buffer(site.step.outputs[linear], site.alone);
            match product.apart {
                true => {
                    buffers.add(format!("y{i}"), &scratch.kept);
                    buffers.add(format!("before{i}"), y);
                }
                false => buffers.add(format!("y{i}"), y),
            }
        }
        for (i, &linear) in group.iter().enumerate() {
            if let Some(bias) = products.linears[linear].bias {
                buffers.add(format!("bias{i}"), self.loaded.weights.vector(bias)?);
            }
        }
        let grid = Grid::Rows { x: product.sum_groups(), batch: 1 };
        self.call(&product.label(), &product.sum_source()?, &buffers, grid)
    }

    /// The results of rows below 1, copied to the step's output.
    fn rows_below(&mut self, site: Site<'_>, linear: &Linear) -> Result<Dispatch, Error> {
        let weight = self.loaded.plan.weight(linear.weight);
        let selected = self.loaded.plan.buffer(site.step.outputs[0]).rows == Rows::Selected;
        let lives_at = self.loaded.inputs.first_words(selected);
        let op = RowsBelow { width: weight.rows, lives_at };
        let y = self.buffer(site.step.outputs[0], site.alone);
        let (lives, kept) = (&self.loaded.inputs.lives, &self.loaded.scratch.kept);
        let buffers = BufferList::of([("other", kept), ("lives", lives), ("y", y)]);
        let grid = Grid::Rows { x: op.groups(), batch: 1 };
        self.call("rows_below", &op.source()?, &buffers, grid)
    }
}
