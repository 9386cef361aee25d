//! What the tests of kernels need: a device, and buffers to and from it.

use std::sync::Arc;

use pelton_testing::Random;

use crate::device::{Abilities, Access, Device, Kernel};

/// A device for tests, with all shader checks on: the first GPU, or else a software driver.
/// Where there is none the test says that it was skipped.
pub(crate) fn device() -> Option<Arc<Device>> {
    let Some(adapter) = crate::adapters().into_iter().next() else {
        eprintln!("SKIPPED: no Vulkan, Metal or DX12 device, not even in software");
        return None;
    };
    Some(Device::open(&adapter, true).unwrap())
}

/// A device with subgroups of one width, and no more than every device has.
pub(crate) fn abilities(subgroup: u32) -> Abilities {
    Abilities {
        subgroup,
        widest_subgroup: subgroup,
        batch: 16,
        matrix_cores: false,
        timestamps: false,
        workgroup_threads: 256,
        workgroup_bytes: 32 << 10,
        binding_bytes: 1 << 27,
        buffer_bytes: 1 << 28,
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

    /// What a buffer holds.
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
pub(crate) fn compiled(device: &Device, source: &str, bindings: &[Access]) -> Kernel {
    device.kernel("test", source, bindings).unwrap()
}

/// `n` numbers around 0.
pub(crate) fn normals(seed: u64, n: usize) -> Vec<f32> {
    Random::new(seed).normals(n, 0.0, 1.0)
}
