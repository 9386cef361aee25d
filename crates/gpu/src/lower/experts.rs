//! The dispatches of mixtures of experts, and of products with one matrix for each head.

use pelton_graph::{Error, ExpertLinear, Gating, Route as RouteOp, WeightId};

use crate::{
    device::BufferList,
    kernels::{
        cores_matmul::{CoresMatmul, DECODE},
        experts::{Experts, Pick, Route, Sort},
        matvec::{MatVec, Tuning},
        matvec_rows::MatVecRows,
        row_ops::{GluOutput, RowOp},
        tiled_matmul::{ThreadTile, TiledMatmul},
    },
    lower::{
        dispatch::{Dispatch, Grid, RowClass},
        loaded::Loaded,
        lowering::Lowering,
        operand::Operand,
        site::Site,
    },
    weights::{Matrix, Shard},
};

/// A product of rows of activations with one of several matrices each.
#[derive(Clone, Copy, Debug)]
struct Several<'b> {
    weight: WeightId,
    bias: Option<WeightId>,
    /// The second matrices of a gated product in one kernel.
    up: Option<(ExpertLinear, Gating)>,
    /// Chosen experts of a row, or heads.
    used: usize,
    /// Whether activations have a row for each of them.
    own: bool,
    x: &'b wgpu::Buffer,
    y: &'b wgpu::Buffer,
    /// The ids of the chosen experts, of heads none.
    ids: Option<&'b wgpu::Buffer>,
    /// The index of the number of rows among the row counts of the pass.
    count_at: usize,
}

impl<'a> Lowering<'a> {
    /// The choice of experts.
    pub(super) fn route(
        &mut self,
        op: &RouteOp,
        logits: &wgpu::Buffer,
        [ids, weights]: [&wgpu::Buffer; 2],
    ) -> Result<Dispatch, Error> {
        let mut buffers = BufferList::of([("logits", logits), ("ids", ids), ("weights", weights)]);
        for (name, id) in [("bias", op.bias), ("expert_scale", op.expert_scale)] {
            if let Some(id) = id {
                buffers.add(name, self.loaded.weights.vector(id)?);
            }
        }
        self.call("route", &Route(*op).source()?, &buffers, Grid::Row)
    }

    /// Products with the matrices of the chosen experts.
    pub(super) fn expert_linear(
        &mut self,
        site: Site<'_>,
        linear: &ExpertLinear,
        [x, ids, y]: [&wgpu::Buffer; 3],
    ) -> Result<Vec<Dispatch>, Error> {
        let several = self.experts(site, linear, [x, ids, y]);
        let matrix = self.loaded.weights.matrix(linear.weight)?;
        if site.class != RowClass::Prompt {
            return self.pairs(&several, matrix);
        }
        let (operand, mut calls) = self.sorted(site, &several, linear)?;
        calls.extend(self.tiles(&several, matrix, operand)?);
        Ok(calls)
    }

    /// The gated product of two products with the matrices of the chosen experts: for decoding rows
    /// one kernel if the matrices are of one format.
    pub(super) fn expert_glu(
        &mut self,
        site: Site<'_>,
        [gate, up]: [&ExpertLinear; 2],
        gating: &Gating,
        [x, ids, g]: [&wgpu::Buffer; 3],
    ) -> Result<Vec<Dispatch>, Error> {
        let (gates, ups) =
            (self.loaded.weights.matrix(gate.weight)?, self.loaded.weights.matrix(up.weight)?);
        let rows = |m: &Matrix| m.shards.iter().map(|s| s.rows.clone()).collect::<Vec<_>>();
        let alike = gates.layout == ups.layout
            && rows(gates) == rows(ups)
            && gate.bias.is_some() == up.bias.is_some();
        let first = self.experts(site, gate, [x, ids, g]);
        if site.class != RowClass::Prompt && alike {
            return self.pairs(&Several { up: Some((*up, *gating)), ..first }, gates);
        }
        let second = self.experts(site, up, [x, ids, &self.loaded.scratch.up]);
        let mut calls = Vec::new();
        if site.class == RowClass::Prompt {
            let (operand, sorted) = self.sorted(site, &first, gate)?;
            calls.extend(sorted);
            calls.extend(self.tiles(&first, gates, operand)?);
            // another format: in another form, or in tiles of other lengths
            let other = self.operand(ups, site.class);
            if other != operand {
                calls.extend(self.sorted(site, &second, up)?.1);
            }
            calls.extend(self.tiles(&second, ups, other)?);
        } else {
            calls.extend(self.pairs(&first, gates)?);
            calls.extend(self.pairs(&second, ups)?);
        }
        let width = gate.used * self.loaded.plan.weight(gate.weight).rows;
        let glu = RowOp::glu(width, gating, width, GluOutput::Gate);
        calls.push(self.row_op(&glu, [("gate", g), ("up", &self.loaded.scratch.up)])?);
        Ok(calls)
    }

    /// Products of heads with a matrix each.
    pub(super) fn head_linear(
        &mut self,
        site: Site<'_>,
        weight: WeightId,
        heads: usize,
        [x, y]: [&wgpu::Buffer; 2],
    ) -> Result<Vec<Dispatch>, Error> {
        let matrix = self.loaded.weights.matrix(weight)?;
        let several = Several {
            weight,
            bias: None,
            up: None,
            used: heads,
            own: true,
            x,
            y,
            ids: None,
            count_at: self.loaded.count_at(site),
        };
        let operand = self.operand(matrix, site.class);
        let mut calls = self.prepare(site, operand, None, x, [matrix.row_len, heads])?;
        for shard in &matrix.shards {
            let batch = site.class.batch().min(self.loaded.device.capabilities.batch);
            let experts = self.several(&several, Pick::Heads, shard);
            let z = experts.count as u32;
            calls.push(match operand {
                Operand::F16 => {
                    let rows = self.loaded.plan.weight(weight).rows;
                    let grid = Grid::Tiles(DECODE, rows, z as usize);
                    self.tile_matmul(&several, matrix, experts, shard, grid)?
                }
                Operand::Q8 | Operand::Normed if site.class == RowClass::Prompt => {
                    let tile = ThreadTile::of_few(&self.loaded.device.capabilities);
                    let outputs = self.loaded.plan.weight(weight).rows;
                    let grid = Grid::ThreadTiles { tile, outputs, times: z };
                    self.tiled_experts(&several, matrix, experts, shard, grid)?
                }
                Operand::Q8 | Operand::Normed => {
                    self.head_rows(&several, matrix, experts, shard, batch)?
                }
                Operand::F32 => {
                    let grid = |x| Grid::Heads { x, batch: batch as u32, heads: z };
                    self.pair_matvec(&several, matrix, experts, [shard, shard], batch, &grid)?
                }
            });
        }
        Ok(calls)
    }

    fn experts<'b>(
        &self,
        site: Site<'_>,
        linear: &ExpertLinear,
        [x, ids, y]: [&'b wgpu::Buffer; 3],
    ) -> Several<'b> {
        let &ExpertLinear { weight, bias, used } = linear;
        let own = self.loaded.plan.buffer(site.step.inputs[0]).width
            != self.loaded.plan.weight(weight).row_len;
        let (ids, count_at) = (Some(ids), self.loaded.count_at(site));
        Several { weight, bias, up: None, used, own, x, y, ids, count_at }
    }

    /// The matrices of a shard.
    fn several(&self, product: &Several<'_>, pick: Pick, shard: &Shard) -> Experts {
        let weight = self.loaded.plan.weight(product.weight);
        let (first, end) = (shard.rows.start / weight.rows, shard.rows.end / weight.rows);
        Experts { pick, count: weight.count(), first, end, used: product.used, own: product.own }
    }

    /// The product of each pair of a row and an expert by workgroups of its own: decoding rows. A
    /// pair's bits do not depend on the other rows.
    fn pairs(&mut self, product: &Several<'_>, matrix: &Matrix) -> Result<Vec<Dispatch>, Error> {
        let ups = match product.up {
            Some((up, _)) => self.loaded.weights.matrix(up.weight)?,
            None => matrix,
        };
        let mut calls = Vec::with_capacity(matrix.shards.len());
        for (shard, up) in matrix.shards.iter().zip(&ups.shards) {
            let experts = self.several(product, Pick::Ids, shard);
            let grid = |x| Grid::Pairs { x, per_row: product.used as u32 };
            calls.push(self.pair_matvec(product, matrix, experts, [shard, up], 1, &grid)?);
        }
        Ok(calls)
    }

    /// Sorts rows by expert, and brings activations to the form of the products.
    fn sorted(
        &mut self,
        site: Site<'_>,
        product: &Several<'_>,
        linear: &ExpertLinear,
    ) -> Result<(Operand, Vec<Dispatch>), Error> {
        let matrix = self.loaded.weights.matrix(linear.weight)?;
        let operand = self.operand(matrix, site.class);
        let per_row = if product.own { product.used } else { 1 };
        let mut calls = self.prepare(site, operand, None, product.x, [matrix.row_len, per_row])?;
        let sort = self.sort(product, operand);
        let Loaded { inputs, scratch, .. } = *self.loaded;
        let mut buffers = BufferList::of([
            ("pass_info", &inputs.pass),
            ("pairs", &scratch.pairs),
            ("tiles", &scratch.tiles),
        ]);
        if let Some(ids) = product.ids {
            buffers.add("ids", ids);
        }
        calls.push(self.call("sort", &sort.source()?, &buffers, Grid::One)?);
        Ok((operand, calls))
    }

    fn sort(&self, product: &Several<'_>, operand: Operand) -> Sort {
        let tile = match operand {
            Operand::F16 => DECODE.batch,
            _ => ThreadTile::of_few(&self.loaded.device.capabilities).batch,
        };
        let experts = self.loaded.plan.weight(product.weight).count();
        Sort { experts, used: product.used, tile, count_at: product.count_at }
    }

    /// Products of tiles of sorted rows: prompt rows.
    fn tiles(
        &mut self,
        product: &Several<'_>,
        matrix: &Matrix,
        operand: Operand,
    ) -> Result<Vec<Dispatch>, Error> {
        let sort = self.sort(product, operand);
        let mut calls = Vec::with_capacity(matrix.shards.len());
        for shard in &matrix.shards {
            let experts = self.several(product, Pick::Sorted, shard);
            let outputs = self.loaded.plan.weight(product.weight).rows;
            let grid = |rows: usize| {
                let x = outputs.div_ceil(rows) as u32;
                Grid::ExpertTiles { x, sort, tiles_first: true }
            };
            calls.push(match operand {
                Operand::F16 => {
                    self.tile_matmul(product, matrix, experts, shard, grid(DECODE.rows))?
                }
                _ => {
                    let tile = ThreadTile::of_few(&self.loaded.device.capabilities);
                    self.tiled_experts(product, matrix, experts, shard, grid(tile.rows))?
                }
            });
        }
        Ok(calls)
    }

    /// Adds biases, and the buffers by which a workgroup chooses its matrix.
    fn add_chosen_by<'b>(
        &self,
        buffers: &mut BufferList<'b>,
        product: &Several<'b>,
        pick: Pick,
    ) -> Result<(), Error>
    where
        'a: 'b,
    {
        let up_bias = product.up.and_then(|(up, _)| up.bias);
        for (name, bias) in [("bias", product.bias), ("bias_up", up_bias)] {
            if let Some(bias) = bias {
                buffers.add(name, self.loaded.weights.vector(bias)?);
            }
        }
        match pick {
            Pick::Ids => product.ids.into_iter().for_each(|ids| buffers.add("ids", ids)),
            Pick::Sorted => {
                buffers.add("tiles", &self.loaded.scratch.tiles);
                buffers.add("pairs", &self.loaded.scratch.pairs);
            }
            Pick::Heads => {}
        }
        Ok(())
    }

    fn pair_matvec(
        &mut self,
        product: &Several<'_>,
        matrix: &Matrix,
        experts: Experts,
        [shard, up]: [&Shard; 2],
        batch: usize,
        grid: &dyn Fn(u32) -> Grid,
    ) -> Result<Dispatch, Error> {
        let rows = self.loaded.plan.weight(product.weight).rows;
        let spec = MatVec {
            layout: matrix.layout,
            k: matrix.row_len,
            rows,
            offset: 0,
            stride: rows,
            batch,
            norm: None,
            bias: product.bias.is_some(),
            activation: None,
            add: false,
            glu: product.up.map(|(_, gating)| gating),
            fused_with: [None; 2],
            count_at: product.count_at,
            experts: Some(experts),
            tuning: Tuning::CANDIDATES[0],
        };
        let pass = &self.loaded.inputs.pass;
        let mut buffers = BufferList::of([("x", product.x), ("y", product.y), ("pass_info", pass)]);
        self.add_chosen_by(&mut buffers, product, experts.pick)?;
        buffers.extend(matrix.planes(shard, 0));
        if product.up.is_some() {
            // its layout is that of the other matrix
            buffers.extend(matrix.planes(up, 1));
        }
        let capabilities = &self.loaded.device.capabilities;
        let (source, x) = (spec.source(capabilities)?, spec.groups(capabilities));
        let label = format!("expert {}", spec.label());
        self.call(&label, &source, &buffers, grid(x))
    }

    /// The products of the heads of several decoding rows.
    fn head_rows(
        &mut self,
        product: &Several<'_>,
        matrix: &Matrix,
        experts: Experts,
        shard: &Shard,
        batch: usize,
    ) -> Result<Dispatch, Error> {
        let rows = self.loaded.plan.weight(product.weight).rows;
        let spec = MatVecRows {
            layout: matrix.layout,
            k: matrix.row_len,
            rows,
            offset: 0,
            stride: rows,
            batch,
            norm: false,
            bias: product.bias.is_some(),
            add: false,
            glu: None,
            count_at: product.count_at,
            experts: Some(experts),
        };
        let Loaded { inputs, scratch, .. } = *self.loaded;
        let mut buffers = BufferList::of([
            ("q8_codes", &scratch.codes),
            ("q8_scales", &scratch.scales),
            ("y", product.y),
            ("pass_info", &inputs.pass),
        ]);
        self.add_chosen_by(&mut buffers, product, experts.pick)?;
        buffers.extend(matrix.planes(shard, 0));
        let capabilities = &self.loaded.device.capabilities;
        let (source, x) = (spec.source(capabilities)?, spec.groups(capabilities));
        let label = format!("head matvec_rows {} {rows}x{}", matrix.layout.dtype, spec.k);
        let grid = Grid::Heads { x, batch: batch as u32, heads: experts.count as u32 };
        self.call(&label, &source, &buffers, grid)
    }

    fn tiled_experts(
        &mut self,
        product: &Several<'_>,
        matrix: &Matrix,
        experts: Experts,
        shard: &Shard,
        grid: Grid,
    ) -> Result<Dispatch, Error> {
        let rows = self.loaded.plan.weight(product.weight).rows;
        let spec = TiledMatmul {
            layout: matrix.layout,
            k: matrix.row_len,
            rows,
            offset: 0,
            stride: rows,
            norm: false,
            bias: product.bias.is_some(),
            add: false,
            count_at: product.count_at,
            on_grid: false,
            experts: Some(experts),
        };
        let mut buffers = self.tiled_buffers(matrix, [product.x, product.y]);
        self.add_chosen_by(&mut buffers, product, experts.pick)?;
        buffers.extend(matrix.planes(shard, 0));
        let source = spec.source(&ThreadTile::of_few(&self.loaded.device.capabilities))?;
        let label = format!("expert tiled_matmul {} {rows}x{}", matrix.layout.dtype, spec.k);
        self.call(&label, &source, &buffers, grid)
    }

    fn tile_matmul(
        &mut self,
        product: &Several<'_>,
        matrix: &Matrix,
        experts: Experts,
        shard: &Shard,
        grid: Grid,
    ) -> Result<Dispatch, Error> {
        let rows = self.loaded.plan.weight(product.weight).rows;
        let matmul = CoresMatmul {
            layout: matrix.layout,
            k: matrix.row_len,
            rows,
            offset: 0,
            stride: rows,
            bias: product.bias.is_some(),
            activation: None,
            add: false,
            count_at: product.count_at,
            splits: 1,
            slab_rows: 0,
            experts: Some(experts),
            fused_with: [None; 2],
            own_y: false,
            straight: false,
        };
        let (halves, pass) = (&self.loaded.scratch.halves, &self.loaded.inputs.pass);
        let mut buffers = BufferList::of([("a", halves), ("y", product.y), ("pass_info", pass)]);
        self.add_chosen_by(&mut buffers, product, experts.pick)?;
        buffers.extend(matrix.planes(shard, 0));
        let source = matmul.source(&DECODE.on(&self.loaded.device.capabilities))?;
        self.call("expert matmul", &source, &buffers, grid)
    }
}
