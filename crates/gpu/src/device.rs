//! An open device: what it can do, and how buffers and kernels are made on it.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, TryRecvError},
    },
    thread,
};

use pelton_graph::Error;

use crate::{
    adapters::{Adapter, Kind},
    tuning,
};

/// What a device offers, as far as kernels are chosen by it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Abilities {
    /// The narrowest subgroup that a kernel may meet.
    pub(crate) subgroup: u32,
    /// The widest one.
    pub(crate) widest_subgroup: u32,
    /// Rows of activations that a kernel may unroll for: a driver that compiles for the processor
    /// takes a second for sixteen.
    pub(crate) batch: usize,
    /// Whether 16×16 matrix cores multiply f16 into f32.
    pub(crate) matrix_cores: bool,
    /// Whether the device can say when a step began and ended.
    pub(crate) timestamps: bool,
    /// Threads of a workgroup, at most.
    pub(crate) workgroup_threads: u32,
    /// Bytes that a workgroup can share.
    pub(crate) workgroup_bytes: u32,
    /// Bytes of a buffer that a kernel sees at once.
    pub(crate) binding_bytes: u64,
    /// Bytes of a buffer.
    pub(crate) buffer_bytes: u64,
}

/// Whether a kernel only reads a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

/// A device, and its queue of work.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) name: String,
    /// Its driver's name and version.
    pub(crate) driver: String,
    /// Whether kernels are chosen by trying, and where what was found is kept.
    pub(crate) tunes: bool,
    pub(crate) tuning_file: Option<PathBuf>,
    pub(crate) abilities: Abilities,
    /// Bytes of its memory, where that is known.
    pub(crate) memory: Option<u64>,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    checks: bool,
    failure: Arc<Mutex<Option<String>>>,
    made: AtomicU64,
}

impl Device {
    /// Opens an adapter. With `checks` kernels test every index: for tests.
    pub(crate) fn open(adapter: &Adapter, checks: bool) -> Result<Arc<Self>, Error> {
        let name = adapter.name().to_owned();
        let fail = |what: String| Error::Device { device: name.clone(), what };
        let offered = adapter.inner.features();
        if !offered.contains(wgpu::Features::SUBGROUP) {
            return Err(fail("it has no subgroup operations, which every kernel needs".into()));
        }
        let matrix_cores = adapter.has_matrix_cores();
        let mut features = wgpu::Features::SUBGROUP;
        if adapter.has_f16() {
            features |= wgpu::Features::SHADER_F16;
        }
        if matrix_cores {
            features |= wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        }
        let stamps =
            wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES;
        let timestamps = offered.contains(stamps);
        if timestamps {
            features |= stamps;
        }
        let limits = adapter.inner.limits();
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("pelton"),
            required_features: features,
            required_limits: limits.clone(),
            experimental_features: match matrix_cores {
                // SAFETY: cooperative matrices are the only experiment that is used; the kernels
                // that use them are ours, and tests hold their results against plain ones
                true => unsafe { wgpu::ExperimentalFeatures::enabled() },
                false => wgpu::ExperimentalFeatures::disabled(),
            },
            ..Default::default()
        };
        let (device, queue) = pollster::block_on(adapter.inner.request_device(&descriptor))
            .map_err(|error| fail(error.to_string()))?;
        let failure = Arc::new(Mutex::new(None));
        let note = |failure: &Arc<Mutex<Option<String>>>, what: String| {
            if let Ok(mut first) = failure.lock() {
                first.get_or_insert(what);
            }
        };
        let seen = Arc::clone(&failure);
        device.on_uncaptured_error(Arc::new(move |error| note(&seen, error.to_string())));
        let seen = Arc::clone(&failure);
        device.set_device_lost_callback(move |reason, message| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                note(&seen, format!("it was lost: {message}"));
            }
        });
        let abilities = Abilities {
            subgroup: adapter.subgroup_widths().0.max(1),
            widest_subgroup: adapter.subgroup_widths().1.max(1),
            batch: if adapter.kind() == Kind::Software { 4 } else { 16 },
            matrix_cores,
            timestamps,
            workgroup_threads: limits.max_compute_invocations_per_workgroup,
            workgroup_bytes: limits.max_compute_workgroup_storage_size,
            binding_bytes: limits.max_storage_buffer_binding_size,
            buffer_bytes: limits.max_buffer_size,
        };
        Ok(Arc::new(Self {
            name,
            driver: adapter.driver(),
            tunes: timestamps && !checks && adapter.kind() != Kind::Software,
            tuning_file: tuning::cache_file(),
            abilities,
            memory: adapter.memory(),
            device,
            queue,
            checks,
            failure,
            made: AtomicU64::new(0),
        }))
    }

    /// A buffer that kernels read and write, zeroed.
    pub(crate) fn buffer(&self, label: &str, bytes: u64) -> Result<wgpu::Buffer, Error> {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_DST
            | wgpu::BufferUsages::COPY_SRC;
        self.buffer_for(label, bytes, usage)
    }

    /// A buffer for `usage`, of at least four bytes.
    pub(crate) fn buffer_for(
        &self,
        label: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<wgpu::Buffer, Error> {
        let size = bytes.max(4).next_multiple_of(4);
        if size > self.abilities.buffer_bytes {
            return Err(self.fail(format!(
                "{label} needs {size} bytes, and a buffer of it has at most {}",
                self.abilities.buffer_bytes
            )));
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        });
        match pollster::block_on(scope.pop()) {
            None => Ok(buffer),
            Some(_) => Err(self.fail(format!("no room for {label}, {size} bytes"))),
        }
    }

    /// Compiles a kernel from WGSL, whose bindings are `bindings` in order, and whose entry point
    /// is `main`.
    pub(crate) fn kernel(
        &self,
        label: &str,
        source: &str,
        bindings: &[Access],
    ) -> Result<Kernel, Error> {
        let kernel = self.kernel_to_compile(label, source, bindings);
        self.compile(&kernel)?;
        Ok(kernel)
    }

    /// A kernel that can be bound, and that [`compile_all`](Self::compile_all) will make ready.
    pub(crate) fn kernel_to_compile(
        &self,
        label: &str,
        source: &str,
        bindings: &[Access],
    ) -> Kernel {
        let entries: Vec<_> = bindings
            .iter()
            .enumerate()
            .map(|(i, access)| wgpu::BindGroupLayoutEntry {
                binding: i as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: *access == Access::Read },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            })
            .collect();
        let layout = self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some(label),
            entries: &entries,
        });
        let (label, source) = (label.to_owned(), source.to_owned());
        Kernel { label, source, layout, pipeline: OnceLock::new() }
    }

    /// Compiles kernels on all threads of the machine: a driver takes long for each.
    pub(crate) fn compile_all(&self, kernels: &[Arc<Kernel>]) -> Result<(), Error> {
        let threads = thread::available_parallelism().map_or(1, |n| n.get()).min(kernels.len());
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.compile(kernel)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut outcome = work();
            for other in others {
                let joined = other.join().unwrap_or_else(|_| {
                    Err(self.fail("a thread that compiles kernels has failed".into()))
                });
                outcome = outcome.and(joined);
            }
            outcome
        })
    }

    /// Compiles a kernel, if that is still to be done.
    fn compile(&self, kernel: &Kernel) -> Result<(), Error> {
        if kernel.pipeline.get().is_some() {
            return Ok(());
        }
        self.made.fetch_add(1, Ordering::Relaxed);
        let label = Some(kernel.label.as_str());
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let descriptor = wgpu::ShaderModuleDescriptor {
            label,
            source: wgpu::ShaderSource::Wgsl(kernel.source.as_str().into()),
        };
        let module = match self.checks {
            true => self.device.create_shader_module(descriptor),
            // SAFETY: the source is one of our kernels, whose indices are bounded by the shapes
            // that the host checks before a dispatch and whose loops end; tests run them checked
            false => unsafe {
                self.device.create_shader_module_trusted(
                    descriptor,
                    wgpu::ShaderRuntimeChecks::unchecked(),
                )
            },
        };
        let layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label,
            bind_group_layouts: &[Some(&kernel.layout)],
            immediate_size: 0,
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: self.checks,
                ..Default::default()
            },
            cache: None,
        });
        match pollster::block_on(scope.pop()) {
            None => {
                // who compiled it first was right
                let _ = kernel.pipeline.set(pipeline);
                Ok(())
            }
            Some(error) => Err(self.fail(format!("kernel {}: {error}", kernel.label))),
        }
    }

    /// Joins a kernel with the buffers that it works on, in the order of its bindings.
    pub(crate) fn bind(
        &self,
        label: &str,
        kernel: &Kernel,
        buffers: &[wgpu::BufferBinding<'_>],
    ) -> Result<wgpu::BindGroup, Error> {
        self.made.fetch_add(1, Ordering::Relaxed);
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let entries: Vec<_> = buffers
            .iter()
            .enumerate()
            .map(|(i, buffer)| wgpu::BindGroupEntry {
                binding: i as u32,
                resource: wgpu::BindingResource::Buffer(buffer.clone()),
            })
            .collect();
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(label),
            layout: &kernel.layout,
            entries: &entries,
        });
        match pollster::block_on(scope.pop()) {
            None => Ok(group),
            Some(error) => Err(self.fail(format!("bindings of {label}: {error}"))),
        }
    }

    /// Copies `bytes` of a buffer that can be mapped, once the work before has been done.
    pub(crate) fn read(&self, buffer: &wgpu::Buffer, out: &mut [u8]) -> Result<(), Error> {
        let slice = buffer.slice(..out.len() as u64);
        slice.map_async(wgpu::MapMode::Read, |_| {});
        self.wait()?;
        let view = slice.get_mapped_range().map_err(|error| self.fail(error.to_string()))?;
        out.copy_from_slice(&view);
        drop(view);
        buffer.unmap();
        Ok(())
    }

    /// Waits for the work up to a submission.
    pub(crate) fn wait_until(&self, submission: &wgpu::SubmissionIndex) -> Result<(), Error> {
        let polled = self.device.poll(wgpu::PollType::Wait {
            submission_index: Some(submission.clone()),
            timeout: None,
        });
        self.check()?;
        polled.map(|_| ()).map_err(|error| self.fail(error.to_string()))
    }

    /// Waits until a mapping has been granted.
    pub(crate) fn wait_for(&self, mapped: &Receiver<bool>) -> Result<(), Error> {
        loop {
            match mapped.try_recv() {
                Ok(true) => return Ok(()),
                Ok(false) | Err(TryRecvError::Disconnected) => {
                    self.check()?;
                    return Err(self.fail("it refused a mapping of memory".into()));
                }
                Err(TryRecvError::Empty) => self.wait()?,
            }
        }
    }

    /// Waits for all work that was submitted.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        self.check()?;
        polled.map(|_| ()).map_err(|error| self.fail(error.to_string()))
    }

    /// Whether anything has gone wrong on the device since it was opened.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.failure.lock() {
            Ok(failure) => failure.clone().map_or(Ok(()), |what| Err(self.fail(what))),
            Err(_) => Err(self.fail("it failed".into())),
        }
    }

    /// How many buffers, kernels and bindings have been made: none after a model is loaded.
    #[cfg(test)]
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    pub(crate) fn fail(&self, what: String) -> Error {
        Error::Device { device: self.name.clone(), what }
    }
}

/// A kernel: compiled, or about to be.
#[derive(Debug)]
pub(crate) struct Kernel {
    label: String,
    source: String,
    layout: wgpu::BindGroupLayout,
    pipeline: OnceLock<wgpu::ComputePipeline>,
}

impl Kernel {
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Records one call of it, if it has been compiled.
    pub(crate) fn record(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        bindings: &wgpu::BindGroup,
        [x, y, z]: [u32; 3],
    ) {
        if let Some(pipeline) = self.pipeline.get() {
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, bindings, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
    }
}
