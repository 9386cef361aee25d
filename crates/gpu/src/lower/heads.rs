//! The steps around attention.

use pelton_graph::{
    Attention as AttentionOp, BufferId, Error, Norm, RopeId, RopeStore as RopeStoreOp,
};

use super::{Call, Class, Groups, Lowering, whole};
use crate::{
    attention::Attention,
    rope_store::{Caches, Prepare, RopeStore, Rotation},
};

/// The keys and values of one layer.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) keys: wgpu::Buffer,
    pub(crate) values: wgpu::Buffer,
}

impl<'a> Lowering<'a> {
    /// Norms, rotation and store of queries, keys and values that lie in `q`, `k` and `v`.
    pub(super) fn rope_store(
        &mut self,
        op: &RopeStoreOp,
        [q, k, v]: [&wgpu::Buffer; 3],
    ) -> Result<Call, Error> {
        let step = RopeStore {
            heads: op.heads,
            head_dim: self.plan.caches[op.cache].head_dim,
            prepare: self.prepare_of(op),
            store: Some(self.caches(op.cache)),
        };
        let cache = &self.caches[op.cache];
        let mut buffers = vec![&self.inputs.rows, q, k, v, &self.inputs.tables];
        buffers.extend([&cache.keys, &cache.values]);
        buffers.extend(self.prepared_with(op)?);
        self.rope_store_call(&step, &buffers)
    }

    /// The rotation of the heads of one buffer.
    pub(super) fn rope(&mut self, rope: RopeId, heads: usize, x: BufferId) -> Result<Call, Error> {
        let prepare = Prepare { rope: Some(self.rotation(rope)), ..Prepare::default() };
        let head_dim = self.plan.buffer(x).width / heads;
        let step = RopeStore { heads, head_dim, prepare, store: None };
        let buffers = [&self.inputs.rows, &self.buffers[x.0], &self.turns[rope.0]];
        self.rope_store_call(&step, &buffers)
    }

    /// The store of keys and values as they are.
    pub(super) fn store(
        &mut self,
        cache: usize,
        [k, v]: [&wgpu::Buffer; 2],
    ) -> Result<Call, Error> {
        let step = RopeStore {
            heads: 0,
            head_dim: self.plan.caches[cache].head_dim,
            prepare: Prepare::default(),
            store: Some(self.caches(cache)),
        };
        let Cache { keys, values } = &self.caches[cache];
        let buffers = [&self.inputs.rows, k, v, &self.inputs.tables, keys, values];
        self.rope_store_call(&step, &buffers)
    }

    fn rope_store_call(
        &mut self,
        step: &RopeStore,
        buffers: &[&wgpu::Buffer],
    ) -> Result<Call, Error> {
        let groups = Groups::Rows { x: step.groups(1)[0], batch: 1 };
        self.call(&step.source()?, &step.bindings(), "rope_store", &whole(buffers), groups)
    }

    /// Attention of queries that are prepared.
    pub(super) fn attend(
        &mut self,
        op: &AttentionOp,
        q: &wgpu::Buffer,
        a: &wgpu::Buffer,
        class: Class,
    ) -> Result<Vec<Call>, Error> {
        let attention = self.attention(op);
        let Cache { keys, values } = &self.caches[op.cache];
        let (rows, tables) = (&self.inputs.rows, &self.inputs.tables);
        if class == Class::Many {
            let buffers = [rows, tables, &self.inputs.tiles, q, keys, values, a];
            let (source, bindings) = (attention.many_source()?, Attention::many_bindings());
            let groups = Groups::Tiled(attention);
            return Ok(vec![self.call(&source, &bindings, "attend", &whole(&buffers), groups)?]);
        }
        let buffers = [rows, tables, q, keys, values, a, &self.scratch.parts];
        self.few(&attention, None, &buffers, a)
    }

    /// Norms, rotation, store and attention: one kernel for a row that is alone.
    pub(super) fn rope_attend(
        &mut self,
        op: &RopeStoreOp,
        attend: &AttentionOp,
        [q, k, v]: [&wgpu::Buffer; 3],
        a: &wgpu::Buffer,
        class: Class,
    ) -> Result<Vec<Call>, Error> {
        let attention = self.attention(attend);
        if class != Class::One || !attention.fuses() {
            let mut calls = vec![self.rope_store(op, [q, k, v])?];
            calls.extend(self.attend(attend, q, a, class)?);
            return Ok(calls);
        }
        let prepare = self.prepare_of(op);
        let Cache { keys, values } = &self.caches[op.cache];
        let (rows, tables) = (&self.inputs.rows, &self.inputs.tables);
        let mut buffers = vec![rows, tables, q, keys, values, a, &self.scratch.parts, k, v];
        buffers.extend(self.prepared_with(op)?);
        self.few(&attention, Some(&prepare), &buffers, a)
    }

    /// Attention of few rows: in one part, or in several that are merged, as a pass needs.
    fn few(
        &mut self,
        attention: &Attention,
        fused: Option<&Prepare>,
        buffers: &[&wgpu::Buffer],
        a: &wgpu::Buffer,
    ) -> Result<Vec<Call>, Error> {
        let label = if fused.is_some() { "rope_attend" } else { "attend" };
        let bindings = Attention::few_bindings(fused);
        let mut calls = Vec::with_capacity(3);
        for (splits, groups) in [(1, Groups::Whole(*attention)), (2, Groups::Split(*attention))] {
            let source = attention.few_source(&self.device.abilities, splits, fused)?;
            calls.push(self.call(&source, &bindings, label, &whole(buffers), groups)?);
        }
        calls.push(self.merge(attention, a)?);
        Ok(calls)
    }

    fn merge(&mut self, attention: &Attention, a: &wgpu::Buffer) -> Result<Call, Error> {
        let buffers = [&self.scratch.parts, a];
        let (source, bindings) = (attention.merge_source()?, Attention::merge_bindings());
        let groups = Groups::Merged(*attention);
        self.call(&source, &bindings, "merge", &whole(&buffers), groups)
    }

    fn attention(&self, op: &AttentionOp) -> Attention {
        Attention {
            heads: op.heads,
            head_dim: self.plan.caches[op.cache].head_dim,
            scale: op.scale,
            window: op.window,
            caches: self.caches(op.cache),
        }
    }

    fn caches(&self, cache: usize) -> Caches {
        let (kv_heads, table) = (self.plan.caches[cache].heads, self.inputs.table);
        Caches { kv_heads, kv: self.kv, table }
    }

    fn rotation(&self, rope: RopeId) -> Rotation {
        let rope = self.plan.rope(rope);
        Rotation { style: rope.style, pairs: rope.frequencies.len() }
    }

    fn prepare_of(&self, op: &RopeStoreOp) -> Prepare {
        let eps = |norm: &Option<Norm>| norm.map(|norm| norm.eps);
        Prepare {
            q_norm: eps(&op.q_norm),
            k_norm: eps(&op.k_norm),
            rope: Some(self.rotation(op.rope)),
        }
    }

    /// The buffers of [`Prepare::bindings`].
    fn prepared_with(&self, op: &RopeStoreOp) -> Result<Vec<&'a wgpu::Buffer>, Error> {
        let mut buffers = vec![&self.turns[op.rope.0]];
        for norm in [op.q_norm, op.k_norm].into_iter().flatten() {
            buffers.push(self.weights.vector(norm.weight)?);
        }
        Ok(buffers)
    }
}
