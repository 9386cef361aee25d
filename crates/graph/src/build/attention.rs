//! Attention.

use super::builder::Builder;
use super::shapes::AttentionShape;
use crate::{
    Activation, Attention, BufferId, Error, Gating, Norm, Op, Part,
    arch::{Alibi, Presence, QkNorm},
};

impl Builder<'_> {
    /// Attention over `n`, up to the output linear.
    pub(super) fn attention(
        &mut self,
        shape: &AttentionShape,
        n: BufferId,
    ) -> Result<BufferId, Error> {
        let [q, k, v] = self.projections(shape, n)?;
        let (q, gate) = self.query_gate(shape, q);
        let kv = match shape.has_kv {
            true => Some((k, self.values(shape, v)?)),
            false => None,
        };
        let q = self.qk_norm("attn_q_norm", q, "q_n", shape.heads, shape.key_dim)?;
        let kv = match kv {
            Some((k, v)) => {
                Some((self.qk_norm("attn_k_norm", k, "k_n", shape.kv_heads, shape.key_dim)?, v))
            }
            None => None,
        };
        if let Some((k, _)) = kv {
            self.scale_by("attention.key_scale", k)?;
        }
        let keys = kv.map(|(k, _)| ("attn_k_norm", k, shape.kv_heads));
        for (part, buffer, heads) in [("attn_q_norm", q, shape.heads)].into_iter().chain(keys) {
            if let Some(rope) = shape.rope {
                self.in_place(Op::Rope { rope, heads }, buffer);
            }
            if let Some(norm) = self.norm_after_rope(part, shape)? {
                self.in_place(Op::HeadNorm { norm, heads }, buffer);
            }
        }
        if let Some(temper) = &shape.temper {
            self.in_place(temper.clone(), q);
        }
        if let Some((k, v)) = kv {
            self.step(Op::Store { cache: shape.cache }, &[k, v], &[]);
        }
        let a = self.attend(shape, q)?;
        if let Some(gate) = gate {
            self.step(Op::Glu(Gating::Product(Activation::Sigmoid)), &[gate, a], &[a]);
        }
        self.gate_of_results(shape, n, a)?;
        self.linear("attn_output", a, "o", self.sizes.hidden)
    }

    /// Multiplies the results `a` of heads by a gate that is computed from `n`.
    fn gate_of_results(
        &mut self,
        shape: &AttentionShape,
        n: BufferId,
        a: BufferId,
    ) -> Result<(), Error> {
        let Some(activation) = self.arch.attention_gate else { return Ok(()) };
        let of_elements = shape.heads * shape.value_dim;
        let rows = self.tensors.dim(&self.name("attn_gate.weight"), 1);
        let is_of_heads = match self.keys.opt_bool("attention.gate_per_head")? {
            Some(stated) => stated,
            None => rows == shape.heads,
        };
        let rows = if is_of_heads { shape.heads } else { of_elements };
        let gate = self.linear("attn_gate", n, "a_gate", rows)?;
        self.step(Op::Glu(Gating::Product(activation)), &[gate, a], &[a]);
        Ok(())
    }

    fn attend(&mut self, shape: &AttentionShape, q: BufferId) -> Result<BufferId, Error> {
        let sinks = self.name("attn_sinks.weight");
        let sinks = match self.tensors.has(&sinks) {
            true => Some(self.tensors.vector(&sinks, shape.heads)?),
            false => None,
        };
        let softcap = match self.arch.softcap {
            true => self.keys.opt_nonnegative("attn_logit_softcapping")?,
            false => None,
        };
        let attention = Attention {
            cache: shape.cache,
            heads: shape.heads,
            scale: shape.scale,
            mask: shape.mask,
            softcap,
            sinks,
            alibi: self.alibi()?,
        };
        let a = self.buffer("a", shape.heads * shape.value_dim);
        self.step(Op::Attend(attention), &[q], &[a]);
        Ok(a)
    }

    /// The greatest exponent of biases by distance.
    fn alibi(&self) -> Result<Option<f32>, Error> {
        Ok(match self.arch.alibi {
            Alibi::None => None,
            Alibi::Fixed(bias) => Some(bias),
            Alibi::FixedAt(bias, layers) => (self.sizes.layers == layers).then_some(bias),
            Alibi::Key => self.keys.opt_nonnegative("attention.max_alibi_bias")?,
        })
    }

    /// Queries (with gates), keys and values of `n`; keys and values are not computed without a
    /// cache of the layer's own.
    fn projections(&mut self, shape: &AttentionShape, n: BufferId) -> Result<[BufferId; 3], Error> {
        let query_width = shape.heads * shape.key_dim;
        let q_rows = if self.arch.query_gate { 2 * query_width } else { query_width };
        let k_rows = shape.kv_heads * shape.key_dim;
        let v_rows = shape.kv_heads * shape.value_dim;
        let q_name = if self.arch.query_gate { "q_gated" } else { "q" };
        let parts = [("attn_q", q_name, q_rows), ("attn_k", "k", k_rows), ("attn_v", "v", v_rows)];
        let fused = self.has("attn_qkv.weight");
        let bound = self.keys.opt_nonnegative("attention.clamp_kqv")?.filter(|&bound| bound > 0.0);
        let mut first = 0;
        let mut buffers = Vec::new();
        for (part, name, rows) in parts {
            let buffer = self.buffer(name, rows);
            buffers.push(buffer);
            if part != "attn_q" && !shape.has_kv {
                for tensor in ["weight", "bias"] {
                    let unread = self.name(&format!("{part}.{tensor}"));
                    self.tensors.ignore(&unread);
                }
                continue;
            }
            if part == "attn_v" && self.arch.value_norm && !fused && !self.has("attn_v.weight") {
                // values are the keys before norm and rotation
                self.copy([buffers[1], buffer], [1, rows], [0, rows], [0, rows]);
                continue;
            }
            let of = q_rows + k_rows + v_rows;
            let name = self.name(if fused { "attn_qkv" } else { part });
            let linear = match fused {
                true => {
                    self.tensors.linear_part(&name, Part { first, of }, rows, self.sizes.hidden)?
                }
                false => self.tensors.linear(&name, rows, self.sizes.hidden)?,
            };
            first += rows;
            let linear = self.checked_bias(part, fused, rows, linear)?;
            self.linear_step(&name, linear, n, buffer)?;
            if let Some(bound) = bound {
                self.in_place(Op::Clamp { low: -bound, high: bound }, buffer);
            }
        }
        match buffers.as_slice() {
            &[q, k, v] => Ok([q, k, v]),
            _ => unreachable!("three parts"),
        }
    }

    /// The linear with its bias, which some architectures require. The bias has a tensor of its own
    /// where the weight is a part of a fused one.
    fn checked_bias(
        &mut self,
        part: &str,
        fused: bool,
        rows: usize,
        mut linear: crate::Linear,
    ) -> Result<crate::Linear, Error> {
        let name = self.name(&format!("{part}.bias"));
        let is_required = self.arch.qkv_bias == Presence::Required;
        if linear.bias.is_none() && (is_required || (fused && self.tensors.has(&name))) {
            linear.bias = Some(self.tensors.vector(&name, rows)?);
        }
        Ok(linear)
    }

    /// Queries and their gates, which the rows of a linear hold in turns for each head.
    fn query_gate(&mut self, shape: &AttentionShape, q: BufferId) -> (BufferId, Option<BufferId>) {
        if !self.arch.query_gate {
            return (q, None);
        }
        let (heads, dim) = (shape.heads, shape.key_dim);
        let query = self.buffer("q", heads * dim);
        let gate = self.buffer("q_gate", heads * dim);
        self.copy([q, query], [heads, dim], [0, 2 * dim], [0, dim]);
        self.copy([q, gate], [heads, dim], [dim, 2 * dim], [0, dim]);
        (query, Some(gate))
    }

    /// The values after their norm or factor, if they have one.
    fn values(&mut self, shape: &AttentionShape, v: BufferId) -> Result<BufferId, Error> {
        if self.arch.value_norm {
            let norm = self.bare_norm();
            self.in_place(Op::HeadNorm { norm, heads: shape.kv_heads }, v);
        }
        if let Some(factor) = self.keys.opt_positive("attention.value_scale")?
            && factor != 1.0
        {
            self.in_place(Op::Scale(factor), v);
        }
        Ok(v)
    }

    /// The norm of rotated heads. The one without factors exists by the key `attention.qk_norm`
    /// where a layer rotates. Without the key models of 128 experts have none: GGUF has no such
    /// key.
    fn norm_after_rope(
        &mut self,
        part: &str,
        shape: &AttentionShape,
    ) -> Result<Option<Norm>, Error> {
        match self.arch.qk_norm {
            QkNorm::HeadAfterRope => self.norm(part, shape.key_dim).map(Some),
            QkNorm::BareAfterRope if shape.rope.is_some() => {
                let is_bare = match self.keys.opt_bool("attention.qk_norm")? {
                    Some(stated) => stated,
                    None => self.keys.opt_nonzero("expert_count", usize::MAX)? != Some(128),
                };
                Ok(is_bare.then(|| self.bare_norm()))
            }
            _ => Ok(None),
        }
    }

    /// The norm of queries or keys before the rotation.
    fn qk_norm(
        &mut self,
        part: &str,
        buffer: BufferId,
        name: &'static str,
        heads: usize,
        dim: usize,
    ) -> Result<BufferId, Error> {
        let present = self.has(&format!("{part}.weight"));
        let len = match self.arch.qk_norm {
            QkNorm::Row => return self.normed(part, buffer, name),
            QkNorm::Head(Presence::Required) => dim,
            QkNorm::Head(Presence::IfPresent) | QkNorm::HeadOrBare if present => dim,
            QkNorm::HeadOrBare => {
                let norm = self.bare_norm();
                self.in_place(Op::HeadNorm { norm, heads }, buffer);
                return Ok(buffer);
            }
            QkNorm::HeadEach if present => heads * dim,
            QkNorm::None
            | QkNorm::HeadAfterRope
            | QkNorm::BareAfterRope
            | QkNorm::Head(_)
            | QkNorm::HeadEach => return Ok(buffer),
        };
        let norm = match heads > 1 && self.arch.qk_norm == QkNorm::HeadEach {
            true => {
                let name = self.name(&format!("{part}.weight"));
                let weight = Some(self.tensors.head_vectors(&name, heads, dim)?);
                Norm { kind: self.arch.norm, weight, bias: None, eps: self.sizes.eps }
            }
            false => self.norm(part, len)?,
        };
        self.in_place(Op::HeadNorm { norm, heads }, buffer);
        Ok(buffer)
    }
}
