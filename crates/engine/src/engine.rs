//! Loading of models.

use std::sync::{Arc, Once};

use pelton_graph::{Backend, Plan, Rates};
use pelton_place::{DeviceShare, Placement};
use pelton_weights::Checkpoint;

use crate::{
    Device, Error, LoadOptions, Model, ModelSource, SpeechModel, SpeechOptions, metadata,
    model::load,
    placement::{Devices, KnownRates, MoreGpus, open, passes},
    sources,
};

/// A device, on which models are loaded.
///
/// ```
/// use pelton::{Device, Engine, LoadOptions, ModelSource};
///
/// let engine = Engine::builder().device(Device::Cpu).threads(2).build()?;
/// let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
/// println!("{}", model.summary());
/// # Ok::<(), pelton::Error>(())
/// ```
pub struct Engine {
    devices: Devices,
    /// The device in words: its name, threads, and why it is not a GPU where that was not chosen.
    device: Arc<str>,
    threads: usize,
}

/// The options of an [`Engine`].
#[derive(Clone, Debug)]
#[must_use = "`build` opens the device"]
pub struct EngineBuilder {
    device: Device,
    threads: Option<usize>,
    repack: bool,
}

impl EngineBuilder {
    /// Sets the device; by default [`Device::Auto`].
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// Sets the threads on the CPU, at least one; by default one for each physical core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets whether a CPU may copy weights at load into an order in which it multiplies them faster
    /// than in that of the file; by default it may.
    pub fn repack(mut self, repack: bool) -> Self {
        self.repack = repack;
        self
    }

    /// Opens the device.
    ///
    /// # Errors
    ///
    /// If the device is a GPU and there is none, or it lacks what every kernel needs.
    pub fn build(self) -> Result<Engine, Error> {
        warn_if_unoptimized();
        let threads = self.threads.unwrap_or_else(pelton_cpu::default_threads).max(1);
        let (devices, no_gpu) = open(self.device, threads, self.repack)?;
        let device = match devices.main().name() {
            "cpu" => on_cpu(threads, no_gpu.as_deref()),
            _ => devices.names().into(),
        };
        Ok(Engine { devices, device, threads })
    }
}

impl Engine {
    /// The options of an engine, by default a hardware GPU if there is one, or else the CPU.
    pub fn builder() -> EngineBuilder {
        EngineBuilder { device: Device::Auto, threads: None, repack: true }
    }

    /// An engine on any backend. It needs the feature `unstable`.
    #[cfg(feature = "unstable")]
    pub fn with_backend(backend: impl Backend + 'static) -> Self {
        let device = backend.name().into();
        Self { devices: Devices::one(Arc::new(backend)), device, threads: 1 }
    }

    /// An engine on one backend or several, each with some of the layers, and another one for the
    /// layers that leave them. `spills` lets layers leave where a model does not fit. It needs
    /// the feature `unstable`.
    ///
    /// # Panics
    ///
    /// If there is no backend.
    #[cfg(feature = "unstable")]
    pub fn with_devices(
        all: Vec<Arc<dyn Backend>>,
        ram: impl Backend + 'static,
        spills: bool,
    ) -> Self {
        assert!(!all.is_empty(), "no backends, expected one or several");
        let rates = Arc::new(KnownRates::new(None));
        let ram: Option<Arc<dyn Backend>> = Some(Arc::new(ram));
        let devices = Devices { all, more: None, ram, mapped: None, spills, rates };
        let device = devices.names().into();
        Self { devices, device, threads: 1 }
    }

    /// As [`Device::Auto`] on several GPUs: a model is on the first backend if it fits that, else
    /// on the fewest that hold it. Where all together do not, the first one and `ram` have its
    /// layers. It needs the feature `unstable`.
    ///
    /// # Panics
    ///
    /// If there is no backend.
    #[cfg(feature = "unstable")]
    pub fn with_auto(mut all: Vec<Arc<dyn Backend>>, ram: impl Backend + 'static) -> Self {
        assert!(!all.is_empty(), "no backends, expected one or several");
        let more = all.split_off(1);
        let mut engine = Self::with_devices(all, ram, true);
        engine.devices.more = Some(Arc::new(MoreGpus::new(move || more.clone())));
        engine
    }

    /// The name of the backend: `cpu`, or that of the GPU.
    pub fn backend(&self) -> &str {
        self.devices.main().name()
    }

    /// Loads a model. [`LoadOptions::progress`] sets a function that follows the load.
    ///
    /// The feature `hub` lets the source be a name such as `qwen3:0.6b` or
    /// `Qwen/Qwen3-0.6B-GGUF:Q8_0`, where no file or folder has it. Such a model is found on this
    /// machine or downloaded.
    ///
    /// # Errors
    ///
    /// If the file or directory is not a sound model of a known architecture, or its vocabulary is
    /// broken. Also if a load option is out of its range, or there is not enough memory. Each names
    /// what was found and what was expected.
    pub fn load(
        &self,
        source: impl Into<ModelSource>,
        options: &LoadOptions,
    ) -> Result<Model, Error> {
        let source = source.into();
        let (path, checkpoint) = sources::text(&source)?;
        let checkpoint = metadata::changed(checkpoint, options)?;
        let tower = sources::tower(&source, (&path, &checkpoint), options)?;
        let model = load::load(&self.devices, checkpoint, tower, options)?;
        let device = self.device_of(model.placement());
        Ok(model.on(device))
    }

    /// The devices that a model would be loaded on, and its memory there. Nothing of the
    /// model's weights is read.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), as far as it does not depend on the weights.
    pub fn placement(
        &self,
        source: impl Into<ModelSource>,
        options: &LoadOptions,
    ) -> Result<Placement, Error> {
        let source = source.into();
        let (path, checkpoint) = sources::text(&source)?;
        let checkpoint = metadata::changed(checkpoint, options)?;
        let tower = sources::tower(&source, (&path, &checkpoint), options)?;
        load::explain(&self.devices, &checkpoint, tower.as_ref(), options)
    }

    /// The names of the devices whose rates are not known yet: a [`Placement`] with one of them
    /// predicts no speed. Drivers in software are not among them, as they are never measured.
    pub fn unmeasured(&self) -> Vec<String> {
        let devices = self.devices.measured();
        let unknown = devices.filter(|device| self.devices.rates.get(device.as_ref()).is_none());
        unknown.map(|device| device.name().to_owned()).collect()
    }

    /// Measures the rates of all devices, about a second of each, and keeps them in the user's
    /// cache directory: the bandwidths of their memory and of the way between them.
    ///
    /// # Errors
    ///
    /// If a device fails, or too little memory is free.
    pub fn measure(&self) -> Result<(), Error> {
        let mut devices = self.devices.measured();
        devices.try_for_each(|device| self.devices.rates.measure(device.as_ref()))
    }

    /// The rates of the device with the weights of a plan, by which the time of its passes is
    /// predicted; `None` if they are not known. It needs the feature `unstable`.
    #[cfg(feature = "unstable")]
    pub fn rates(&self, plan: &Plan) -> Option<Rates> {
        self.devices.rates.of_plan(self.devices.main().as_ref(), plan)
    }

    /// Measures by passes over a model which [rates](Self::rates) the device has with weights of
    /// its format, and keeps them. The model is one of this engine with the context of
    /// [`loaded_to_measure`](Self::loaded_to_measure). It needs the feature `unstable`.
    ///
    /// # Errors
    ///
    /// As [`Model::into_session`], and if a pass fails.
    #[cfg(feature = "unstable")]
    pub fn measure_passes(&self, model: Model) -> Result<Rates, Error> {
        let (device, context) = (self.devices.main().as_ref(), model.context());
        let mut session = model.into_session()?;
        let rates = passes::measure(&mut session, context, self.devices.rates.get(device))?;
        self.devices.rates.keep_of_plan(device, session.plan(), &rates);
        Ok(rates)
    }

    /// The options of a load for [`measure_passes`](Self::measure_passes). It needs
    /// the feature `unstable`.
    #[cfg(feature = "unstable")]
    pub fn loaded_to_measure() -> LoadOptions {
        LoadOptions::default().context(passes::CONTEXT)
    }

    /// The devices of a model in words.
    fn device_of(&self, placement: &Placement) -> Arc<str> {
        let main = self.devices.main().name();
        match placement.devices.as_slice() {
            [share] if share.device == main => Arc::clone(&self.device),
            [_] => on_cpu(self.threads, Some(&format!("{main} has not the memory for it"))),
            shares => {
                let share =
                    |share: &DeviceShare| format!("{} with {}", share.device, share.parts());
                shares.iter().rev().map(share).collect::<Vec<_>>().join(", ").into()
            }
        }
    }

    /// A checkpoint with the metadata that a load has in place of its own, as
    /// [`outline`](Self::outline) expects it. It needs the feature `unstable`.
    ///
    /// # Errors
    ///
    /// [`Error::RopeScaling`] if an extension of the context cannot be.
    #[cfg(feature = "unstable")]
    pub fn changed(
        &self,
        checkpoint: Checkpoint,
        options: &LoadOptions,
    ) -> Result<Checkpoint, Error> {
        metadata::changed(checkpoint, options)
    }

    /// The plan and the sizes that a checkpoint would be loaded with, and its vision tower. It
    /// needs the feature `unstable`.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), but for errors of memory.
    #[cfg(feature = "unstable")]
    pub fn outline(
        &self,
        checkpoint: &Checkpoint,
        tower: Option<&crate::model::TowerOutline>,
        options: &LoadOptions,
    ) -> Result<crate::model::Outline, Error> {
        crate::model::Outline::new(self.devices.main().as_ref(), checkpoint, tower, options)
    }

    /// Loads a model that recognizes speech, as Whisper.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load); [`Error::Output`] if the model does something else.
    pub fn load_speech(
        &self,
        source: impl Into<ModelSource>,
        options: &SpeechOptions,
    ) -> Result<SpeechModel, Error> {
        let checkpoint = sources::speech(source.into())?;
        SpeechModel::load(self.devices.main().as_ref(), checkpoint, options)
    }

    /// Loads a model that recognizes speech from a checkpoint. It needs the feature `unstable`.
    ///
    /// # Errors
    ///
    /// As [`load_speech`](Self::load_speech).
    #[cfg(feature = "unstable")]
    pub fn load_speech_checkpoint(
        &self,
        checkpoint: Checkpoint,
        options: &SpeechOptions,
    ) -> Result<SpeechModel, Error> {
        SpeechModel::load(self.devices.main().as_ref(), checkpoint, options)
    }

    /// Loads a checkpoint with a plan that the caller built or changed. It needs the feature
    /// `unstable`.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load), and if the plan does not fit the checkpoint or the backend.
    #[cfg(feature = "unstable")]
    pub fn load_plan(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        options: &LoadOptions,
    ) -> Result<Model, Error> {
        let model = load::load_plan(self.devices.main(), plan, checkpoint, options)?;
        Ok(model.on(Arc::clone(&self.device)))
    }
}

/// Says once on standard error that the kernels are built without optimization, which makes
/// them many times slower.
fn warn_if_unoptimized() {
    static ONCE: Once = Once::new();
    if cfg!(unoptimized) {
        ONCE.call_once(|| {
            eprintln!(
                "pelton: this is a debug build, which is many times slower: build with --release"
            );
        });
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
