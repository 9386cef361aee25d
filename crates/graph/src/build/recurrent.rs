//! Layers with a recurrent state.

use super::builder::Builder;
use super::shapes::{ConvShape, DeltaShape};
use crate::{Activation, BufferId, Error, GatedDelta, Gating, Norm, NormKind, Op, Part, ShortConv};

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
        let conv = ShortConv {
            state: shape.conv_state,
            weight,
            bias: None,
            taps,
            activation: Activation::Silu,
        };
        self.in_place(Op::ShortConv(conv), qkv);
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

    /// A gated short convolution over `n`, up to the output linear: with rows `b`, `c` and `x` of
    /// one linear, `c · conv(b · x)` (LFM2, arXiv 2511.23404).
    pub(super) fn gated_conv(&mut self, shape: &ConvShape, n: BufferId) -> Result<BufferId, Error> {
        let hidden = self.sizes.hidden;
        let b = self.rows_of("shortconv.in_proj", n, "b_conv", [0, hidden, 3 * hidden])?;
        let c = self.rows_of("shortconv.in_proj", n, "c_conv", [hidden, hidden, 3 * hidden])?;
        let x = self.rows_of("shortconv.in_proj", n, "x_conv", [2 * hidden, hidden, 3 * hidden])?;
        let product = Op::Glu(Gating::Product(Activation::Identity));
        self.step(product.clone(), &[b, x], &[x]);
        let weight = self.name("shortconv.conv.weight");
        let bias = self.name("shortconv.conv.bias");
        let conv = ShortConv {
            state: shape.state,
            weight: self.tensors.matrix(&weight, hidden, shape.taps)?,
            bias: self.tensors.optional_vector(&bias, hidden)?,
            taps: shape.taps,
            activation: Activation::Identity,
        };
        self.in_place(Op::ShortConv(conv), x);
        self.step(product, &[c, x], &[x]);
        self.linear("shortconv.out_proj", x, "o", hidden)
    }

    /// The linear of `rows` rows from `first` on of the tensor `part`, which has `of`.
    pub(super) fn rows_of(
        &mut self,
        part: &str,
        n: BufferId,
        name: &'static str,
        [first, rows, of]: [usize; 3],
    ) -> Result<BufferId, Error> {
        let tensor = self.name(part);
        let width = self.width(n);
        let linear = self.tensors.linear_part(&tensor, Part { first, of }, rows, width)?;
        let y = self.buffer(name, rows);
        self.linear_step(&tensor, linear, n, y)?;
        Ok(y)
    }
}
