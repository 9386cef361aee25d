//! Loading of models.

use std::{path::Path, sync::Arc};

use pelton_cpu::Cpu;
use pelton_graph::{Backend, Plan};
use pelton_weights::Checkpoint;

use crate::{Device, Error, LoadOptions, Model, built_in};

/// A backend, on which models are loaded.
pub struct Engine {
    backend: Box<dyn Backend>,
}

impl Engine {
    /// An engine on the CPU, with one thread for each physical core.
    pub fn new() -> Self {
        Self::with_threads(pelton_cpu::default_threads())
    }

    /// An engine on the CPU, with this many threads, at least one.
    pub fn with_threads(threads: usize) -> Self {
        Self::with_backend(Cpu::new(threads))
    }

    /// An engine on a device; `threads` are for the CPU.
    ///
    /// # Errors
    ///
    /// If the device is a GPU and there is none, or it lacks what every kernel needs.
    pub fn on(device: Device, threads: usize) -> Result<Self, Error> {
        Ok(Self { backend: device.open(threads, true)? })
    }

    /// As [`on`](Self::on), without a copy of the weights where a CPU multiplies them faster in
    /// another order than that of the file.
    ///
    /// # Errors
    ///
    /// As [`on`](Self::on).
    pub fn in_file_order(device: Device, threads: usize) -> Result<Self, Error> {
        Ok(Self { backend: device.open(threads, false)? })
    }

    /// An engine on any backend.
    pub fn with_backend(backend: impl Backend + 'static) -> Self {
        Self { backend: Box::new(backend) }
    }

    /// The name of the backend: `cpu`, or that of the GPU.
    pub fn backend(&self) -> &str {
        self.backend.name()
    }

    /// Loads a model file.
    ///
    /// # Errors
    ///
    /// If the file or directory is not a sound model of a known architecture, or its vocabulary is
    /// broken. Also if a load option is out of its range, or there is not enough memory. Each names
    /// what was found and what was expected.
    pub fn load(&self, path: impl AsRef<Path>, options: &LoadOptions) -> Result<Model, Error> {
        self.load_with(path, options, &mut |_, _| {})
    }

    /// As [`load`](Self::load); `progress` is called now and then with the bytes that are loaded
    /// and the bytes in all.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_with(
        &self,
        path: impl AsRef<Path>,
        options: &LoadOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Model, Error> {
        Model::load(self.backend.as_ref(), Checkpoint::open(path)?, options, progress)
    }

    /// Loads a checkpoint with a plan that the caller built or changed.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), and if the plan does not fit the checkpoint or the backend.
    pub fn load_plan(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        options: &LoadOptions,
    ) -> Result<Model, Error> {
        Model::load_plan(self.backend.as_ref(), plan, checkpoint, options, &mut |_, _| {})
    }

    /// Loads the [built-in](built_in()) model.
    ///
    /// # Errors
    ///
    /// If a load option is out of its range, or if there is not enough memory.
    pub fn load_built_in(&self, options: &LoadOptions) -> Result<Model, Error> {
        self.load_built_in_with(options, &mut |_, _| {})
    }

    /// As [`load_built_in`](Self::load_built_in), with progress as in
    /// [`load_with`](Self::load_with).
    ///
    /// # Errors
    ///
    /// As [`load_built_in`](Self::load_built_in).
    pub fn load_built_in_with(
        &self,
        options: &LoadOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Model, Error> {
        Model::load(self.backend.as_ref(), built_in()?, options, progress)
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}
