//! Work for a GPU that waits for the host.
//!
//! A GPU that waits most of the time lowers its clock, and then takes several times as long for its own part of a pass.
//! One thread of it spins while the host computes.

use minijinja::context;
use pelton_graph::Error;

use crate::{
    device::{BufferList, Device, Kernel, KernelSource, Word},
    kernels::template,
};

/// Turns of the spin at most: a few milliseconds, as long as the host takes for a part of a pass.
const TURNS: u32 = 1 << 14;

/// Kernels that spin, one at a time.
#[derive(Debug)]
pub(super) struct Awake {
    released: Word,
    kernel: Kernel,
    bindings: wgpu::BindGroup,
    /// Kernels that were launched, a number that wraps around as the GPU's own count does.
    launched: u32,
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
    /// `None` where a kernel cannot see a word of the host.
    pub(super) fn new(device: &Device) -> Result<Option<Self>, Error> {
        Self::with_turns(device, TURNS)
    }

    fn with_turns(device: &Device, turns: u32) -> Result<Option<Self>, Error> {
        let Some(released) = Word::new(device) else { return Ok(None) };
        let source = source(turns)?;
        let kernel = device.kernel("awake", &source)?;
        let begun = device.buffer("kernels that spin", 4)?;
        let own = BufferList::of([("released", released.buffer()), ("begun", &begun)]);
        let bindings = device.bind("awake", &kernel, &own.in_order("awake", &source)?)?;
        Ok(Some(Self { released, kernel, bindings, launched: 0 }))
    }

    /// Submits a kernel that spins until it is released. The one before is released.
    pub(super) fn launch(&mut self, device: &Device) {
        let mut encoder = device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        self.kernel.record(&mut pass, &self.bindings, [1, 1, 1]);
        drop(pass);
        device.queue.submit([encoder.finish()]);
        self.launched = self.launched.wrapping_add(1);
    }

    /// Ends all kernels that were launched.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(super) fn release(&self, device: &Device) -> Result<(), Error> {
        self.released.set(device, self.launched)
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use pelton_testing::{Need, skip};

    use super::*;
    use crate::device::{Checks, adapters};

    /// A kernel spins until it is released, and not for ever.
    #[test]
    fn kernels_end_when_they_are_released() {
        let Some(adapter) = adapters().into_iter().next() else {
            return skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        };
        let device = Device::open(&adapter, Checks::default()).unwrap();
        let Some(mut awake) = Awake::with_turns(&device, u32::MAX).unwrap() else {
            assert_ne!(device.device.adapter_info().backend, wgpu::Backend::Vulkan);
            return;
        };
        for _ in 0..3 {
            awake.launch(&device);
            let index = device.queue.submit([]);
            let submission = device.submission(index);
            thread::sleep(Duration::from_millis(20));
            let status = device.device.poll(wgpu::PollType::Poll).unwrap();
            assert!(!status.is_queue_empty(), "the kernel has ended before its release");
            awake.release(&device).unwrap();
            device.wait_until(&submission).unwrap();
        }
        let mut bounded = Awake::with_turns(&device, 100).unwrap().unwrap();
        bounded.launch(&device);
        device.wait().unwrap();
    }
}
