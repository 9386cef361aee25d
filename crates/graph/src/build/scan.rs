//! Selective scans of state spaces.

use super::builder::Builder;
use super::shapes::ScanShape;
use crate::{
    Activation, BufferId, Error, Gating, Norm, NormKind, Op, SelectiveScan, ShortConv, WeightId,
};

impl Builder<'_> {
    /// A selective scan over `n`, up to the output linear (Mamba-2, arXiv 2405.21060, figure 6).
    /// One linear has gates, inputs and steps. A convolution mixes the inputs before the scan.
    pub(super) fn scan(&mut self, shape: &ScanShape, n: BufferId) -> Result<BufferId, Error> {
        let &ScanShape { heads, groups, head_dim, state_dim, taps, steps: [low, high], .. } = shape;
        let (inner, channels) = (shape.inner(), shape.channels());
        let of = inner + channels + heads;
        let z = self.rows_of("ssm_in", n, "z", [0, inner, of])?;
        let xbc = self.rows_of("ssm_in", n, "xbc", [inner, channels, of])?;
        let dt = self.rows_of("ssm_in", n, "dt", [inner + channels, heads, of])?;

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
        self.step(Op::Glu(Gating::Product(Activation::Silu)), &[z, y], &[y]);
        let norm = self.name("ssm_norm.weight");
        if self.tensors.has(&norm) {
            let weight = Some(self.tensors.head_vectors(&norm, groups, inner / groups)?);
            let norm = Norm { kind: NormKind::Rms, weight, bias: None, eps: self.sizes.eps };
            self.in_place(Op::HeadNorm { norm, heads: groups }, y);
        }
        self.linear("ssm_out", y, "o", self.sizes.hidden)
    }

    /// An element of each head, in a tensor `[heads, 1]`.
    fn of_heads(&mut self, part: &str, heads: usize) -> Result<WeightId, Error> {
        let name = self.name(part);
        self.tensors.head_vectors(&name, heads, 1)
    }
}
