//! Helpers of the kernels' tests: a GPU, and buffers with test values.

use std::sync::Arc;

use pelton_testing::{Need, Random, skip};

use crate::device::{Capabilities, Checks, Device, Kernel, KernelSource};

/// A device for tests, with all shader checks unless the environment says otherwise: the first GPU,
/// or else a software driver. Without either the test is reported as skipped.
pub(crate) fn device() -> Option<Arc<Device>> {
    let Some(adapter) = crate::adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return None;
    };
    Some(Device::open(&adapter, Checks::of_environment().unwrap()).unwrap())
}

/// The capabilities of a GPU with subgroups of one width and the least limits of WebGPU.
pub(crate) fn capabilities(subgroup: u32) -> Capabilities {
    Capabilities {
        subgroup,
        widest_subgroup: subgroup,
        batch: 16,
        matrix_cores: false,
        core: 16,
        timestamps: false,
        workgroup_threads: 256,
        workgroup_bytes: 32 << 10,
        binding_bytes: 1 << 27,
        buffer_bytes: 1 << 28,
        storage_buffers: 8,
    }
}

impl Device {
    /// A buffer that holds `values`.
    pub(crate) fn with<T: bytemuck::NoUninit>(&self, values: &[T]) -> wgpu::Buffer {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let buffer = self.buffer("test", bytes.len() as u64).unwrap();
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(4), 0);
        self.queue.write_buffer(&buffer, 0, &padded);
        buffer
    }

    /// Runs a kernel once.
    pub(crate) fn run(&self, kernel: &Kernel, buffers: &[&wgpu::Buffer], groups: [u32; 3]) {
        let buffers: Vec<_> = buffers.iter().map(|b| b.as_entire_buffer_binding()).collect();
        let group = self.bind("test", kernel, &buffers).unwrap();
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        kernel.record(&mut pass, &group, groups);
        drop(pass);
        self.queue.submit([encoder.finish()]);
        self.wait().unwrap();
    }

    /// The content of a buffer.
    pub(crate) fn content<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(
        &self,
        buffer: &wgpu::Buffer,
    ) -> Vec<T> {
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
        let copy = self.buffer_for("copy", buffer.size(), usage).unwrap();
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &copy, 0, buffer.size());
        self.queue.submit([encoder.finish()]);
        let mut values = vec![T::zeroed(); buffer.size() as usize / size_of::<T>()];
        self.read(&copy, bytemuck::cast_slice_mut(&mut values)).unwrap();
        values
    }
}

/// A kernel from its source.
pub(crate) fn compiled(device: &Device, source: &KernelSource) -> Kernel {
    device.kernel("test", source).unwrap()
}

/// `n` normal values of mean 0 and deviation 1.
pub(crate) fn normals(seed: u64, n: usize) -> Vec<f32> {
    Random::new(seed).normals(n, 0.0, 1.0)
}

/// The codes and the scale of 32 elements by the definition of Q8_0.
pub(crate) fn q8_block(x: &[f32]) -> ([i8; 32], half::f16) {
    let largest = x.iter().fold(0.0f32, |most, x| match most.is_nan() || x.is_nan() {
        true => f32::NAN,
        false => most.max(x.abs()),
    });
    let scale = half::f16::from_f32(largest / 127.0);
    (std::array::from_fn(|i| (x[i] / scale.to_f32()).round() as i8), scale)
}
