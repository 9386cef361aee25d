//! Layers with a recurrent state: short convolutions, and linear attention.

use minijinja::{Value, context};
use pelton_graph::{Activation, Error, GatedDelta as GatedDeltaOp};

use crate::{
    device::{Capabilities, KernelSource},
    kernels::template,
};

/// A short convolution of `channels` channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortConv {
    /// Elements of a row.
    pub(crate) channels: usize,
    /// Taps, at least 2.
    pub(crate) taps: usize,
    /// Whether a summand of each channel is bound.
    pub(crate) has_bias: bool,
    /// The function of each sum.
    pub(crate) activation: Activation,
}

impl ShortConv {
    /// Maximum taps: a thread holds as many inputs and factors in registers.
    pub(crate) const TAPS: usize = 16;

    /// Workgroups along the channels.
    pub(crate) fn groups(&self) -> u32 {
        self.channels.div_ceil(64) as u32
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self) -> Result<KernelSource, Error> {
        /// Rows whose inputs are loaded at once.
        const AHEAD: usize = 8;
        let &Self { channels, taps, has_bias, activation } = self;
        let activation = activation.name();
        template::render(
            "short_conv.wgsl",
            context! { channels, taps, has_bias, activation, element => "f32", ahead => AHEAD },
        )
    }
}

/// A linear attention. A device whose kernels bind few buffers runs two of them: the first packs
/// the operands of each row into one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatedDelta(pub(crate) GatedDeltaOp);

impl GatedDelta {
    /// Threads of a workgroup.
    const THREADS: usize = 128;
    /// Maximum elements of a column that a thread holds in registers.
    const EACH: usize = 64;
    /// Buffers of the kernel that reads operands where other steps wrote them.
    const BUFFERS: usize = 12;

    /// Threads that hold a column: adjacent lanes of one subgroup.
    fn lanes(&self, capabilities: &Capabilities) -> usize {
        let most = (capabilities.subgroup as usize).clamp(1, 8).min(self.0.key_dim.max(1));
        1 << most.ilog2()
    }

    /// Whether the kernel can compute it.
    pub(crate) fn fits(&self, capabilities: &Capabilities) -> bool {
        let GatedDeltaOp {
            state: _,
            key_heads,
            value_heads,
            key_dim,
            value_dim,
            grouped: _,
            rate: _,
            shift: _,
        } = self.0;
        key_heads > 0
            && value_heads > 0
            && value_heads.is_multiple_of(key_heads)
            && value_dim > 0
            && (1..=Self::EACH * self.lanes(capabilities)).contains(&key_dim)
    }

    /// Workgroups along the columns, and along the value heads.
    pub(crate) fn groups(&self, capabilities: &Capabilities) -> [u32; 2] {
        let columns = Self::THREADS / self.lanes(capabilities);
        [self.0.value_dim.div_ceil(columns) as u32, self.0.value_heads as u32]
    }

    /// Whether the operands are packed first, because the device binds fewer buffers than there
    /// are.
    pub(crate) fn packs(capabilities: &Capabilities) -> bool {
        !capabilities.binds(Self::BUFFERS)
    }

    /// Elements of a row of packed operands: keys, queries, values, a factor and a
    /// gate of each value head.
    pub(crate) fn packed_len(&self) -> usize {
        let op = &self.0;
        2 * op.key_heads * op.key_dim + op.value_heads * (op.value_dim + 2)
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self, capabilities: &Capabilities) -> Result<KernelSource, Error> {
        let GatedDeltaOp { key_dim, grouped, .. } = self.0;
        let (lanes, threads) = (self.lanes(capabilities), Self::THREADS);
        let each = key_dim.div_ceil(lanes);
        let scale = template::float((key_dim as f64).sqrt().recip() as f32);
        let packed = Self::packs(capabilities);
        template::render(
            "gated_delta.wgsl",
            context! {
                grouped, lanes, threads, each, scale, packed,
                exact => each * lanes == key_dim,
                columns => threads / lanes,
                ..self.shape()
            },
        )
    }

    /// The WGSL of the kernel that packs.
    pub(crate) fn packing_source(&self) -> Result<KernelSource, Error> {
        let threads = Self::THREADS;
        template::render("delta_operands.wgsl", context! { threads, ..self.shape() })
    }

    /// The numbers and lengths of heads that both kernels are written for.
    fn shape(&self) -> Value {
        let GatedDeltaOp {
            state: _,
            key_heads,
            value_heads,
            key_dim,
            value_dim,
            grouped: _,
            rate: _,
            shift: _,
        } = self.0;
        context! { key_heads, value_heads, key_dim, value_dim }
    }
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    use pelton_graph::WeightId;

    let mut all = Vec::new();
    for (channels, taps, has_bias, activation) in
        [(33, 2, true, Activation::Silu), (8192, 4, false, Activation::Identity)]
    {
        let conv = ShortConv { channels, taps, has_bias, activation };
        all.push((format!("{conv:?}"), conv.source().unwrap()));
    }
    for (key_heads, value_heads, key_dim, value_dim, grouped) in
        [(16, 32, 128, 128, true), (2, 6, 10, 7, false)]
    {
        for subgroup in [4, 32] {
            let (state, rate, shift) = (0, WeightId(0), WeightId(1));
            let delta = GatedDeltaOp {
                state,
                key_heads,
                value_heads,
                key_dim,
                value_dim,
                grouped,
                rate,
                shift,
            };
            let few = Capabilities { storage_buffers: 8, ..crate::testing::capabilities(subgroup) };
            for capabilities in [crate::testing::capabilities(subgroup), few] {
                let name = format!("{delta:?} by {subgroup}, {}", GatedDelta::packs(&capabilities));
                all.push((name, GatedDelta(delta).source(&capabilities).unwrap()));
            }
            let packing = GatedDelta(delta).packing_source();
            all.push((format!("operands of {delta:?}"), packing.unwrap()));
        }
    }
    all
}
