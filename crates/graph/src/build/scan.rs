//! Selective scans of state spaces.

use super::builder::Builder;
use super::shapes::{AttentionShape, ScanShape};
use crate::{
    Activation, BufferId, Error, Gating, Norm, NormKind, Op, SelectiveScan, ShortConv, WeightId,
    arch::MixerRule,
};

impl Builder<'_> {
    /// A selective scan over `n`, up to the output linear (Mamba-2, arXiv 2405.21060, figure 6).
    /// One linear has gates, inputs and steps. A convolution mixes the inputs before the scan.
    pub(super) fn scan(&mut self, shape: &ScanShape, n: BufferId) -> Result<BufferId, Error> {
        let &ScanShape { heads, groups, head_dim, state_dim, taps, steps: [low, high], .. } = shape;
        let (inner, channels) = (shape.inner(), shape.channels());
        let of = inner + channels + heads;
        let z = self.rows_of("ssm_in", n, "z", [0, inner, of])?;
        self.scale_by("ssm.gate_scale", z)?;
        let xbc = self.rows_of("ssm_in", n, "xbc", [inner, channels, of])?;
        let (width, mut first) = (groups * state_dim, 0);
        for (key, name, rows) in [
            ("ssm.x_scale", "x_scan", inner),
            ("ssm.b_scale", "bc_scan", width),
            ("ssm.c_scale", "bc_scan", width),
        ] {
            if self.factor(key)?.is_some() {
                let part = self.buffer(name, rows);
                self.copy([xbc, part], [1, rows], [first, rows], [0, rows]);
                self.scale_by(key, part)?;
                self.copy([part, xbc], [1, rows], [0, rows], [first, rows]);
            }
            first += rows;
        }
        let dt = self.rows_of("ssm_in", n, "dt", [inner + channels, heads, of])?;
        self.scale_by("ssm.step_scale", dt)?;

        let [weight, bias] = ["ssm_conv1d.weight", "ssm_conv1d.bias"].map(|part| self.name(part));
        let conv = ShortConv {
            state: shape.conv_state,
            weight: self.tensors.matrix(&weight, channels, taps)?,
            bias: self.tensors.optional_vector(&bias, channels)?,
            taps,
            activation: Activation::Silu,
        };
        self.in_place(Op::ShortConv(conv), xbc);
        let shift = self.name("ssm_dt.bias");
        let scan = SelectiveScan {
            state: shape.state,
            heads,
            groups,
            head_dim,
            state_dim,
            rate: self.of_heads("ssm_a", heads)?,
            skip: self.of_heads("ssm_d", heads)?,
            shift: self.tensors.vector(&shift, heads)?,
            low,
            high,
        };
        let y = self.buffer("y_scan", inner);
        self.step(Op::SelectiveScan(scan), &[xbc, dt], &[y]);
        let gate = Op::Glu(Gating::Product(Activation::Silu));
        let gate_last = self.keys.opt_bool("ssm.norm_before_gate")?.unwrap_or(false);
        if !gate_last {
            self.step(gate.clone(), &[z, y], &[y]);
        }
        let norm = self.name("ssm_norm.weight");
        if self.tensors.has(&norm) {
            let weight = Some(self.tensors.head_vectors(&norm, groups, inner / groups)?);
            let norm = Norm { kind: NormKind::Rms, weight, bias: None, eps: self.sizes.eps };
            self.in_place(Op::HeadNorm { norm, heads: groups }, y);
        }
        if gate_last {
            self.step(gate, &[z, y], &[y]);
        }
        self.linear("ssm_out", y, "o", self.sizes.hidden)
    }

    /// The sum of a scan and attention over `n` (Falcon-H1, arXiv 2507.22448). Directories have
    /// factors of the inputs and results, which GGUF files have in their weights.
    pub(super) fn scan_and_attention(
        &mut self,
        scan: &ScanShape,
        attention: &AttentionShape,
        n: BufferId,
    ) -> Result<BufferId, Error> {
        let hidden = self.sizes.hidden;
        let sum = self.buffer("o_sum", hidden);
        let input = self.scaled("ssm.input_scale", n)?;
        let o = self.scan(scan, input)?;
        self.scale_by("ssm.output_scale", o)?;
        self.copy([o, sum], [1, hidden], [0, hidden], [0, hidden]);
        let input = self.scaled("attention.input_scale", n)?;
        let o = self.attention(attention, input)?;
        self.scale_by("attention.output_scale", o)?;
        self.add(sum, o);
        Ok(sum)
    }

    /// A copy of a buffer times the factor of a key, or the buffer itself without the key.
    fn scaled(&mut self, key: &str, x: BufferId) -> Result<BufferId, Error> {
        if self.factor(key)?.is_none() {
            return Ok(x);
        }
        let width = self.width(x);
        let y = self.buffer("n_scaled", width);
        self.copy([x, y], [1, width], [0, width], [0, width]);
        self.scale_by(key, y)?;
        Ok(y)
    }

    /// Multiplies a buffer by the factor of a key, if the file has it.
    pub(super) fn scale_by(&mut self, key: &str, x: BufferId) -> Result<(), Error> {
        if let Some(factor) = self.factor(key)? {
            self.in_place(Op::Scale(factor), x);
        }
        Ok(())
    }

    /// The factor of a key, of architectures that have such keys; `None` for 1.
    fn factor(&self, key: &str) -> Result<Option<f32>, Error> {
        if self.arch.mixer != MixerRule::ScanAndAttention {
            return Ok(None);
        }
        Ok(self.keys.opt_positive(key)?.filter(|&factor| factor != 1.0))
    }

    /// An element of each head, in a tensor `[heads, 1]`.
    fn of_heads(&mut self, part: &str, heads: usize) -> Result<WeightId, Error> {
        let name = self.name(part);
        self.tensors.head_vectors(&name, heads, 1)
    }
}
