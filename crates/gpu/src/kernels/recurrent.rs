//! Layers with a recurrent state: short convolutions, and linear attention.

use minijinja::context;
use pelton_graph::{Error, GatedDelta as GatedDeltaOp};

use crate::{
    device::{Access, Capabilities},
    kernels::template,
};

/// A short convolution of `channels` channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortConv {
    /// Elements of a row.
    pub(crate) channels: usize,
    /// Taps, at least 2.
    pub(crate) taps: usize,
}

impl ShortConv {
    /// Maximum taps: a thread holds as many inputs and factors in registers.
    pub(crate) const TAPS: usize = 16;

    /// Workgroups along the channels.
    pub(crate) fn groups(&self) -> u32 {
        self.channels.div_ceil(64) as u32
    }

    /// The bindings: rows, their order, sequences, x, states, the factors.
    pub(crate) fn bindings() -> [Access; 6] {
        use Access::{Read, ReadWrite};
        [Read, Read, Read, ReadWrite, ReadWrite, Read]
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self) -> Result<String, Error> {
        /// Rows whose inputs are loaded at once.
        const AHEAD: usize = 8;
        let &Self { channels, taps } = self;
        template::render("short_conv.wgsl", context! { channels, taps, ahead => AHEAD })
    }
}

/// A linear attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GatedDelta(pub(crate) GatedDeltaOp);

impl GatedDelta {
    /// Threads of a workgroup.
    const THREADS: usize = 128;
    /// Maximum elements of a column that a thread holds in registers.
    const EACH: usize = 64;

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

    /// The bindings: rows, their order, sequences, q, k, v, alpha, beta, o, states, rate, shift.
    pub(crate) fn bindings() -> [Access; 12] {
        let mut all = [Access::Read; 12];
        (all[8], all[9]) = (Access::ReadWrite, Access::ReadWrite);
        all
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self, capabilities: &Capabilities) -> Result<String, Error> {
        let GatedDeltaOp {
            state: _,
            key_heads,
            value_heads,
            key_dim,
            value_dim,
            grouped,
            rate: _,
            shift: _,
        } = self.0;
        let (lanes, threads) = (self.lanes(capabilities), Self::THREADS);
        let each = key_dim.div_ceil(lanes);
        let scale = template::float((key_dim as f64).sqrt().recip() as f32);
        template::render(
            "gated_delta.wgsl",
            context! {
                key_heads, value_heads, key_dim, value_dim, grouped, lanes, threads, each, scale,
                exact => each * lanes == key_dim,
                columns => threads / lanes,
            },
        )
    }
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, String)> {
    use pelton_graph::WeightId;

    let mut all = Vec::new();
    for (channels, taps) in [(33, 2), (8192, 4)] {
        let conv = ShortConv { channels, taps };
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
            let source = GatedDelta(delta).source(&crate::testing::capabilities(subgroup));
            all.push((format!("{delta:?} by {subgroup}"), source.unwrap()));
        }
    }
    all
}
