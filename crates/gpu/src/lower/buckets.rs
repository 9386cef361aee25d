//! Products with sorted buckets, for rows of an effort below 1. Each row is multiplied alone. Where only some
//! ranks are kept there are no matrices of the file, and all rows are multiplied by their buckets.

use pelton_graph::{Error, Rows};

use crate::{
    device::BufferList,
    kernels::{buckets::Buckets, live_product::GRID_ROWS},
    lower::{
        dispatch::{Dispatch, Grid, RowClass},
        live_sizes::StepProducts,
        lowering::{Lowering, refused},
        site::Site,
    },
};

impl<'a> Lowering<'a> {
    /// The products of the rows of an effort below 1, with `apart` written to memory of their own.
    pub(super) fn products_of_buckets(
        &mut self,
        products: &StepProducts<'_>,
        site: Site<'_>,
        apart: bool,
    ) -> Result<Vec<Dispatch>, Error> {
        let plan = self.loaded.plan;
        let selected = !site.alone && plan.buffer(site.step.outputs[0]).rows == Rows::Selected;
        let x = self.buffer(site.step.inputs[usize::from(products.add)], site.alone);
        let outputs: Vec<&'a wgpu::Buffer> =
            site.step.outputs.iter().map(|&id| self.buffer(id, site.alone)).collect();
        let mut calls = Vec::new();
        for group in products.groups(plan) {
            let rows_at = self.loaded.inputs.first_words(selected);
            // more rows have workgroups enough
            let on_grid = site.class != RowClass::Prompt && site.class.batch() <= GRID_ROWS;
            let product =
                Buckets { apart, rows_at, on_grid, ..products.bucket_product(plan, &group)? };
            if !product.fits(&self.loaded.device.capabilities) {
                return Err(Error::Effort(format!(
                    "'{}' has too little workgroup memory for sorted buckets",
                    self.loaded.device.name
                )));
            }
            calls.extend(self.product_of_buckets(products, &product, &group, x, &outputs)?);
        }
        Ok(calls)
    }

    /// The cutoffs, the partial sums and the results of one product.
    fn product_of_buckets(
        &mut self,
        products: &StepProducts<'_>,
        product: &Buckets,
        group: &[usize],
        x: &wgpu::Buffer,
        outputs: &[&wgpu::Buffer],
    ) -> Result<[Dispatch; 3], Error> {
        let capabilities = &self.loaded.device.capabilities;
        let (lives, scratch) = (&self.loaded.inputs.lives, self.loaded.scratch);
        let mut operands = BufferList::of([("lives", lives), ("cutoffs", &scratch.cutoffs)]);
        operands.add("x", x);
        if let Some(norm) = products.norm {
            operands.add("norm_weight", self.rms_weight(norm)?);
        }
        for (i, &linear) in group.iter().enumerate() {
            let matrix = self.loaded.weights.buckets(products.linears[linear].weight);
            let matrix = matrix.ok_or_else(|| refused("a matrix without buckets"))?;
            operands.add_range(format!("m{i}"), matrix.binding());
        }
        let label = product.label();
        let grid = |x| Grid::Rows { x, batch: 1 };

        let groups = grid(product.cutoff_groups());
        let mut with_place = operands.clone();
        let first = products.linears[group[0]].weight;
        with_place.add_range("place", self.loaded.inputs.place_binding(first));
        let cutoffs =
            self.call(&label, &product.cutoff_source(capabilities)?, &with_place, groups)?;

        operands.add("partial", &scratch.live_sums);
        let groups = grid(product.product_groups());
        let sums = self.call(&label, &product.product_source(capabilities)?, &operands, groups)?;

        let mut buffers = BufferList::of([("lives", lives), ("cutoffs", &scratch.cutoffs)]);
        buffers.add("partial", &scratch.live_sums);
        let written = if product.glu.is_some() { &group[..1] } else { group };
        for (i, &linear) in written.iter().enumerate() {
            match product.apart {
                true => {
                    buffers.add(format!("y{i}"), &scratch.kept);
                    buffers.add(format!("before{i}"), outputs[linear]);
                }
                false => buffers.add(format!("y{i}"), outputs[linear]),
            }
        }
        for (i, &linear) in group.iter().enumerate() {
            if let Some(bias) = products.linears[linear].bias {
                buffers.add(format!("bias{i}"), self.loaded.weights.vector(bias)?);
            }
        }
        let groups = grid(product.sum_groups());
        let results = self.call(&label, &product.sum_source()?, &buffers, groups)?;
        Ok([cutoffs, sums, results])
    }
}
