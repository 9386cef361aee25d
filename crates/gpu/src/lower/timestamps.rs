//! The times of steps by the GPU's clock.

use pelton_graph::Error;

use crate::{device::Device, lower::dispatch::StepDispatches};

/// Untimed passes before the timed one, which keep the GPU at its speed.
const WARM_UP: usize = 16;

/// Timestamp queries after each step, and their readback.
pub(crate) struct Stamps {
    set: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    back: wgpu::Buffer,
    count: usize,
}

impl Stamps {
    pub(crate) fn new(device: &Device, count: usize) -> Result<Self, Error> {
        let set = device.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("timestamps"),
            ty: wgpu::QueryType::Timestamp,
            count: count as u32,
        });
        let bytes = 8 * count as u64;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let resolved = device.buffer_for("timestamps", bytes, usage)?;
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
        let back = device.buffer_for("timestamps readback", bytes, usage)?;
        Ok(Self { set, resolved, back, count })
    }

    /// Runs the steps and returns the seconds `[steps]` of each.
    pub(crate) fn run(
        &self,
        device: &Device,
        steps: &[StepDispatches<'_>],
    ) -> Result<Vec<f64>, Error> {
        let mut encoder = device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for _ in 0..WARM_UP {
            steps.iter().for_each(|step| step.record(&mut pass));
        }
        pass.write_timestamp(&self.set, 0);
        for (i, step) in steps.iter().enumerate() {
            step.record(&mut pass);
            pass.write_timestamp(&self.set, i as u32 + 1);
        }
        drop(pass);
        encoder.resolve_query_set(&self.set, 0..self.count as u32, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.back, 0, self.back.size());
        device.queue.submit([encoder.finish()]);
        let mut stamps = vec![0u64; self.count];
        device.read(&self.back, bytemuck::cast_slice_mut(&mut stamps))?;
        let period = f64::from(device.queue.get_timestamp_period()) * 1e-9;
        Ok(stamps.windows(2).map(|w| w[1].saturating_sub(w[0]) as f64 * period).collect())
    }
}
