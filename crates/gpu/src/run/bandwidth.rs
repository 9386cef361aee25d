//! The rate at which a GPU reads its memory, and the time of a dispatch.

use std::time::Instant;

use minijinja::context;
use pelton_graph::Error;

use crate::{
    device::{Device, KernelSource},
    kernels::template,
};

/// Measurements, of which the fastest counts.
const TIMES: usize = 4;

/// The WGSL of a kernel that only reads `bytes` bytes.
fn source(bytes: u64) -> Result<KernelSource, Error> {
    template::render("bandwidth.wgsl", context! { len => bytes / 16 })
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    vec![("bandwidth".into(), source(1 << 20).unwrap())]
}

/// Bytes per second of a kernel that only reads.
pub(super) fn read(device: &Device) -> Result<f64, Error> {
    const MOST: u64 = 1 << 30;
    const WORKGROUPS: u32 = 4224;
    let bytes = MOST.min(device.capabilities.binding_bytes) / 16 * 16;
    Ok(bytes as f64 / seconds(device, bytes, WORKGROUPS, 16)?)
}

/// Seconds of a dispatch that depends on the one before it and reads almost nothing, of as many
/// workgroups as the products of one row have.
pub(super) fn dispatch(device: &Device) -> Result<f64, Error> {
    const BYTES: u64 = 64 << 10;
    const WORKGROUPS: u32 = 256;
    seconds(device, BYTES, WORKGROUPS, 1000)
}

/// Seconds of one of `runs` dispatches in a submission, each of which reads `bytes` bytes.
fn seconds(device: &Device, bytes: u64, workgroups: u32, runs: u32) -> Result<f64, Error> {
    let x = device.buffer("bandwidth", bytes)?;
    let y = device.buffer("bandwidth", 4)?;
    let kernel = device.kernel("bandwidth", &source(bytes)?)?;
    let buffers = [x.as_entire_buffer_binding(), y.as_entire_buffer_binding()];
    let bindings = device.bind("bandwidth", &kernel, &buffers)?;
    let mut best = f64::INFINITY;
    for _ in 0..TIMES {
        let mut encoder = device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for _ in 0..runs {
            kernel.record(&mut pass, &bindings, [workgroups, 1, 1]);
        }
        drop(pass);
        let commands = encoder.finish();
        let begun = Instant::now();
        device.queue.submit([commands]);
        device.wait()?;
        best = best.min(begun.elapsed().as_secs_f64() / f64::from(runs));
    }
    Ok(best)
}
