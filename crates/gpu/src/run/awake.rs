//! A GPU that waits for the host, awake.
//!
//! A GPU that waits most of the time lowers its clock, and then takes several times as long for its own part of a pass.
//! So its commands before a wait end with a kernel. It tells the host that the values have arrived, and spins until the
//! host has submitted the next commands. The host sees a word of memory earlier than the end of a submission.

use std::{
    hint::spin_loop,
    thread,
    time::{Duration, Instant},
};

use minijinja::context;
use pelton_graph::Error;

use crate::{
    device::{BufferList, Device, Inbox, Kernel, KernelSource, Submission, Word},
    kernels::template,
};

/// Turns of the spin at most, each a look at a word: no watchdog must see it.
const TURNS: u32 = 1 << 16;
/// The host looks for the values this long without sleep.
const SPIN: Duration = Duration::from_millis(1);
/// Its sleep between looks after that, and the time until it waits for the end of the submission.
const SLEEP: Duration = Duration::from_micros(50);
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest time until a kernel that is released ends. One that does not see the host's word takes longer.
const PROMPT: Duration = Duration::from_millis(5);

/// Kernels that spin, one at a time.
#[derive(Debug)]
pub(super) struct Awake {
    arrived: Word,
    released: Word,
    kernel: Kernel,
    bindings: wgpu::BindGroup,
    /// Kernels that were submitted, a number that wraps around as the GPU's own count does.
    submitted: u32,
}

/// The WGSL of a kernel that spins for some turns.
fn source(turns: u32) -> Result<KernelSource, Error> {
    template::render("awake.wgsl", context! { turns })
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    vec![("awake".into(), source(TURNS).unwrap())]
}

impl Awake {
    /// A kernel after copies to an inbox. `None` where it and the host do not see each other's words.
    pub(super) fn new(device: &Device, inbox: &Inbox) -> Result<Option<Self>, Error> {
        let Some(mut awake) = Self::with_turns(device, inbox, TURNS)? else { return Ok(None) };
        let works = awake.works(device)?;
        tracing::debug!(works, "a kernel that waits for the host");
        Ok(works.then_some(awake))
    }

    fn with_turns(device: &Device, inbox: &Inbox, turns: u32) -> Result<Option<Self>, Error> {
        let (Some(values), Some(arrived), Some(released)) =
            (inbox.lasting(), Word::of_gpu(device), Word::of_host(device))
        else {
            return Ok(None);
        };
        let source = source(turns)?;
        let kernel = device.kernel("awake", &source)?;
        let begun = device.buffer("kernels that spin", 4)?;
        let own = BufferList::of([
            ("values", values),
            ("begun", &begun),
            ("arrived", arrived.buffer()),
            ("released", released.buffer()),
        ]);
        let bindings = device.bind("awake", &kernel, &own.in_order("awake", &source)?)?;
        Ok(Some(Self { arrived, released, kernel, bindings, submitted: 0 }))
    }

    /// Whether the host sees that a kernel has begun, and the kernel that it is released.
    fn works(&mut self, device: &Device) -> Result<bool, Error> {
        // the first one may wait for a GPU that sleeps
        let mut works = false;
        for _ in 0..2 {
            let mut encoder = device.device.create_command_encoder(&Default::default());
            self.record(&mut encoder);
            let submission = device.submission(device.queue.submit([encoder.finish()]));
            self.submitted();
            self.wait(device, &submission)?;
            let runs = !device.has_ended(&submission);
            let begun = Instant::now();
            self.release(device)?;
            device.wait_soon(&submission)?;
            works = runs && begun.elapsed() < PROMPT;
        }
        Ok(works)
    }

    /// Records the kernel, as the last command of a submission.
    pub(super) fn record(&self, encoder: &mut wgpu::CommandEncoder) {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        self.kernel.record(&mut pass, &self.bindings, [1, 1, 1]);
    }

    /// Counts a kernel that was recorded and is submitted now.
    pub(super) const fn submitted(&mut self) {
        self.submitted = self.submitted.wrapping_add(1);
    }

    /// Waits until the newest kernel has begun: the commands before it have ended.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(super) fn wait(&self, device: &Device, submission: &Submission) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < SPIN {
            if self.arrived.get(device)? == self.submitted {
                return Ok(());
            }
            spin_loop();
        }
        while begun.elapsed() < PATIENCE {
            if self.arrived.get(device)? == self.submitted || device.has_ended(submission) {
                return Ok(());
            }
            thread::sleep(SLEEP);
        }
        // the end of the submission is later, and a GPU that does not reach it is lost
        device.wait_until(submission)
    }

    /// Ends all kernels that were submitted.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(super) fn release(&self, device: &Device) -> Result<(), Error> {
        self.released.set(device, self.submitted)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pelton_testing::{Need, skip};

    use super::*;
    use crate::device::{Checks, adapters};

    fn opened() -> Option<(Arc<Device>, Inbox)> {
        let Some(adapter) = adapters().into_iter().next() else {
            skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
            return None;
        };
        let device = Device::open(&adapter, Checks::default()).unwrap();
        let inbox = Inbox::new(&device, 64, true).unwrap();
        if device.device.adapter_info().backend != wgpu::Backend::Vulkan {
            assert!(Awake::new(&device, &inbox).unwrap().is_none());
            return None;
        }
        Some((device, inbox))
    }

    /// A kernel begins after the copy of values, and ends when it is released. Mesa's software driver ends each loop after
    /// 65,535 turns, so that it may have ended before.
    #[test]
    fn kernels_end_when_they_are_released() {
        let Some((device, mut inbox)) = opened() else { return };
        let mut awake = Awake::with_turns(&device, &inbox, u32::MAX).unwrap().unwrap();
        let from = device.buffer("values", 64).unwrap();
        for round in 1..5_u8 {
            device.queue.write_buffer(&from, 0, &[round; 64]);
            let mut encoder = device.device.create_command_encoder(&Default::default());
            inbox.receive(&mut encoder, &from, 64);
            awake.record(&mut encoder);
            let submission = device.submission(device.queue.submit([encoder.finish()]));
            awake.submitted();
            awake.wait(&device, &submission).unwrap();
            let mut found = [0; 64];
            inbox.take(&device, &mut found, true).unwrap();
            assert_eq!(found, [round; 64]);
            awake.release(&device).unwrap();
            device.wait_until(&submission).unwrap();
        }
    }

    /// Without a release it ends after its turns.
    #[test]
    fn turns_are_bounded() {
        let Some((device, inbox)) = opened() else { return };
        let mut awake = Awake::with_turns(&device, &inbox, 100).unwrap().unwrap();
        let mut encoder = device.device.create_command_encoder(&Default::default());
        awake.record(&mut encoder);
        let submission = device.submission(device.queue.submit([encoder.finish()]));
        awake.submitted();
        device.wait_until(&submission).unwrap();
        awake.wait(&device, &submission).unwrap();
    }
}
