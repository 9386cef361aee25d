//! The time of each step, by the device's own clock.

use std::time::{Duration, Instant};

use minijinja::context;
use pelton_graph::{Error, Profile, StepProfile};

use crate::{
    device::{Access, Device},
    executable::StepCalls,
    source,
};

/// Passes in one submission, when a whole pass is timed.
const TOGETHER: usize = 16;
/// How long the device is kept busy before anything counts.
const WARM_UP: Duration = Duration::from_millis(300);

/// Runs the steps `passes` times with a stamp after each, and then without.
pub(crate) fn measure(
    device: &Device,
    steps: &[StepCalls<'_>],
    passes: usize,
) -> Result<Profile, Error> {
    if !device.abilities.timestamps || steps.len() + 1 > wgpu::QUERY_SET_MAX_QUERIES as usize {
        return Err(Error::Profile);
    }
    // a device that has idled takes a while to reach its speed
    let begun = Instant::now();
    while begun.elapsed() < WARM_UP {
        together(device, steps)?;
    }
    let (mut recording, mut whole) = together(device, steps)?;
    for _ in 0..passes.div_ceil(TOGETHER) {
        // the least of the runs: what disturbs only adds
        let (recorded, elapsed) = together(device, steps)?;
        if elapsed < whole {
            (recording, whole) = (recorded, elapsed);
        }
    }
    let stamps = Stamps::new(device, steps.len() + 1)?;
    let mut times = vec![0.0; steps.len()];
    for _ in 0..passes {
        for (time, seconds) in times.iter_mut().zip(stamps.run(device, steps)?) {
            *time += seconds / passes as f64;
        }
    }
    let read_bandwidth = Some(read_bandwidth(device)?);
    let steps = steps
        .iter()
        .zip(times)
        .map(|(step, seconds)| StepProfile {
            time: Duration::from_secs_f64(seconds.max(0.0)),
            dispatches: step.dispatches().0,
            dependent: step.dispatches().1,
        })
        .collect();
    let count = TOGETHER as u32;
    // the device waits while the processor records: only the device's part is the pass
    let pass = whole.saturating_sub(recording) / count;
    Ok(Profile { steps, pass, recording: recording / count, read_bandwidth })
}

/// Some passes in one submission: how long recording them took, and how long all of it.
fn together(device: &Device, steps: &[StepCalls<'_>]) -> Result<(Duration, Duration), Error> {
    let begun = Instant::now();
    let mut encoder = device.device.create_command_encoder(&Default::default());
    let mut pass = encoder.begin_compute_pass(&Default::default());
    for _ in 0..TOGETHER {
        steps.iter().for_each(|step| step.record(&mut pass));
    }
    drop(pass);
    device.queue.submit([encoder.finish()]);
    let recorded = begun.elapsed();
    device.wait()?;
    Ok((recorded, begun.elapsed()))
}

/// Stamps of the device's clock, and the way back of what they say.
pub(crate) struct Stamps {
    set: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    back: wgpu::Buffer,
    count: usize,
}

impl Stamps {
    pub(crate) fn new(device: &Device, count: usize) -> Result<Self, Error> {
        let set = device.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("stamps"),
            ty: wgpu::QueryType::Timestamp,
            count: count as u32,
        });
        let bytes = 8 * count as u64;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let resolved = device.buffer_for("stamps", bytes, usage)?;
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
        let back = device.buffer_for("stamps back", bytes, usage)?;
        Ok(Self { set, resolved, back, count })
    }

    /// The seconds of each step.
    pub(crate) fn run(&self, device: &Device, steps: &[StepCalls<'_>]) -> Result<Vec<f64>, Error> {
        let mut encoder = device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        // passes before keep the device awake
        for _ in 0..TOGETHER {
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

/// The kernel that reads `bytes` bytes, and does nothing else.
fn bandwidth_source(bytes: u64) -> Result<String, Error> {
    source::render("bandwidth.wgsl", context! { len => bytes / 16 })
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, String)> {
    vec![("bandwidth".into(), bandwidth_source(1 << 20).unwrap())]
}

/// Bytes a second that such a kernel reads.
fn read_bandwidth(device: &Device) -> Result<f64, Error> {
    const MOST: u64 = 1 << 30;
    let bytes = MOST.min(device.abilities.binding_bytes) / 16 * 16;
    let x = device.buffer("bandwidth", bytes)?;
    let y = device.buffer("bandwidth", 4)?;
    let kernel = device.kernel(
        "bandwidth",
        &bandwidth_source(bytes)?,
        &[Access::Read, Access::ReadWrite],
    )?;
    let buffers = [x.as_entire_buffer_binding(), y.as_entire_buffer_binding()];
    let bindings = device.bind("bandwidth", &kernel, &buffers)?;
    let mut best = 0.0f64;
    for _ in 0..4 {
        let mut encoder = device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        const RUNS: u32 = 16;
        for _ in 0..RUNS {
            kernel.record(&mut pass, &bindings, [4224, 1, 1]);
        }
        drop(pass);
        let commands = encoder.finish();
        let begun = Instant::now();
        device.queue.submit([commands]);
        device.wait()?;
        best = best.max(bytes as f64 * f64::from(RUNS) / begun.elapsed().as_secs_f64());
    }
    Ok(best)
}
