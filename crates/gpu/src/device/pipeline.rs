//! Kernels: WGSL, the layout of its bindings, and the pipeline once it is compiled.

use std::sync::OnceLock;

use crate::device::KernelSource;

/// A kernel, whose pipeline is set once it is compiled.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(super) label: String,
    pub(super) source: KernelSource,
    pub(super) layout: wgpu::BindGroupLayout,
    pub(super) pipeline: OnceLock<wgpu::ComputePipeline>,
}

impl Kernel {
    pub(crate) fn source(&self) -> &KernelSource {
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
