//! Feed-forward networks.

use pelton_weights::Value;

use super::builder::Builder;
use super::shapes::LayerShape;
use crate::{
    Activation, BufferId, Error, Gating, Op, Part, Xielu,
    arch::{FeedForward, Moe},
};

impl Builder<'_> {
    /// The feed-forward network of a layer over `n`, with its result in a buffer of this name.
    pub(super) fn feed_forward(
        &mut self,
        shape: &LayerShape,
        n: BufferId,
        name: &'static str,
    ) -> Result<BufferId, Error> {
        match self.arch.moe {
            Some(moe) if self.has("ffn_gate_inp.weight") => match moe.with_dense {
                true => self.dense_and_experts(shape, n, &moe, name),
                false => self.experts(&moe, n, n, name),
            },
            _ => self.dense(shape, n, name),
        }
    }

    fn dense(
        &mut self,
        shape: &LayerShape,
        n: BufferId,
        name: &'static str,
    ) -> Result<BufferId, Error> {
        let width = match shape.ffn {
            Some(width) => width,
            None => self.keys.size("feed_forward_length", pelton_weights::MAX_SIZE)?,
        };
        let parts = self.arch.ffn_parts;
        if !width.is_multiple_of(parts) {
            let expected = format!("a multiple of {parts}");
            return Err(self.keys.invalid("feed_forward_length", width, expected).into());
        }
        let width = width / parts;
        self.network(["ffn_gate", "ffn_up", "ffn_down"], width, n, name)
    }

    /// A network of these tensors.
    pub(super) fn network(
        &mut self,
        [gate, up, down]: [&str; 3],
        width: usize,
        n: BufferId,
        name: &'static str,
    ) -> Result<BufferId, Error> {
        let g = match self.activation()? {
            FeedForward::Plain(activation) => {
                let g = self.linear(up, n, "g", width)?;
                let op = match self.arch.xielu {
                    true => Op::Xielu(self.xielu()?),
                    false => Op::Activate(activation),
                };
                self.in_place(op, g);
                g
            }
            FeedForward::Gated(activation) => {
                let [gate, up] = self.gate_and_up(gate, up, width, n)?;
                self.scale_by("feed_forward.gate_scale", gate)?;
                let g = self.buffer("g", width);
                self.step(Op::Glu(Gating::Product(activation)), &[gate, up], &[g]);
                g
            }
        };
        let o = self.linear(down, g, name, self.sizes.hidden)?;
        self.scale_by("feed_forward.output_scale", o)?;
        Ok(o)
    }

    /// The factors of a layer's activation: of its tensors, or of the keys that have one for each
    /// layer. Factors of curved parts are stored before their softplus.
    fn xielu(&mut self) -> Result<Xielu, Error> {
        let mut factor = |name: &str| -> Result<f32, Error> {
            let tensor = self.name(&format!("ffn_act.{name}.weight"));
            if self.tensors.has(&tensor) {
                return self.tensors.factor(&tensor);
            }
            let (metadata, key) = (self.keys.metadata(), format!("xielu.{name}"));
            let layer = self.layer.unwrap_or(0);
            let all = match metadata.get(&key) {
                Some(Value::Array(_)) => metadata.f32_array(&key)?,
                _ => vec![metadata.f32(&key)?; layer + 1],
            };
            let found = all.get(layer).copied().filter(|factor| factor.is_finite());
            found.ok_or_else(|| {
                let expected = format!("a finite number for each of {} layers", self.sizes.layers);
                metadata.invalid(&key, format!("{} numbers", all.len()), expected).into()
            })
        };
        let softplus = |x: f32| f64::from(x).exp().ln_1p() as f32;
        let [positive, negative] = [factor("alpha_p")?, factor("alpha_n")?].map(softplus);
        let (linear, bound) = (factor("beta")?, factor("eps")?.min(0.0));
        Ok(Xielu { positive, negative: linear + negative, linear, bound })
    }

    /// The results of the gate and up linears, whose rows may be in one tensor, the gate's first.
    fn gate_and_up(
        &mut self,
        gate: &str,
        up: &str,
        width: usize,
        n: BufferId,
    ) -> Result<[BufferId; 2], Error> {
        if self.has(&format!("{gate}.weight")) {
            return Ok([self.linear(gate, n, "gate", width)?, self.linear(up, n, "up", width)?]);
        }
        let tensor = self.name(up);
        let of = 2 * width;
        let mut part = |first, name| -> Result<BufferId, Error> {
            let row_len = self.sizes.hidden;
            let linear = self.tensors.linear_part(&tensor, Part { first, of }, width, row_len)?;
            let y = self.buffer(name, width);
            self.linear_step(&tensor, linear, n, y)?;
            Ok(y)
        };
        Ok([part(0, "gate")?, part(width, "up")?])
    }

    /// The network's form, with the activation of the key `hidden_activation` if the file has it.
    pub(super) fn activation(&self) -> Result<FeedForward, Error> {
        Ok(match (self.named_activation("hidden_activation")?, self.arch.ffn) {
            (None, form) => form,
            (Some(activation), FeedForward::Gated(_)) => FeedForward::Gated(activation),
            (Some(activation), FeedForward::Plain(_)) => FeedForward::Plain(activation),
        })
    }

    /// The activation that a key names as transformers does; `None` without the key.
    pub(super) fn named_activation(&self, key: &str) -> Result<Option<Activation>, Error> {
        let named = |name| match name {
            "silu" | "swish" => Some(Activation::Silu),
            "gelu" => Some(Activation::GeluErf),
            "gelu_pytorch_tanh" | "gelu_new" | "gelu_fast" => Some(Activation::GeluTanh),
            "relu" => Some(Activation::Relu),
            "relu2" => Some(Activation::ReluSquared),
            "tanh" => Some(Activation::Tanh),
            _ => None,
        };
        let Some(name) = self.keys.opt_string(key)? else { return Ok(None) };
        named(name).map(Some).ok_or_else(|| {
            let expected =
                "\"silu\", \"gelu\", \"gelu_pytorch_tanh\", \"relu\", \"relu2\" or \"tanh\"";
            self.keys.invalid(key, format!("{name:?}"), expected.to_owned()).into()
        })
    }

    /// A dense network and experts in parallel, each with a norm of its result. The experts and
    /// their router read the residual stream by norms of their own (Gemma 4).
    fn dense_and_experts(
        &mut self,
        shape: &LayerShape,
        n: BufferId,
        moe: &Moe,
        name: &'static str,
    ) -> Result<BufferId, Error> {
        let x = self.stream();
        let f = self.dense(shape, n, "f")?;
        let f = self.normed("post_ffw_norm_1", f, "f_n")?;
        let scale = self.name("ffn_gate_inp.scale");
        let mut norm = self.bare_norm();
        norm.weight = Some(self.tensors.vector(&scale, self.sizes.hidden)?);
        let router = self.buffer("router_n", self.sizes.hidden);
        self.step(Op::Norm(norm), &[x], &[router]);
        let per_root = (1.0 / (self.sizes.hidden as f64).sqrt()) as f32;
        self.in_place(Op::Scale(per_root), router);
        let n = self.normed("pre_ffw_norm_2", x, "n")?;
        let o = self.experts(moe, router, n, name)?;
        let o = self.normed("post_ffw_norm_2", o, "o_n")?;
        self.add(f, o);
        Ok(f)
    }
}
