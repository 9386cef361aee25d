//! Loading of models.

use std::{path::Path, sync::Arc};

use pelton_cpu::Cpu;
use pelton_graph::{Backend, Plan};
use pelton_weights::Checkpoint;

use crate::{Device, Error, LoadOptions, Model, built_in};

/// A backend, on which models are loaded.
pub struct Engine {
    backend: Box<dyn Backend>,
    /// The device in words: its name, threads, and why it is not a GPU where that was not chosen.
    device: Arc<str>,
}

impl Engine {
    /// An engine on the CPU, with one thread for each physical core.
    pub fn new() -> Self {
        Self::with_threads(pelton_cpu::default_threads())
    }

    /// An engine on the CPU, with this many threads, at least one.
    pub fn with_threads(threads: usize) -> Self {
        Self { backend: Box::new(Cpu::new(threads)), device: on_cpu(threads, None) }
    }

    /// An engine on a device; `threads` are for the CPU.
    ///
    /// # Errors
    ///
    /// If the device is a GPU and there is none, or it lacks what every kernel needs.
    pub fn on(device: Device, threads: usize) -> Result<Self, Error> {
        Self::open(device, threads, true)
    }

    /// As [`on`](Self::on), without a copy of the weights where a CPU multiplies them faster in
    /// another order than that of the file.
    ///
    /// # Errors
    ///
    /// As [`on`](Self::on).
    pub fn in_file_order(device: Device, threads: usize) -> Result<Self, Error> {
        Self::open(device, threads, false)
    }

    fn open(device: Device, threads: usize, repack: bool) -> Result<Self, Error> {
        let (backend, no_gpu) = device.open(threads, repack)?;
        let device = match backend.name() {
            "cpu" => on_cpu(threads, no_gpu.as_deref()),
            name => name.into(),
        };
        Ok(Self { backend, device })
    }

    /// An engine on any backend.
    pub fn with_backend(backend: impl Backend + 'static) -> Self {
        let device = backend.name().into();
        Self { backend: Box::new(backend), device }
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
        let checkpoint = Checkpoint::open(path)?;
        let model = Model::load(self.backend.as_ref(), checkpoint, options, progress)?;
        Ok(model.on(Arc::clone(&self.device)))
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
        let backend = self.backend.as_ref();
        let model = Model::load_plan(backend, plan, checkpoint, options, &mut |_, _| {})?;
        Ok(model.on(Arc::clone(&self.device)))
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
        let model = Model::load(self.backend.as_ref(), built_in()?, options, progress)?;
        Ok(model.on(Arc::clone(&self.device)))
    }
}

/// The CPU in words.
fn on_cpu(threads: usize, no_gpu: Option<&str>) -> Arc<str> {
    let threads = match threads {
        1 => "1 thread".to_owned(),
        n => format!("{n} threads"),
    };
    let reason = no_gpu.map_or_else(String::new, |reason| format!(" ({reason})"));
    format!("cpu, {threads}{reason}").into()
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}
