//! Kernels: WGSL, the layout of its bindings, and the pipeline once it is compiled.

use std::sync::OnceLock;

/// The access of a kernel to a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

/// A kernel, whose pipeline is set once it is compiled.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(super) label: String,
    pub(super) source: String,
    pub(super) layout: wgpu::BindGroupLayout,
    pub(super) pipeline: OnceLock<wgpu::ComputePipeline>,
}

impl Kernel {
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Records a dispatch, if the kernel is compiled.
    pub(crate) fn record(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        bindings: &wgpu::BindGroup,
        [x, y, z]: [u32; 3],
    ) {
        if let Some(pipeline) = self.pipeline.get() {
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, bindings, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
    }
}
