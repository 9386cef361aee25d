//! The dispatches of rotation, store and attention.

use pelton_graph::{
    Attention as AttentionOp, BufferId, Error, Mask, Norm, RopeId, RopeStore as RopeStoreOp, Values,
};

use crate::{
    kernels::{
        attention::Attention,
        rope_store::{Caches, HeadPrep, RopeStore, Rotation, Store},
    },
    lower::{
        dispatch::{Dispatch, Grid, RowClass},
        lowering::{Lowering, PhaseOptions, refused, whole},
    },
};

impl<'a> Lowering<'a> {
    /// Norms, rotation and store of the queries, keys and values in `q`, `k` and `v`.
    pub(super) fn rope_store(
        &mut self,
        op: &RopeStoreOp,
        [q, k, v]: [&wgpu::Buffer; 3],
    ) -> Result<Dispatch, Error> {
        let step = RopeStore {
            heads: op.heads,
            head_dim: self.loaded.plan.caches[op.cache].key_dim,
            prepare: self.prepare_of(op),
            store: Some(self.caches(op.cache)),
        };
        let [keys, values] = self.loaded.caches[op.cache].bindings();
        let mut buffers = whole(&[&self.loaded.inputs.rows, q, k, v]);
        buffers.push(self.tables(op.cache));
        buffers.extend(whole(&[keys, values]));
        buffers.extend(whole(&self.prepared_with(op)?));
        self.rope_store_call(&step, &buffers)
    }

    /// The rotation of the heads of one buffer.
    pub(super) fn rope(
        &mut self,
        rope: RopeId,
        heads: usize,
        x: BufferId,
    ) -> Result<Dispatch, Error> {
        let prepare = HeadPrep { rope: Some(self.rotation(rope)), ..HeadPrep::default() };
        let head_dim = self.loaded.plan.buffer(x).width / heads;
        let step = RopeStore { heads, head_dim, prepare, store: None };
        let buffers =
            [&self.loaded.inputs.rows, &self.loaded.buffers[x.0], &self.loaded.turns[rope.0]];
        self.rope_store_call(&step, &whole(&buffers))
    }

    /// The store of keys, and of values that are not a prefix of them, without preparation.
    pub(super) fn store(
        &mut self,
        cache: usize,
        k: &wgpu::Buffer,
        v: Option<&wgpu::Buffer>,
    ) -> Result<Dispatch, Error> {
        let shape = &self.loaded.plan.caches[cache];
        let (tables, caches) = (self.tables(cache), self.caches(cache));
        let [keys, values] = self.loaded.caches[cache].bindings();
        let even = shape.head_dim().filter(|dim| dim.is_multiple_of(2));
        if let (Some(v), Some(head_dim)) = (v, even) {
            let prepare = HeadPrep::default();
            let step = RopeStore { heads: 0, head_dim, prepare, store: Some(caches) };
            let mut buffers = whole(&[&self.loaded.inputs.rows, k, v]);
            buffers.push(tables);
            buffers.extend(whole(&[keys, values]));
            return self.rope_store_call(&step, &buffers);
        }
        let prefix = matches!(shape.values, Values::KeyPrefix { .. });
        let (key_dim, value_dim) = (shape.key_dim, shape.value_dim());
        let step = Store { key_dim, value_dim, prefix, caches };
        let mut buffers = whole(&[&self.loaded.inputs.rows]);
        buffers.push(tables);
        buffers.extend(whole(&[k, keys]));
        if !prefix {
            let v = v.ok_or_else(|| refused("a store without values"))?;
            buffers.extend(whole(&[v, values]));
        }
        let grid = Grid::Rows { x: step.groups(), batch: 1 };
        self.call(&step.source()?, &step.bindings(), "store", &buffers, grid)
    }

    fn rope_store_call(
        &mut self,
        step: &RopeStore,
        buffers: &[wgpu::BufferBinding<'_>],
    ) -> Result<Dispatch, Error> {
        let grid = Grid::Rows { x: step.groups(1)[0], batch: 1 };
        self.call(&step.source()?, &step.bindings(), "rope_store", buffers, grid)
    }

    /// Attention of queries after norms and rotation.
    pub(super) fn attend(
        &mut self,
        op: &AttentionOp,
        q: &wgpu::Buffer,
        a: &wgpu::Buffer,
        class: RowClass,
    ) -> Result<Vec<Dispatch>, Error> {
        let attention = self.attention_of(op);
        let [keys, values] = self.loaded.caches[op.cache].bindings();
        let tables = self.tables(op.cache);
        if class == RowClass::Prompt {
            let mut buffers = whole(&[&self.loaded.inputs.rows]);
            buffers.push(tables);
            buffers.extend(whole(&[&self.loaded.inputs.tiles, q, keys, values, a]));
            buffers.extend(whole(&self.sinks(op)?));
            let cores = attention.cores(&self.loaded.device.capabilities, self.loaded.rows);
            let source = match cores {
                Some(cores) => attention.cores_source(&cores)?,
                None => attention.prompt_source()?,
            };
            let bindings = attention.prompt_bindings();
            let grid = Grid::Prompt { x: attention.prompt_groups(cores) };
            return Ok(vec![self.call(&source, &bindings, "attend", &buffers, grid)?]);
        }
        // rows that see later ones are never decoded
        if let Mask::Symmetric { .. } = op.mask {
            return Ok(Vec::new());
        }
        let mut calls = self.attend_rows(op, None, None, [q, a], &[])?;
        calls.push(self.merge(op, a)?);
        Ok(calls)
    }

    /// Norms, rotation, store and attention: one kernel for decoding rows of different slots.
    pub(super) fn rope_attend(
        &mut self,
        op: &RopeStoreOp,
        attend: &AttentionOp,
        [q, k, v]: [&wgpu::Buffer; 3],
        a: &wgpu::Buffer,
        class: RowClass,
    ) -> Result<Vec<Dispatch>, Error> {
        let attention = self.attention_of(attend);
        let mut store = self.rope_store(op, [q, k, v])?;
        let prepare = self.prepare_of(op);
        let buffers = attention.decode_bindings(Some(&prepare)).len();
        let fuses = attention.fuses() && self.loaded.device.capabilities.binds(buffers);
        if class == RowClass::Prompt || !fuses {
            let mut calls = vec![store];
            calls.extend(self.attend(attend, q, a, class)?);
            return Ok(calls);
        }
        let mut more = vec![k, v];
        more.extend(self.prepared_with(op)?);
        let mut calls = self.attend_rows(attend, Some(&prepare), Some(true), [q, a], &more)?;
        if class != RowClass::One {
            // rows of one slot read keys that other rows of the slot store
            if let Grid::Rows { x, .. } = store.grid {
                store.grid = Grid::RowsOfOneSlot { x };
            }
            calls.push(store);
            calls.extend(self.attend_rows(attend, None, Some(false), [q, a], &[])?);
        }
        calls.push(self.merge(attend, a)?);
        Ok(calls)
    }

    /// Attention of decoding rows: kernels for one KV split and for several, of which a pass runs
    /// one. `more` are the further buffers of a fused kernel.
    fn attend_rows(
        &mut self,
        op: &AttentionOp,
        prepare: Option<&HeadPrep>,
        fused: Option<bool>,
        [q, a]: [&wgpu::Buffer; 2],
        more: &[&wgpu::Buffer],
    ) -> Result<Vec<Dispatch>, Error> {
        let attention = self.attention_of(op);
        let [keys, values] = self.loaded.caches[op.cache].bindings();
        let mut buffers = whole(&[&self.loaded.inputs.rows]);
        buffers.push(self.tables(op.cache));
        buffers.extend(whole(&[q, keys, values, a, &self.loaded.scratch.splits]));
        buffers.extend(whole(&self.sinks(op)?));
        buffers.extend(whole(more));
        let label = if prepare.is_some() { "rope_attend" } else { "attend" };
        let bindings = attention.decode_bindings(prepare);
        let mut calls = Vec::with_capacity(2);
        for (splits, split) in [(1, false), (2, true)] {
            let capabilities = &self.loaded.device.capabilities;
            let source = match self.options.phases {
                Some(PhaseOptions { threads, early }) => {
                    attention.decode_phase(capabilities, splits, prepare, threads, early)?
                }
                None => attention.decode_source(capabilities, splits, prepare)?,
            };
            let grid = Grid::Decode { attention, split, fused };
            calls.push(self.call(&source, &bindings, label, &buffers, grid)?);
        }
        Ok(calls)
    }

    fn merge(&mut self, op: &AttentionOp, a: &wgpu::Buffer) -> Result<Dispatch, Error> {
        let attention = self.attention_of(op);
        let mut buffers = whole(&[&self.loaded.inputs.rows, &self.loaded.scratch.splits, a]);
        buffers.extend(whole(&self.sinks(op)?));
        let bindings = attention.merge_bindings();
        let source = match self.options.phases {
            Some(phases) => attention.merge_phase(phases.threads)?,
            None => attention.merge_source()?,
        };
        self.call(&source, &bindings, "merge", &buffers, Grid::Merge(attention))
    }

    /// The buffer of the scores without values, if there are any.
    fn sinks(&self, op: &AttentionOp) -> Result<Vec<&'a wgpu::Buffer>, Error> {
        op.sinks.map(|sinks| self.loaded.weights.vector(sinks)).into_iter().collect()
    }

    fn tables(&self, cache: usize) -> wgpu::BufferBinding<'a> {
        self.loaded.inputs.tables(self.loaded.plan.caches[cache].group)
    }

    fn attention_of(&self, op: &AttentionOp) -> Attention {
        Attention::of(
            op,
            &self.loaded.plan.caches[op.cache],
            self.loaded.kv,
            self.loaded.inputs.table,
        )
    }

    fn caches(&self, cache: usize) -> Caches {
        let (kv_heads, table) = (self.loaded.plan.caches[cache].heads, self.loaded.inputs.table);
        Caches { kv_heads, kv: self.loaded.kv, table }
    }

    fn rotation(&self, rope: RopeId) -> Rotation {
        let rope = self.loaded.plan.rope(rope);
        Rotation { style: rope.style, pairs: rope.frequencies.len(), factor: rope.factor.to_bits() }
    }

    fn prepare_of(&self, op: &RopeStoreOp) -> HeadPrep {
        let eps = |norm: &Option<Norm>| norm.map(|norm| norm.eps);
        HeadPrep {
            q_norm: eps(&op.q_norm),
            k_norm: eps(&op.k_norm),
            rope: Some(self.rotation(op.rope)),
        }
    }

    /// The buffers of [`HeadPrep::bindings`].
    fn prepared_with(&self, op: &RopeStoreOp) -> Result<Vec<&'a wgpu::Buffer>, Error> {
        let mut buffers = vec![&self.loaded.turns[op.rope.0]];
        for norm in [op.q_norm, op.k_norm].into_iter().flatten() {
            buffers.push(self.rms_weight(&norm)?);
        }
        Ok(buffers)
    }
}
