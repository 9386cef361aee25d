//! Layers with a recurrent state.

use super::builder::Builder;
use super::shapes::DeltaShape;
use crate::{Activation, BufferId, Error, GatedDelta, Gating, Norm, NormKind, Op, ShortConv};

/// The epsilon of the norms of queries and keys, which no key tells; transformers has it in code.
const QK_EPS: f32 = 1e-6;

impl Builder<'_> {
    /// Linear attention over `n` by the gated delta rule, up to the output linear.
    pub(super) fn delta(&mut self, shape: &DeltaShape, n: BufferId) -> Result<BufferId, Error> {
        let &DeltaShape { key_heads, value_heads, key_dim, value_dim, taps, .. } = shape;
        let (keys, values, channels) = (shape.keys_width(), shape.values_width(), shape.channels());
        let qkv = self.linear("attn_qkv", n, "qkv", channels)?;
        let z = self.linear("attn_gate", n, "z", values)?;
        let [beta, alpha] = self.beta_alpha(shape, n)?;

        let name = self.name("ssm_conv1d.weight");
        let weight = self.tensors.matrix(&name, channels, taps)?;
        self.in_place(Op::ShortConv(ShortConv { state: shape.conv_state, weight, taps }), qkv);
        let [q, k, v] = [
            self.buffer("q_delta", keys),
            self.buffer("k_delta", keys),
            self.buffer("v_delta", values),
        ];
        for (to, width, offset) in [(q, keys, 0), (k, keys, keys), (v, values, 2 * keys)] {
            self.copy([qkv, to], [1, width], [offset, width], [0, width]);
        }
        let norm = Norm { kind: NormKind::L2, weight: None, bias: None, eps: QK_EPS };
        for buffer in [q, k] {
            self.in_place(Op::HeadNorm { norm, heads: key_heads }, buffer);
        }

        let rate = self.name("ssm_a");
        let shift = self.name("ssm_dt.bias");
        let delta = GatedDelta {
            state: shape.state,
            key_heads,
            value_heads,
            key_dim,
            value_dim,
            grouped: shape.grouped,
            rate: self.tensors.vector(&rate, value_heads)?,
            shift: self.tensors.vector(&shift, value_heads)?,
        };
        let a = self.buffer("a_delta", values);
        self.step(Op::GatedDelta(delta), &[q, k, v, alpha, beta], &[a]);
        let norm = self.norm("ssm_norm", value_dim)?;
        self.in_place(Op::HeadNorm { norm, heads: value_heads }, a);
        self.step(Op::Glu(Gating::Product(Activation::Silu)), &[z, a], &[a]);
        self.linear("ssm_out", a, "o", self.sizes.hidden)
    }

    /// The logits of what is written to the state, and the parameter of its decay
    /// `[value_heads]` each. One fused linear holds both for each key head in turn.
    fn beta_alpha(&mut self, shape: &DeltaShape, n: BufferId) -> Result<[BufferId; 2], Error> {
        let &DeltaShape { key_heads, value_heads, .. } = shape;
        if !self.has("ssm_ba.weight") {
            return Ok([
                self.linear("ssm_beta", n, "beta", value_heads)?,
                self.linear("ssm_alpha", n, "alpha", value_heads)?,
            ]);
        }
        let both = self.linear("ssm_ba", n, "beta_alpha", 2 * value_heads)?;
        let group = value_heads / key_heads;
        let [beta, alpha] = [self.buffer("beta", value_heads), self.buffer("alpha", value_heads)];
        for (to, offset) in [(beta, 0), (alpha, group)] {
            self.copy([both, to], [key_heads, group], [offset, 2 * group], [0, group]);
        }
        Ok([beta, alpha])
    }
}
