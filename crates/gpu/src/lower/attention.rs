//! The dispatches of rotation, store and attention.

use pelton_graph::{
    Attention as AttentionOp, BufferId, Error, Norm, Op, RopeId, RopeStore as RopeStoreOp, Values,
};

use crate::{
    device::BufferList,
    kernels::{
        attention::{Attention, DecodeVariant, SlicedHeads},
        rope_store::{Caches, Coordinates, HeadPrep, RopeStore, Rotation, Store},
    },
    lower::{
        dispatch::{Dispatch, Grid, RowClass, When, joined, when},
        lowering::{Lowering, refused},
        options::PhaseOptions,
        site::Site,
    },
};

/// The form of attention of decoding rows.
#[derive(Clone, Copy, Default)]
struct Decoded<'p> {
    /// The preparation of queries and keys, if it prepares and stores them.
    prepare: Option<&'p HeadPrep>,
    /// Whether it runs with rows of different slots alone, or with others alone.
    fused: Option<bool>,
    /// The partial sums that are its queries, keys and values.
    slices: Option<SlicedHeads>,
}

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
        let mut buffers = BufferList::of([("q", q), ("k", k), ("v", v)]);
        self.add_cache(&mut buffers, op.cache);
        self.add_prepared_with(&mut buffers, op)?;
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
        let mut buffers =
            BufferList::of([("rows", &self.loaded.inputs.rows), ("q", &self.loaded.buffers[x.0])]);
        self.add_rotation(&mut buffers, rope);
        self.rope_store_call(&step, &buffers)
    }

    /// The store of keys, and of values that are not a prefix of them, without preparation.
    pub(super) fn store(
        &mut self,
        cache: usize,
        k: &wgpu::Buffer,
        v: Option<&wgpu::Buffer>,
    ) -> Result<Dispatch, Error> {
        let shape = &self.loaded.plan.caches[cache];
        let caches = self.caches(cache);
        let [keys, values] = self.loaded.caches[cache].bindings();
        let rows = &self.loaded.inputs.rows;
        let mut buffers = BufferList::of([("rows", rows), ("k", k), ("keys", keys)]);
        buffers.add_range("tables", self.tables(cache));
        let even = shape.head_dim().filter(|dim| dim.is_multiple_of(2));
        if let (Some(v), Some(head_dim)) = (v, even) {
            let prepare = HeadPrep::default();
            let step = RopeStore { heads: 0, head_dim, prepare, store: Some(caches) };
            buffers.add("v", v);
            buffers.add("values", values);
            return self.rope_store_call(&step, &buffers);
        }
        let prefix = matches!(shape.values, Values::KeyPrefix { .. });
        let (key_dim, value_dim) = (shape.key_dim, shape.value_dim());
        let step = Store { key_dim, value_dim, prefix, caches };
        if !prefix {
            buffers.add("v", v.ok_or_else(|| refused("a store without values"))?);
            buffers.add("values", values);
        }
        let grid = Grid::Rows { x: step.groups(), batch: 1 };
        self.call("store", &step.source()?, &buffers, grid)
    }

    fn rope_store_call(
        &mut self,
        step: &RopeStore,
        buffers: &BufferList<'_>,
    ) -> Result<Dispatch, Error> {
        let grid = Grid::Rows { x: step.groups(1)[0], batch: 1 };
        let source = match self.options.phases {
            Some(phases) => step.phase(phases.threads)?,
            None => step.source()?,
        };
        self.call("rope_store", &source, buffers, grid)
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
        if class == RowClass::Prompt {
            let tiles = &self.loaded.inputs.tiles;
            let mut buffers = BufferList::of([("tiles", tiles), ("q", q), ("a", a)]);
            if attention.reads_places() {
                buffers.add("places", &self.loaded.inputs.row_places);
            }
            self.add_cache(&mut buffers, op.cache);
            self.add_sinks(&mut buffers, op)?;
            let cores = attention.cores(&self.loaded.device.capabilities, self.loaded.rows);
            let source = match cores {
                Some(cores) => attention.cores_source(&cores)?,
                None => attention.prompt_source()?,
            };
            let grid = Grid::Prompt { x: attention.prompt_groups(cores) };
            return Ok(vec![self.call("attend", &source, &buffers, grid)?]);
        }
        if attention.never_decodes() {
            return Ok(Vec::new());
        }
        let buffers = BufferList::of([("q", q), ("a", a)]);
        let mut calls = self.attend_rows(op, Decoded::default(), buffers)?;
        calls.push(self.merge(op, a)?);
        Ok(calls)
    }

    /// Norms, rotation, store and attention: one kernel for decoding rows of different slots.
    pub(super) fn rope_attend(
        &mut self,
        site: Site<'_>,
        (op, attend): (&RopeStoreOp, &AttentionOp),
        [q, k, v]: [&wgpu::Buffer; 3],
        a: &wgpu::Buffer,
    ) -> Result<Vec<Dispatch>, Error> {
        let class = site.class;
        let mut store = self.rope_store(op, [q, k, v])?;
        let prepare = self.prepare_of(op);
        let fuses = class != RowClass::Prompt && self.fuses(attend, &prepare)?;
        if !fuses {
            let mut calls = vec![store];
            calls.extend(self.attend(attend, q, a, class)?);
            return Ok(calls);
        }
        let mut buffers = BufferList::of([("q", q), ("a", a), ("k", k), ("v", v)]);
        self.add_prepared_with(&mut buffers, op)?;
        let fused = Decoded { prepare: Some(&prepare), fused: Some(true), slices: None };
        let mut calls = self.attend_rows(attend, fused, buffers)?;
        if let Some((slices, biases)) = self.sliced_heads(site)? {
            let mut buffers =
                BufferList::of([("a", a), ("partial", &self.loaded.scratch.live_sums)]);
            for (name, bias) in ["q_bias", "k_bias", "v_bias"].into_iter().zip(biases) {
                if let Some(bias) = bias {
                    buffers.add(name, self.loaded.weights.vector(bias)?);
                }
            }
            self.add_prepared_with(&mut buffers, op)?;
            let sliced = Decoded { slices: Some(slices), ..fused };
            let below = self.attend_rows(attend, sliced, buffers)?;
            calls = joined([when(calls, When::AllFull), when(below, When::SomeBelow)]);
        }
        if class != RowClass::One {
            // rows of one slot read keys that other rows of the slot store
            if let Grid::Rows { x, .. } = store.grid {
                store.grid = Grid::RowsOfOneSlot { x };
            }
            calls.push(store);
            let apart = Decoded { fused: Some(false), ..Decoded::default() };
            let buffers = BufferList::of([("q", q), ("a", a)]);
            calls.extend(self.attend_rows(attend, apart, buffers)?);
        }
        calls.push(self.merge(attend, a)?);
        Ok(calls)
    }

    /// Whether attention of decoding rows prepares queries and keys and stores keys and values.
    fn fuses(&self, op: &AttentionOp, prepare: &HeadPrep) -> Result<bool, Error> {
        let attention = self.attention_of(op);
        if !attention.fuses() {
            return Ok(false);
        }
        let capabilities = &self.loaded.device.capabilities;
        let source = attention.decode_source(capabilities, 1, Some(prepare))?;
        Ok(capabilities.binds(source.bindings().len()))
    }

    /// Whether attention can add the partial sums of its queries, keys and values.
    pub(super) fn adds_slices(&self, site: Site<'_>, slices: SlicedHeads) -> Result<bool, Error> {
        let Op::RopeAttend(op, attend) = &site.step.op else { return Ok(false) };
        let (prepare, attention) = (self.prepare_of(op), self.attention_of(attend));
        if !attention.adds_slices() || !self.fuses(attend, &prepare)? {
            return Ok(false);
        }
        let capabilities = &self.loaded.device.capabilities;
        let variant = DecodeVariant { slices: Some(slices), ..DecodeVariant::default() };
        let source = attention.decode_variant(capabilities, 1, Some(&prepare), &variant)?;
        Ok(capabilities.binds(source.bindings().len()))
    }

    /// Attention of decoding rows: kernels for one KV split and for several, of which a pass runs
    /// one. `buffers` are q and a, and the further buffers of a fused kernel.
    fn attend_rows<'b>(
        &mut self,
        op: &AttentionOp,
        Decoded { prepare, fused, slices }: Decoded<'_>,
        mut buffers: BufferList<'b>,
    ) -> Result<Vec<Dispatch>, Error>
    where
        'a: 'b,
    {
        let attention = self.attention_of(op);
        self.add_cache(&mut buffers, op.cache);
        buffers.add("splits", &self.loaded.scratch.splits);
        self.add_sinks(&mut buffers, op)?;
        let label = if prepare.is_some() { "rope_attend" } else { "attend" };
        let mut calls = Vec::with_capacity(2);
        for (splits, split) in [(1, false), (2, true)] {
            let capabilities = &self.loaded.device.capabilities;
            let variant = match self.options.phases {
                Some(PhaseOptions { threads, early }) => DecodeVariant { threads, early, slices },
                None => DecodeVariant { slices, ..DecodeVariant::default() },
            };
            let source = attention.decode_variant(capabilities, splits, prepare, &variant)?;
            let grid = Grid::Decode { attention, split, fused };
            calls.push(self.call(label, &source, &buffers, grid)?);
        }
        Ok(calls)
    }

    fn merge(&mut self, op: &AttentionOp, a: &wgpu::Buffer) -> Result<Dispatch, Error> {
        let attention = self.attention_of(op);
        let (rows, splits) = (&self.loaded.inputs.rows, &self.loaded.scratch.splits);
        let mut buffers = BufferList::of([("rows", rows), ("splits", splits), ("a", a)]);
        self.add_sinks(&mut buffers, op)?;
        let source = match self.options.phases {
            Some(phases) => attention.merge_phase(phases.threads)?,
            None => attention.merge_source()?,
        };
        self.call("merge", &source, &buffers, Grid::Merge(attention))
    }

    /// Adds the rows, the page tables, and the keys and values of a layer.
    fn add_cache<'b>(&self, buffers: &mut BufferList<'b>, cache: usize)
    where
        'a: 'b,
    {
        let [keys, values] = self.loaded.caches[cache].bindings();
        buffers.add("rows", &self.loaded.inputs.rows);
        buffers.add_range("tables", self.tables(cache));
        buffers.add("keys", keys);
        buffers.add("values", values);
    }

    /// Adds the scores without values, if there are any.
    fn add_sinks<'b>(&self, buffers: &mut BufferList<'b>, op: &AttentionOp) -> Result<(), Error>
    where
        'a: 'b,
    {
        if let Some(sinks) = op.sinks {
            buffers.add("sinks", self.loaded.weights.vector(sinks)?);
        }
        Ok(())
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
        let (style, pairs) = (rope.style, rope.frequencies.len());
        let by = Coordinates::of(self.loaded.plan, rope);
        Rotation { style, pairs, factor: rope.factor.to_bits(), by }
    }

    /// Adds the steps of a rotation, and the places of rows if it reads them.
    fn add_rotation<'b>(&self, buffers: &mut BufferList<'b>, rope: RopeId)
    where
        'a: 'b,
    {
        buffers.add("rotation_steps", &self.loaded.turns[rope.0]);
        if self.rotation(rope).by != Coordinates::Position {
            buffers.add("places", &self.loaded.inputs.row_places);
        }
    }

    fn prepare_of(&self, op: &RopeStoreOp) -> HeadPrep {
        let eps = |norm: &Option<Norm>| norm.map(|norm| norm.eps);
        HeadPrep {
            q_norm: eps(&op.q_norm),
            k_norm: eps(&op.k_norm),
            rope: Some(self.rotation(op.rope)),
        }
    }

    /// Adds the rotation steps, and the factors of the norms of queries and keys.
    fn add_prepared_with<'b>(
        &self,
        buffers: &mut BufferList<'b>,
        op: &RopeStoreOp,
    ) -> Result<(), Error>
    where
        'a: 'b,
    {
        self.add_rotation(buffers, op.rope);
        for (name, norm) in [("q_norm", op.q_norm), ("k_norm", op.k_norm)] {
            if let Some(norm) = norm {
                buffers.add(name, self.rms_weight(&norm)?);
            }
        }
        Ok(())
    }
}
