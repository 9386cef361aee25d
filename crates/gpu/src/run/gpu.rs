//! A GPU as a backend.

use std::sync::{Arc, atomic::Ordering};

use pelton_graph::{
    Backend, EffortForm, Error, Executable, HostExecutables, Limits, Needs, Op, Plan, Rates, Rows,
};
use pelton_weights::Checkpoint;

use crate::{
    device::{Adapter, Checks, Device},
    lower::{
        buffers::prompt_partial_len,
        choices::{Choices, owner},
    },
    persist::Mode,
    run::{
        accept::accepts,
        executable::{GpuExecutable, Load},
        memory::needs,
        rates,
    },
    weights::{self, SharedMatrices, Sources},
};

/// A GPU as a backend.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub(super) device: Arc<Device>,
    persistent: Mode,
    pub(crate) matrices: Arc<SharedMatrices>,
}

impl Gpu {
    /// Opens a GPU.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if the GPU lacks a capability that every kernel needs, or the driver
    /// fails.
    pub fn open(adapter: &Adapter) -> Result<Self, Error> {
        Ok(Self::of(Device::open(adapter, Checks::default())?))
    }

    /// Opens a GPU with kernels that check every index: slower, for tests. The environment
    /// variable `PELTON_TEST_GPU` has other ways to run the same tests: words separated by commas
    /// of `unchecked`, `poisoned` (workgroup memory begins with NaN) and `few-buffers` (a kernel
    /// binds at most eight).
    ///
    /// # Errors
    /// As [`open`](Self::open), or if the variable has another word.
    pub fn open_checked(adapter: &Adapter) -> Result<Self, Error> {
        let checks = Checks::of_environment()
            .map_err(|what| Error::Device { device: adapter.name().to_owned(), what })?;
        Ok(Self::of(Device::open(adapter, checks)?))
    }

    pub(crate) fn of(device: Arc<Device>) -> Self {
        Self { device, persistent: Mode::default(), matrices: Arc::default() }
    }

    /// The same GPU without persistent kernels: every step is dispatches of its own.
    #[must_use]
    pub fn without_persistent(self) -> Self {
        Self { persistent: Mode::Off, ..self }
    }

    /// The same GPU with persistent kernels of this many workgroups wherever their results are
    /// right, faster or not, for tests. They are for passes of up to so many rows, and have at most
    /// `turns` turns of a spin. Kernels that wait for feed-forwards in RAM have as many.
    #[must_use]
    pub fn with_persistent(self, groups: usize, turns: u32, rows: usize) -> Self {
        Self { persistent: Mode::Forced { groups, turns, rows }, ..self }
    }

    /// The number of passes, of all loads, that were submitted with persistent kernels, or with
    /// such that wait for feed-forwards in RAM.
    pub fn persistent_passes(&self) -> u64 {
        self.device.persisted.load(Ordering::Relaxed)
    }
}

impl Backend for Gpu {
    fn name(&self) -> &str {
        &self.device.name
    }

    fn has_effort(&self, form: EffortForm) -> bool {
        form == EffortForm::Nested
    }

    fn effort_bytes(&self, plan: &Plan) -> u64 {
        weights::effort_bytes(plan)
    }

    fn accepts(&self, op: &Op, plan: &Plan) -> bool {
        accepts(&self.device.capabilities, op, plan)
    }

    fn needs(&self, plan: &Plan, limits: &Limits) -> Result<Needs, Error> {
        needs(&self.device, plan, limits)
    }

    /// The free memory of the largest heap of the GPU's own. `None` where the driver reports no
    /// memory.
    fn budget(&self) -> Option<u64> {
        self.device.free_memory()
    }

    fn rates_key(&self) -> Option<String> {
        self.device.tunes.then(|| owner(&self.device))
    }

    fn measure_rates(&self) -> Result<Rates, Error> {
        rates::measure(&self.device)
    }

    /// The rows that keep a large GPU with matrix cores busy in attention, whose workgroups have up
    /// to 64 rows each. Their activations take at most 1/32 of the memory that weights leave.
    fn prompt_rows(&self, plan: &Plan, weights: u64) -> usize {
        const LEAST: usize = 512;
        let left = self.budget().map_or(0, |budget| budget.saturating_sub(weights) / 32);
        let of_all = plan.buffers.iter().filter(|buffer| buffer.rows == Rows::All);
        let width: u64 = of_all.map(|buffer| 4 * buffer.width as u64).sum();
        let fits = |rows: &usize| {
            let partial = 4 * prompt_partial_len(plan, *rows) as u64;
            (*rows as u64).saturating_mul(width + partial) <= left
        };
        let larger: &[usize] = match (self.device.capabilities.matrix_cores, plan.encoder) {
            (false, _) => &[],
            (true, None) => &[4 * LEAST, 2 * LEAST],
            // four windows of 30 seconds
            (true, Some(_)) => &[12 * LEAST, 4 * LEAST, 2 * LEAST],
        };
        larger.iter().copied().find(fits).unwrap_or(LEAST)
    }

    fn has_host_parts(&self) -> bool {
        true
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        self.load_with_host(plan, checkpoint, limits, HostExecutables::default(), progress)
    }

    fn load_with_host(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        host: HostExecutables,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        plan.check_accepted(self)?;
        if host.parts.len() != plan.host.len() {
            return Err(Error::Placement(format!(
                "{} executables for {} feed-forwards in RAM, expected one for each",
                host.parts.len(),
                plan.host.len()
            )));
        }
        let device = Arc::clone(&self.device);
        let choices = Choices::of_user(&device);
        let source = Sources { checkpoint: &checkpoint, matrices: &self.matrices };
        let (available, persistent, choices) = (self.budget(), self.persistent, choices.as_ref());
        let load = Load { device, plan, limits, available, choices, persistent };
        Ok(Box::new(GpuExecutable::load(load, source, progress)?.with_host(host, choices)?))
    }
}
