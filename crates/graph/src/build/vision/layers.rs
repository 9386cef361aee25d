//! The steps of a tower: patches, then layers of attention over all patches of a picture.

use super::super::builder::bare_norm;
use super::super::tensors::Tensors;
use super::family::{Family, Places, Rotation};
use super::sizes::Sizes;
use super::steps::Steps;
use crate::{
    Attention, BufferId, Cache, CacheGroup, Error, Gating, Mask, NormKind, Op, Part, Plan, Rope,
    RopeId, arch::FeedForward,
};
use pelton_weights::Source;

/// The plan of a tower.
pub(super) fn build(of: &Family, sizes: &Sizes, tensors: &mut Tensors<'_>) -> Result<Plan, Error> {
    let source = tensors.source();
    let mut steps = Steps::new(of.name, sizes, tensors);
    if of.has_layers {
        // all layers share the keys and values of a pass
        steps.plan.caches = vec![Cache::new(sizes.heads, sizes.head_dim, 0)];
        steps.plan.groups = vec![CacheGroup { window: None }];
    }
    steps.plan.ropes = of.rotation.iter().map(|of| rope(of, sizes.head_dim, source)).collect();
    let pixels = steps.entry("pixels", sizes.pixels);
    let pixels = steps.norm_around_patches(1, pixels, "pixels_n")?;
    let x = steps.linear("v.patch_embd", pixels, "x", sizes.hidden)?;
    let mut x = steps.norm_around_patches(2, x, "x_n")?;
    if of.places != Places::None {
        // the host makes a picture's rows of its table
        let places = steps.entry("places", sizes.hidden);
        steps.step(Op::Add, &[x, places], &[x]);
    }
    x = steps.norm_around_patches(3, x, "x_p")?;
    if steps.tensors.has("v.pre_ln.weight") {
        let normed = steps.norm(sizes.norm, "v.pre_ln", x, "x_n")?;
        x = normed;
    }
    let mut kept = Vec::new();
    for layer in 0..sizes.layers {
        steps.layer = Some(layer);
        let mask = match sizes.window > 0 && !(layer + 1).is_multiple_of(sizes.full_every) {
            true => Mask::Group,
            false => Mask::Symmetric { window: None },
        };
        steps.block(of, sizes, &format!("v.blk.{layer}"), mask, x)?;
        if sizes.deepstack.contains(&layer) {
            let deep = steps.new_buffer("deep", sizes.hidden);
            steps.copy(x, deep);
            kept.push(deep);
        }
    }
    steps.layer = None;
    for name in ["v.post_ln", "mm.input_norm"] {
        if steps.tensors.has(&format!("{name}.weight")) {
            x = steps.norm(sizes.norm, name, x, "states")?;
        }
    }
    Ok(steps.finish([vec![x], kept].concat()))
}

/// The rotation of heads of this width.
fn rope(of: &Rotation, head_dim: usize, source: Source) -> Rope {
    let quarter = head_dim / 4;
    let frequency = |i: usize| {
        let exponent = match of.alternates {
            // the pairs of rows have the even places, the pairs of columns the odd ones
            true => 2 * (2 * (i % quarter) + i / quarter),
            false => 4 * (i % quarter),
        };
        of.theta.powf(-(exponent as f64) / head_dim as f64) as f32
    };
    let pairs = 0..2 * quarter;
    Rope {
        style: if source == Source::Gguf { of.gguf_style } else { of.style },
        frequencies: pairs.clone().map(frequency).collect(),
        axes: pairs.map(|i| of.axes[i / quarter]).collect(),
        factor: 1.0,
        scaling: "",
    }
}

impl Steps<'_, '_> {
    /// A norm around the matrix of patches, where the tower has it: PyTorch's layer norm.
    fn norm_around_patches(
        &mut self,
        number: usize,
        x: BufferId,
        to: &'static str,
    ) -> Result<BufferId, Error> {
        let name = format!("v.patch_norm.{number}");
        if !self.tensors.has(&format!("{name}.weight")) {
            return Ok(x);
        }
        let own = std::mem::replace(&mut self.eps, 1e-5);
        let normed = self.norm(NormKind::Layer, &name, x, to);
        self.eps = own;
        normed
    }

    /// A layer: `x += out(attention(ln1(x)))`, then `x += network(ln2(x))`, where a branch's
    /// result may have a norm too.
    fn block(
        &mut self,
        of: &Family,
        sizes: &Sizes,
        block: &str,
        mask: Mask,
        x: BufferId,
    ) -> Result<(), Error> {
        let n = self.norm(sizes.norm, &format!("{block}.ln1"), x, "n")?;
        let a = self.attention(of, sizes, block, mask, n)?;
        let o = self.linear(&format!("{block}.attn_out"), a, "o", sizes.hidden)?;
        self.add_branch(sizes.norm, &format!("{block}.attn_post_norm"), x, o)?;
        let n = self.norm(sizes.norm, &format!("{block}.ln2"), x, "n")?;
        let o = self.network(of, sizes, block, n)?;
        self.add_branch(sizes.norm, &format!("{block}.ffn_post_norm"), x, o)
    }

    fn add_branch(
        &mut self,
        kind: NormKind,
        norm: &str,
        x: BufferId,
        mut o: BufferId,
    ) -> Result<(), Error> {
        if self.tensors.has(&format!("{norm}.weight")) {
            o = self.norm(kind, norm, o, "o_n")?;
        }
        self.step(Op::Add, &[x, o], &[x]);
        Ok(())
    }

    fn attention(
        &mut self,
        of: &Family,
        sizes: &Sizes,
        block: &str,
        mask: Mask,
        n: BufferId,
    ) -> Result<BufferId, Error> {
        let inner = sizes.heads * sizes.head_dim;
        let [q, k, v] = ["q", "k", "v"].map(|name| self.buffer(name, inner));
        let fused = format!("{block}.attn_qkv");
        for (i, (part, y)) in [("attn_q", q), ("attn_k", k), ("attn_v", v)].into_iter().enumerate()
        {
            match self.tensors.has(&format!("{fused}.weight")) {
                true => {
                    self.linear_part(&fused, Part { first: i * inner, of: 3 * inner }, n, y)?;
                }
                false => self.linear_to(&format!("{block}.{part}"), n, y)?,
            }
        }
        for (part, y) in [("attn_q_norm", q), ("attn_k_norm", k)] {
            self.head_norm(sizes, &format!("{block}.{part}"), y)?;
        }
        if of.gemma_attention {
            let norm = bare_norm(self.eps);
            self.in_place(Op::HeadNorm { norm, heads: sizes.heads }, v);
        }
        if of.rotation.is_some() {
            for y in [q, k] {
                self.in_place(Op::Rope { rope: RopeId(0), heads: sizes.heads }, y);
            }
        }
        self.step(Op::Store { cache: 0 }, &[k, v], &[]);
        let root = (1.0 / (sizes.head_dim as f64).sqrt()) as f32;
        let attention = Attention {
            cache: 0,
            heads: sizes.heads,
            scale: if of.gemma_attention { 1.0 } else { root },
            mask,
            softcap: None,
            sinks: None,
            alibi: None,
        };
        let a = self.buffer("a", inner);
        self.step(Op::Attend(attention), &[q], &[a]);
        Ok(a)
    }

    /// The norm of queries or keys, if the file has it: of each head, or of all heads together by
    /// the width of its tensor.
    fn head_norm(&mut self, sizes: &Sizes, name: &str, y: BufferId) -> Result<(), Error> {
        let len = self.tensors.dim(&format!("{name}.weight"), 0);
        if len == 0 {
            return Ok(());
        }
        let heads = if len == sizes.head_dim { sizes.heads } else { 1 };
        let len = self.width(y) / heads;
        let norm = self.tensors.norm(NormKind::Rms, name, len, self.eps)?;
        self.in_place(Op::HeadNorm { norm, heads }, y);
        Ok(())
    }

    fn network(
        &mut self,
        of: &Family,
        sizes: &Sizes,
        block: &str,
        n: BufferId,
    ) -> Result<BufferId, Error> {
        let name = |part: &str| format!("{block}.{part}");
        let g = match of.ffn {
            FeedForward::Plain(activation) => {
                let g = self.linear(&name("ffn_up"), n, "g", sizes.ffn)?;
                self.in_place(Op::Activate(activation), g);
                g
            }
            FeedForward::Gated(activation) => {
                let gate = self.linear(&name("ffn_gate"), n, "gate", sizes.ffn)?;
                let up = self.linear(&name("ffn_up"), n, "up", sizes.ffn)?;
                let g = self.buffer("g", sizes.ffn);
                self.step(Op::Glu(Gating::Product(activation)), &[gate, up], &[g]);
                g
            }
        };
        self.linear(&name("ffn_down"), g, "o", sizes.hidden)
    }
}
