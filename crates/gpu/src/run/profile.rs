//! The time of each step by the GPU's clock.

use std::time::{Duration, Instant};

use pelton_graph::{Error, PartProfile, Plan, Profile, StepProfile, Ways};

use crate::{
    device::Device,
    lower::{dispatch::StepDispatches, timestamps::Stamps},
    run::bandwidth,
};

/// Passes of one submission in the measurement of a whole pass.
const TOGETHER: usize = 16;
/// Time of untimed passes before the measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// Runs the steps `passes` times with a timestamp after each, and in whole passes without.
pub(crate) fn measure(
    device: &Device,
    plan: &Plan,
    steps: &[StepDispatches<'_>],
    passes: usize,
) -> Result<Profile, Error> {
    if !device.capabilities.timestamps || steps.len() + 1 > wgpu::QUERY_SET_MAX_QUERIES as usize {
        return Err(Error::Profile);
    }
    // a GPU that was idle needs some time to reach its clock rate
    let begun = Instant::now();
    while begun.elapsed() < WARM_UP {
        together(device, steps)?;
    }
    let (mut recording, mut whole) = together(device, steps)?;
    for _ in 0..passes.div_ceil(TOGETHER) {
        // the least of the runs, because disturbances only add time
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
    let read_bandwidth = Some(bandwidth::read(device)?);
    let steps = steps
        .iter()
        .zip(times)
        .map(|(step, seconds)| StepProfile {
            time: Duration::from_secs_f64(seconds.max(0.0)),
            dispatches: step.count().0,
            dependent: step.count().1,
            live: 1.0,
        })
        .collect();
    let count = TOGETHER as u32;
    // the GPU is idle while the CPU records, so that time is not part of the pass
    let pass = whole.saturating_sub(recording) / count;
    let part = PartProfile {
        device: device.name.clone(),
        plan: plan.clone(),
        steps,
        recording: recording / count,
        read_bandwidth,
    };
    Ok(Profile { parts: vec![part], ways: Ways::default(), pass })
}

/// Runs [`TOGETHER`] passes in one submission; returns the time of recording and the total time.
fn together(device: &Device, steps: &[StepDispatches<'_>]) -> Result<(Duration, Duration), Error> {
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
