//! A spin kernel that keeps a GPU's clock up while the host computes its layers.
//!
//! A GPU that waits most of the time lowers its clock, and then takes several times as long for its
//! own part of a pass. So its commands before a wait end with a kernel. It tells the host that the
//! values have arrived, and spins until the host releases it. The host sees a word of memory
//! earlier than the end of a submission.
//!
//! The host hands over its results while the kernel runs, and the commands after it are
//! submitted already. Else it releases the kernel when it has submitted the next commands,
//! which copy the results.

use std::{
    hint::spin_loop,
    thread,
    time::{Duration, Instant},
};

use minijinja::context;
use pelton_graph::Error;

use crate::{
    device::{BufferList, Device, Inbox, Kernel, KernelSource, Outbox, Submission, Word},
    kernels::template,
};

/// Turns of the spin at most, each a look at a word: no watchdog must see it.
const TURNS: u32 = 1 << 16;
/// The host looks for the values this long without sleep.
const SPIN: Duration = Duration::from_millis(1);
/// Its sleep between looks after that, and the time until it waits for the end of the submission.
const SLEEP: Duration = Duration::from_micros(50);
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest time until a kernel that is released ends. One that does not see the
/// host's word takes longer.
const PROMPT: Duration = Duration::from_millis(5);

/// Threads of a kernel: they copy the results of the host.
const THREADS: u32 = 256;

/// Kernels that spin, one at a time, after copies to an inbox.
#[derive(Debug)]
pub(super) struct ClockKeeper {
    arrived: Word,
    released: Word,
    /// A word of the GPU that is not 0 once the turns of a kernel ran out.
    late: wgpu::Buffer,
    kernel: Kernel,
    /// The bindings for each buffer of results.
    bindings: Vec<wgpu::BindGroup>,
    /// Kernels that were submitted, a number that wraps around as the GPU's own count does.
    submitted: u32,
    /// Whether results reach a kernel that runs.
    hands_over: bool,
}

/// The memory between the host and the GPU, and the buffer for the results of each part of the
/// host.
pub(super) struct Boxes<'a> {
    pub(super) inbox: &'a Inbox,
    pub(super) outbox: &'a mut Outbox,
    pub(super) results: Vec<&'a wgpu::Buffer>,
}

/// The WGSL of a kernel that spins for some turns.
fn source(turns: u32) -> Result<KernelSource, Error> {
    template::render("spin.wgsl", context! { turns, threads => THREADS, header => Outbox::HEADER })
}

/// Every kernel, for the test that all of them translate.
#[cfg(test)]
pub(crate) fn sources() -> Vec<(String, KernelSource)> {
    vec![("spin".into(), source(TURNS).unwrap())]
}

impl ClockKeeper {
    /// Kernels of so many turns, or of as many as they need. `None` where a kernel and the host do
    /// not see each other's words. The results' buffers are overwritten.
    pub(super) fn new(
        device: &Device,
        mut boxes: Boxes<'_>,
        turns: Option<u32>,
    ) -> Result<Option<Self>, Error> {
        let Some(mut keeper) = Self::with_turns(device, &boxes, turns.unwrap_or(TURNS))? else {
            return Ok(None);
        };
        // forced turns may be few
        let works = turns.is_some() || keeper.works(device)?;
        keeper.hands_over = turns.is_some() || (works && keeper.delivers(device, &mut boxes)?);
        tracing::debug!(works, hands_over = keeper.hands_over, "a kernel that waits for the host");
        Ok(works.then_some(keeper))
    }

    fn with_turns(
        device: &Device,
        Boxes { inbox, outbox, results }: &Boxes<'_>,
        turns: u32,
    ) -> Result<Option<Self>, Error> {
        let (Some(values), Some(sent), Some(arrived), Some(released)) =
            (inbox.lasting(), outbox.lasting(), Word::of_gpu(device), Word::of_host(device))
        else {
            return Ok(None);
        };
        let source = source(turns)?;
        let kernel = device.kernel("spin", &source)?;
        let begun = device.buffer("kernels that spin", 4)?;
        let late = device.buffer("whether turns ran out", 4)?;
        let bindings = results.iter().map(|results| {
            let own = BufferList::of([
                ("values", values),
                ("sent", sent),
                ("results", *results),
                ("begun", &begun),
                ("arrived", arrived.buffer()),
                ("released", released.buffer()),
                ("late", &late),
            ]);
            device.bind("spin", &kernel, &own.in_order("spin", &source)?)
        });
        let bindings = bindings.collect::<Result<_, _>>()?;
        let (submitted, hands_over) = (0, false);
        Ok(Some(Self { arrived, released, late, kernel, bindings, submitted, hands_over }))
    }

    /// Whether the host sees that a kernel has begun, and the kernel that it is released.
    fn works(&mut self, device: &Device) -> Result<bool, Error> {
        // the first one may wait for a GPU that sleeps
        let mut works = false;
        for _ in 0..2 {
            let mut encoder = device.device.create_command_encoder(&Default::default());
            self.begin(&mut encoder);
            self.record(&mut encoder, 0);
            let submission = device.submission(device.queue.submit([encoder.finish()]));
            let number = self.submitted(1);
            self.wait(device, &submission, number)?;
            let runs = !device.has_ended(&submission);
            let begun = Instant::now();
            self.release_all(device)?;
            device.wait_soon(&submission)?;
            works = runs && begun.elapsed() < PROMPT;
        }
        Ok(works)
    }

    /// Whether several kernels of one submission each get the values that the host hands
    /// over while they run.
    fn delivers(&mut self, device: &Device, boxes: &mut Boxes<'_>) -> Result<bool, Error> {
        const ROUNDS: u32 = 4;
        const WORDS: u64 = 64;
        let values =
            |round: u32| -> Vec<u32> { (0..WORDS as u32).map(|i| i << 8 | round).collect() };
        let Some(results) = boxes.results.first().filter(|results| results.size() >= 4 * WORDS)
        else {
            return Ok(false);
        };
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let bytes = u64::from(ROUNDS) * 4 * WORDS;
        let found = device.buffer_for("values that were handed over", bytes, usage)?;
        let mut encoder = device.device.create_command_encoder(&Default::default());
        self.begin(&mut encoder);
        for round in 0..ROUNDS {
            self.record(&mut encoder, 0);
            let at = u64::from(round) * 4 * WORDS;
            encoder.copy_buffer_to_buffer(results, 0, &found, at, 4 * WORDS);
        }
        let submission = device.submission(device.queue.submit([encoder.finish()]));
        let last = self.submitted(ROUNDS);
        for round in 0..ROUNDS {
            let number = last.wrapping_sub(ROUNDS - 1 - round);
            self.wait(device, &submission, number)?;
            boxes.outbox.hand_over(device, bytemuck::cast_slice(&values(round)))?;
            self.released.set(device, number)?;
        }
        device.wait_soon(&submission)?;
        let mut words = vec![0_u32; (u64::from(ROUNDS) * WORDS) as usize];
        device.read(&found, bytemuck::cast_slice_mut(&mut words))?;
        Ok(words == (0..ROUNDS).flat_map(values).collect::<Vec<u32>>())
    }

    /// Whether the host can hand over results while a kernel runs.
    pub(super) const fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// The word that is not 0 once the turns of a kernel ran out, so that it did not get its
    /// results.
    pub(super) const fn late(&self) -> &wgpu::Buffer {
        &self.late
    }

    /// Begins the commands of a pass: no kernel is late.
    pub(super) fn begin(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.clear_buffer(&self.late, 0, None);
    }

    /// Records the kernel before the commands that read the results of a part of the host.
    pub(super) fn record(&self, encoder: &mut wgpu::CommandEncoder, part: usize) {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        self.kernel.record(&mut pass, &self.bindings[part], [1, 1, 1]);
    }

    /// Counts kernels that were recorded and are submitted now. Returns the number of the last one.
    pub(super) const fn submitted(&mut self, count: u32) -> u32 {
        self.submitted = self.submitted.wrapping_add(count);
        self.submitted
    }

    /// Waits until a kernel has begun: the commands before it have ended.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(super) fn wait(
        &self,
        device: &Device,
        submission: &Submission,
        number: u32,
    ) -> Result<(), Error> {
        // numbers wrap around
        let has_begun = || -> Result<bool, Error> {
            Ok(self.arrived.get(device)?.wrapping_sub(number) as i32 >= 0)
        };
        let begun = Instant::now();
        while begun.elapsed() < SPIN {
            if has_begun()? {
                return Ok(());
            }
            spin_loop();
        }
        while begun.elapsed() < PATIENCE {
            if has_begun()? || device.has_ended(submission) {
                return Ok(());
            }
            thread::sleep(SLEEP);
        }
        // the end of the submission is later, and a GPU that does not reach it is lost
        device.wait_until(submission)
    }

    /// Whether a kernel with this number waits: it has begun, and none after it.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(super) fn is_newest(&self, device: &Device, number: u32) -> Result<bool, Error> {
        Ok(self.arrived.get(device)? == number)
    }

    /// Ends the wait of a kernel, and of those before it.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(super) fn release(&self, device: &Device, number: u32) -> Result<(), Error> {
        self.released.set(device, number)
    }

    /// Ends all kernels that were submitted.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    pub(super) fn release_all(&self, device: &Device) -> Result<(), Error> {
        self.release(device, self.submitted)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pelton_testing::{Need, skip};

    use super::*;
    use crate::device::{Checks, adapters};

    struct Opened {
        device: Arc<Device>,
        inbox: Inbox,
        outbox: Outbox,
        results: wgpu::Buffer,
    }

    impl Opened {
        fn new() -> Option<Self> {
            let Some(adapter) = adapters().into_iter().next() else {
                skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
                return None;
            };
            let device = Device::open(&adapter, Checks::default()).unwrap();
            let inbox = Inbox::new(&device, 256, true).unwrap();
            let outbox = Outbox::new(&device, 256, true).unwrap();
            let results = device.buffer("results", 256).unwrap();
            let mut opened = Self { device, inbox, outbox, results };
            if opened.device.device.adapter_info().backend != wgpu::Backend::Vulkan {
                let device = Arc::clone(&opened.device);
                assert!(ClockKeeper::new(&device, opened.boxes(), None).unwrap().is_none());
                return None;
            }
            Some(opened)
        }

        fn boxes(&mut self) -> Boxes<'_> {
            let Self { inbox, outbox, results, .. } = self;
            Boxes { inbox, outbox, results: vec![results] }
        }

        fn keeper(&mut self, turns: u32) -> ClockKeeper {
            let device = Arc::clone(&self.device);
            ClockKeeper::with_turns(&device, &self.boxes(), turns).unwrap().unwrap()
        }
    }

    /// A kernel begins after the copy of values, and ends when it is released. Mesa's software
    /// driver ends each loop after 65,535 turns, so that it may have ended before.
    #[test]
    fn kernels_end_when_they_are_released() {
        let Some(mut opened) = Opened::new() else { return };
        let mut keeper = opened.keeper(u32::MAX);
        let Opened { device, mut inbox, .. } = opened;
        let from = device.buffer("values", 64).unwrap();
        for round in 1..5_u8 {
            device.queue.write_buffer(&from, 0, &[round; 64]);
            let mut encoder = device.device.create_command_encoder(&Default::default());
            inbox.receive(&mut encoder, &from, 64);
            keeper.record(&mut encoder, 0);
            let submission = device.submission(device.queue.submit([encoder.finish()]));
            let number = keeper.submitted(1);
            keeper.wait(&device, &submission, number).unwrap();
            let mut found = [0; 64];
            inbox.take(&device, &mut found, true).unwrap();
            assert_eq!(found, [round; 64]);
            keeper.release_all(&device).unwrap();
            device.wait_until(&submission).unwrap();
        }
    }

    /// Kernels of one submission get their values in turn. On a machine that is busy their turns
    /// may run out, which they tell.
    #[test]
    fn values_are_handed_over() {
        let Some(mut opened) = Opened::new() else { return };
        let mut keeper = opened.keeper(u32::MAX);
        let device = Arc::clone(&opened.device);
        let delivered = (0..2000).any(|_| keeper.delivers(&device, &mut opened.boxes()).unwrap());
        assert!(delivered);
    }

    /// Without a release it ends after its turns, and tells.
    #[test]
    fn turns_are_bounded() {
        let Some(mut opened) = Opened::new() else { return };
        let mut keeper = opened.keeper(100);
        let device = opened.device;
        let mut encoder = device.device.create_command_encoder(&Default::default());
        keeper.record(&mut encoder, 0);
        let submission = device.submission(device.queue.submit([encoder.finish()]));
        let number = keeper.submitted(1);
        device.wait_until(&submission).unwrap();
        keeper.wait(&device, &submission, number).unwrap();
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let found = device.buffer_for("late", 4, usage).unwrap();
        let mut encoder = device.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(&keeper.late, 0, &found, 0, 4);
        device.queue.submit([encoder.finish()]);
        let mut late = [0; 4];
        device.read(&found, &mut late).unwrap();
        assert_eq!(u32::from_ne_bytes(late), 1);
    }
}
