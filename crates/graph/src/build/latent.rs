//! Latent attention with absorbed matrices (DeepSeek-V2, arXiv 2405.04434, section 2.1).

use super::builder::Builder;
use super::shapes::LatentShape;
use crate::{Attention, BufferId, Error, Mask, Norm, Op};

/// Epsilon of the norms of latent vectors in transformers' classes, whatever `rms_norm_eps` is.
const EPS: f32 = 1e-6;

impl Builder<'_> {
    /// The norm of a latent vector, in a buffer of this name.
    fn latent_norm(
        &mut self,
        norm: &str,
        x: BufferId,
        name: &'static str,
    ) -> Result<BufferId, Error> {
        let width = self.width(x);
        let norm = Norm { eps: EPS, ..self.norm(norm, width)? };
        let n = self.buffer(name, width);
        self.step(Op::Norm(norm), &[x], &[n]);
        Ok(n)
    }

    /// Latent attention over `n`, up to the output linear. The cache holds `[latent | rotated key]`
    /// of each row. Queries go into the space of the latent vectors, and results out of it, by a
    /// matrix for each head.
    pub(super) fn latent(&mut self, shape: &LatentShape, n: BufferId) -> Result<BufferId, Error> {
        let &LatentShape { heads, rank, rotated, key_dim, value_dim, .. } = shape;
        let plain = key_dim - rotated;
        let width = rank + rotated;

        let q_rows = heads * key_dim;
        let q = match self.has("attn_q_a.weight") {
            true => {
                let name = self.name("attn_q_a.weight");
                let q_rank = self.tensors.dim(&name, 1);
                let low = self.linear("attn_q_a", n, "q_a", q_rank)?;
                let low = self.latent_norm("attn_q_a_norm", low, "q_a_n")?;
                self.linear("attn_q_b", low, "q", q_rows)?
            }
            false => self.linear("attn_q", n, "q", q_rows)?,
        };
        let q_rotated = self.buffer("q_rotated", heads * rotated);
        if shape.expanded {
            self.copy([q, q_rotated], [heads, rotated], [plain, key_dim], [0, rotated]);
            self.in_place(Op::Rope { rope: shape.rope, heads }, q_rotated);
            self.copy([q_rotated, q], [heads, rotated], [0, rotated], [plain, key_dim]);
            return self.expanded(shape, q, n);
        }
        let q_plain = self.buffer("q_plain", heads * plain);
        self.copy([q, q_plain], [heads, plain], [0, key_dim], [0, plain]);
        self.copy([q, q_rotated], [heads, rotated], [plain, key_dim], [0, rotated]);
        self.in_place(Op::Rope { rope: shape.rope, heads }, q_rotated);
        let name = self.name("attn_k_b.weight");
        let weight = self.tensors.matrices(&name, [heads, rank, plain], None)?;
        let q_latent = self.buffer("q_latent", heads * rank);
        self.step(Op::HeadLinear { weight, heads }, &[q_plain], &[q_latent]);
        let query = self.buffer("q_all", heads * width);
        self.copy([q_latent, query], [heads, rank], [0, rank], [0, width]);
        self.copy([q_rotated, query], [heads, rotated], [0, rotated], [rank, width]);
        if let Some(temper) = &shape.temper {
            self.in_place(temper.clone(), query);
        }

        let [latent, k_rotated] = self.latent_key(shape, n)?;
        let key = self.buffer("k", width);
        self.copy([latent, key], [1, rank], [0, rank], [0, rank]);
        self.copy([k_rotated, key], [1, rotated], [0, rotated], [rank, rotated]);
        self.step(Op::Store { cache: shape.cache }, &[key], &[]);

        let a_latent = self.buffer("a_latent", heads * rank);
        self.step(Op::Attend(attention(shape)), &[query], &[a_latent]);
        let name = self.name("attn_v_b.weight");
        let weight = self.tensors.matrices(&name, [heads, value_dim, rank], None)?;
        let a = self.buffer("a", heads * value_dim);
        self.step(Op::HeadLinear { weight, heads }, &[a_latent], &[a]);
        self.linear("attn_output", a, "o", self.sizes.hidden)
    }
    /// The latent vector of `n` after its norm, and the rotated part of the key.
    fn latent_key(&mut self, shape: &LatentShape, n: BufferId) -> Result<[BufferId; 2], Error> {
        let &LatentShape { rank, rotated, .. } = shape;
        let kv = self.linear("attn_kv_a_mqa", n, "kv", rank + rotated)?;
        let latent = self.buffer("latent", rank);
        let k_rotated = self.buffer("k_rotated", rotated);
        self.copy([kv, latent], [1, rank], [0, rank], [0, rank]);
        self.copy([kv, k_rotated], [1, rotated], [rank, rotated], [0, rotated]);
        let latent = self.latent_norm("attn_kv_a_norm", latent, "latent_n")?;
        self.in_place(Op::Rope { rope: shape.rope, heads: 1 }, k_rotated);
        Ok([latent, k_rotated])
    }

    /// Latent attention of the queries `q`, whose keys and values of all heads one matrix makes of
    /// the latent vectors. The cache holds them.
    fn expanded(
        &mut self,
        shape: &LatentShape,
        q: BufferId,
        n: BufferId,
    ) -> Result<BufferId, Error> {
        let &LatentShape { heads, rotated, key_dim, value_dim, .. } = shape;
        let plain = key_dim - rotated;
        if let Some(temper) = &shape.temper {
            self.in_place(temper.clone(), q);
        }
        let [latent, k_rotated] = self.latent_key(shape, n)?;
        let each = plain + value_dim;
        let both = self.linear("attn_kv_b", latent, "kv_b", heads * each)?;
        let [k, v] = [self.buffer("k", heads * key_dim), self.buffer("v", heads * value_dim)];
        self.copy([both, k], [heads, plain], [0, each], [0, key_dim]);
        self.copy([k_rotated, k], [heads, rotated], [0, 0], [plain, key_dim]);
        self.copy([both, v], [heads, value_dim], [plain, each], [0, value_dim]);
        self.step(Op::Store { cache: shape.cache }, &[k, v], &[]);
        let a = self.buffer("a", heads * value_dim);
        self.step(Op::Attend(attention(shape)), &[q], &[a]);
        self.linear("attn_output", a, "o", self.sizes.hidden)
    }
}

fn attention(shape: &LatentShape) -> Attention {
    Attention {
        cache: shape.cache,
        heads: shape.heads,
        scale: shape.scale,
        mask: Mask::Causal { window: None },
        softcap: None,
        sinks: None,
        alibi: None,
    }
}
