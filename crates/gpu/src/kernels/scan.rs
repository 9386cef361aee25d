//! Selective scans of state spaces.

use minijinja::context;
use pelton_graph::{Error, SelectiveScan as SelectiveScanOp};

use crate::{
    device::{Capabilities, KernelSource},
    kernels::template,
};

/// A selective scan. A first kernel computes the steps of each row, so that the second one binds
/// eight buffers, and the exponentials of a head are computed once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SelectiveScan(pub(crate) SelectiveScanOp);

impl SelectiveScan {
    /// Threads of a workgroup.
    const THREADS: usize = 128;
    /// Maximum elements of a column that a thread holds in registers.
    const EACH: usize = 64;

    /// Threads that hold a column: adjacent lanes of one subgroup.
    fn lanes(&self, capabilities: &Capabilities) -> usize {
        let most = (capabilities.subgroup as usize).clamp(1, 8).min(self.0.state_dim.max(1));
        1 << most.ilog2()
    }

    /// Whether the kernels can compute it.
    pub(crate) fn fits(&self, capabilities: &Capabilities) -> bool {
        let SelectiveScanOp {
            state: _,
            heads,
            groups,
            head_dim,
            state_dim,
            rate: _,
            skip: _,
            shift: _,
            low,
            high,
        } = self.0;
        heads > 0
            && groups > 0
            && heads.is_multiple_of(groups)
            && head_dim > 0
            && low <= high
            && high.is_finite()
            && (1..=Self::EACH * self.lanes(capabilities)).contains(&state_dim)
    }

    /// Workgroups along the columns, and along the heads.
    pub(crate) fn groups(&self, capabilities: &Capabilities) -> [u32; 2] {
        let columns = Self::THREADS / self.lanes(capabilities);
        [self.0.head_dim.div_ceil(columns) as u32, self.0.heads as u32]
    }

    /// Elements of a row of steps: a step and a factor of the state of each head.
    pub(crate) fn steps_len(&self) -> usize {
        2 * self.0.heads
    }

    /// The WGSL of the kernel.
    pub(crate) fn source(&self, capabilities: &Capabilities) -> Result<KernelSource, Error> {
        let SelectiveScanOp { heads, groups, head_dim, state_dim, .. } = self.0;
        let (lanes, threads) = (self.lanes(capabilities), Self::THREADS);
        let each = state_dim.div_ceil(lanes);
        template::render(
            "selective_scan.wgsl",
            context! {
                heads, groups, head_dim, state_dim, lanes, threads, each,
                exact => each * lanes == state_dim,
                columns => threads / lanes,
            },
        )
    }

    /// The WGSL of the kernel of steps.
    pub(crate) fn steps_source(&self) -> Result<KernelSource, Error> {
        let SelectiveScanOp { heads, low, high, .. } = self.0;
        let [low, high] = [low, high].map(template::float);
        template::render("scan_steps.wgsl", context! { heads, low, high, threads => Self::THREADS })
    }
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    use pelton_graph::WeightId;

    let mut all = Vec::new();
    for (heads, groups, head_dim, state_dim) in [(48, 1, 64, 128), (6, 2, 7, 10)] {
        let scan = SelectiveScan(SelectiveScanOp {
            state: 0,
            heads,
            groups,
            head_dim,
            state_dim,
            rate: WeightId(0),
            skip: WeightId(1),
            shift: WeightId(2),
            low: 0.0,
            high: f32::MAX,
        });
        for subgroup in [4, 32] {
            let source = scan.source(&crate::testing::capabilities(subgroup));
            all.push((format!("{scan:?} by {subgroup}"), source.unwrap()));
        }
        all.push((format!("steps of {scan:?}"), scan.steps_source().unwrap()));
    }
    all
}
