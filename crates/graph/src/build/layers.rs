//! A layer: the places of its norms, branches and residual sums.

use super::builder::Builder;
use super::shapes::{LayerShape, Mixer};
use crate::{
    BufferId, Error, Op,
    arch::{Block, Multipliers},
};

impl Builder<'_> {
    pub(super) fn layer(&mut self, index: usize, shape: &LayerShape) -> Result<(), Error> {
        self.layer = Some(index);
        let ffn_norm = self.arch.ffn_norm;
        let has_ffn_norm = self.has(&format!("{ffn_norm}.weight"));
        let by_key = || self.keys.opt_bool("use_parallel_residual");
        let parallel = match self.arch.block {
            Block::Parallel => true,
            Block::ParallelByKey => by_key()?.unwrap_or(true),
            Block::ParallelWithoutNorm => !has_ffn_norm,
            Block::Pre
            | Block::Sandwich
            | Block::SandwichIfPresent
            | Block::PostBranch
            | Block::PostResidual
            | Block::Single => false,
        };
        match self.arch.block {
            Block::PostResidual => self.post_residual(shape)?,
            Block::PostBranch => {
                let x = self.stream();
                self.branch(shape, x, Branch::Mixer(Some("post_attention_norm")))?;
                self.branch(shape, x, Branch::FeedForward(Some("post_ffw_norm")))?;
            }
            Block::Single => {
                let n = self.normed_stream("attn_norm")?;
                self.branch(shape, n, Branch::Mixer(None))?;
            }
            _ if parallel => self.parallel(shape, has_ffn_norm)?,
            block => {
                let of_result = |name: &'static str| match block {
                    Block::SandwichIfPresent => {
                        self.tensors.has(&self.name(&format!("{name}.weight"))).then_some(name)
                    }
                    block => (block == Block::Sandwich).then_some(name),
                };
                let norms = ["post_attention_norm", "post_ffw_norm"].map(of_result);
                if !matches!(shape.mixer, Mixer::None) {
                    let n = self.normed_stream("attn_norm")?;
                    self.branch(shape, n, Branch::Mixer(norms[0]))?;
                }
                if shape.ffn != Some(0) {
                    let n = self.normed_stream(ffn_norm)?;
                    self.branch(shape, n, Branch::FeedForward(norms[1]))?;
                }
            }
        }
        if self.arch.gemma_extras {
            self.per_layer_input(index)?;
        }
        let scale = self.name("layer_output_scale.weight");
        if self.tensors.has(&scale) {
            let x = self.stream();
            for factor in self.tensors.decode(&scale, &[1])? {
                self.in_place(Op::Scale(factor), x);
            }
        }
        self.layer = None;
        Ok(())
    }

    /// The norm of the residual stream, or the stream itself where the first layer of an encoder,
    /// whose embeddings are normed, has none.
    fn normed_stream(&mut self, norm: &str) -> Result<BufferId, Error> {
        let x = self.stream();
        if self.layer == Some(0)
            && self.plan.whole_sequences
            && !self.has(&format!("{norm}.weight"))
        {
            return Ok(x);
        }
        self.normed(norm, x, "n")
    }

    /// The norm of a buffer, in a buffer of this name.
    pub(super) fn normed(
        &mut self,
        norm: &str,
        x: BufferId,
        name: &'static str,
    ) -> Result<BufferId, Error> {
        let width = self.width(x);
        let norm = self.norm(norm, width)?;
        let n = self.buffer(name, width);
        self.step(Op::Norm(norm), &[x], &[n]);
        Ok(n)
    }

    /// A branch from `n`, and its sum with the residual stream.
    fn branch(&mut self, shape: &LayerShape, n: BufferId, branch: Branch) -> Result<(), Error> {
        let (o, norm) = match branch {
            Branch::Mixer(norm) => (self.mixer(shape, n)?, norm),
            Branch::FeedForward(norm) => (self.feed_forward(shape, n, "o")?, norm),
        };
        let o = match norm {
            Some(norm) => self.normed_result(norm, o)?,
            None => o,
        };
        self.add_branch(o)
    }

    /// The norm of a branch's result.
    fn normed_result(&mut self, norm: &str, o: BufferId) -> Result<BufferId, Error> {
        let width = self.width(o);
        let mut norm = self.norm(norm, width)?;
        norm.eps = self.sizes.post_norm_eps;
        let n = self.buffer("o_n", width);
        self.step(Op::Norm(norm), &[o], &[n]);
        Ok(n)
    }

    /// The sum of the residual stream and a branch's result.
    fn add_branch(&mut self, o: BufferId) -> Result<(), Error> {
        let x = self.stream();
        if let Some(factor) = self.residual_scale()? {
            self.in_place(Op::Scale(factor), o);
        }
        self.add(x, o);
        Ok(())
    }

    fn residual_scale(&self) -> Result<Option<f32>, Error> {
        let default = match self.arch.multipliers {
            Multipliers::None => return Ok(None),
            Multipliers::Keys => None,
            Multipliers::MiniCpm => Some(1.4 / (self.sizes.layers as f32).sqrt()),
        };
        Ok(self.keys.opt_nonnegative("residual_scale")?.or(default).filter(|&scale| scale != 1.0))
    }

    fn mixer(&mut self, whole: &LayerShape, n: BufferId) -> Result<BufferId, Error> {
        match &whole.mixer {
            Mixer::Attention(shape) => self.attention(shape, n),
            Mixer::Latent(shape) => self.latent(shape, n),
            Mixer::Delta(shape) => self.delta(shape, n),
            Mixer::ShortConv(shape) => self.gated_conv(shape, n),
            Mixer::Scan(shape) => self.scan(shape, n),
            Mixer::Linear => self.linear("attn_output", n, "o", self.sizes.hidden),
            Mixer::None => Ok(n),
            Mixer::ScanAndAttention(scan, attention) => self.scan_and_attention(scan, attention, n),
            Mixer::FeedForward => self.feed_forward(whole, n, "o"),
        }
    }

    fn parallel(&mut self, shape: &LayerShape, has_ffn_norm: bool) -> Result<(), Error> {
        let x = self.stream();
        let first = self.normed("attn_norm", x, "n")?;
        let (n, ffn_n) = if self.has("attn_norm_2.weight") {
            (self.normed("attn_norm_2", x, "n_2")?, first)
        } else if has_ffn_norm {
            (first, self.normed(self.arch.ffn_norm, x, "n_2")?)
        } else {
            (first, first)
        };
        let o = self.mixer(shape, n)?;
        let f = self.feed_forward(shape, ffn_n, "f")?;
        self.add_branch(o)?;
        self.add_branch(f)
    }

    /// Norms of the sums: the stream is in `x` before and after the layer, and in `h` between.
    fn post_residual(&mut self, shape: &LayerShape) -> Result<(), Error> {
        let x = self.stream();
        let o = self.mixer(shape, x)?;
        self.add(x, o);
        let h = self.normed("attn_output_norm", x, "h")?;
        let o = self.feed_forward(shape, h, "o")?;
        self.add(h, o);
        self.normed("layer_output_norm", h, "x")?;
        Ok(())
    }
}

/// A branch of a layer, and the norm of its result.
enum Branch {
    Mixer(Option<&'static str>),
    FeedForward(Option<&'static str>),
}
