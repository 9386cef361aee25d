//! An open GPU: its buffers, kernels, bindings and waits.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, TryRecvError},
    },
    thread,
    time::Duration,
};

use pelton_graph::Error;

use crate::device::{
    adapters::{Adapter, Kind},
    capabilities::{Capabilities, matrix_cores_allowed},
    checks::{Checks, poisoned},
    pipeline::Kernel,
    source::{Access, KernelSource},
    wait::{Submission, block_on, has_ended, spin, wait},
};

/// Maximum time of a wait, after which the GPU counts as lost: far longer than any pass.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// An open GPU and its queue.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) name: String,
    /// Its driver's name and version.
    pub(crate) driver: String,
    /// Whether launch shapes are chosen by timing them.
    pub(crate) tunes: bool,
    /// Whether kernels can exchange data between workgroups by coherent buffers.
    pub(crate) coherent: bool,
    pub(crate) capabilities: Capabilities,
    adapter: Adapter,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    checks: Checks,
    failures: Arc<Failures>,
    created: AtomicU64,
    /// Passes that were submitted with persistent kernels.
    pub(crate) persisted: AtomicU64,
}

impl Device {
    /// Opens an adapter, with `checks` for tests.
    pub(crate) fn open(adapter: &Adapter, checks: Checks) -> Result<Arc<Self>, Error> {
        let name = adapter.name().to_owned();
        let fail = |what: String| Error::Device { device: name.clone(), what };
        if !adapter.has_subgroups() {
            return Err(fail("it has no subgroup operations, which every kernel needs".into()));
        }
        let switch = std::env::var_os("PELTON_MATRIX_CORES");
        let allowed = matrix_cores_allowed(switch.as_deref()).map_err(&fail)?;
        let matrix_cores = allowed && adapter.has_matrix_cores();
        let coherent = adapter.has_coherent_buffers();
        let features = features(adapter, matrix_cores);
        let timestamps = features.contains(STAMPS);
        let mut limits = adapter.inner.limits();
        if checks.few_buffers {
            limits.max_storage_buffers_per_shader_stage = Checks::FEW_BUFFERS;
        }
        let batch = batch(adapter, &limits).ok_or_else(|| {
            fail(format!(
                "its workgroups have {} bytes of memory and subgroups of {}, expected memory for two \
                 rows of activations",
                limits.max_compute_workgroup_storage_size,
                adapter.subgroup_widths().1
            ))
        })?;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("pelton"),
            required_features: features,
            required_limits: limits.clone(),
            experimental_features: match matrix_cores {
                // SAFETY: cooperative matrices are the only experimental feature that is used; the
                // kernels that use them are our own, and their results are tested
                true => unsafe { wgpu::ExperimentalFeatures::enabled() },
                false => wgpu::ExperimentalFeatures::disabled(),
            },
            ..Default::default()
        };
        let (device, queue) = block_on(adapter.inner.request_device(&descriptor))
            .map_err(|error| fail(error.to_string()))?;
        let failures = Arc::new(Failures::default());
        let noted = Arc::clone(&failures);
        device.on_uncaptured_error(Arc::new(move |error| {
            noted.note(&noted.latest, error.to_string())
        }));
        let noted = Arc::clone(&failures);
        device.set_device_lost_callback(move |reason, message| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                noted.note(&noted.lost, format!("it was lost: {message}"));
            }
        });
        let capabilities = Capabilities {
            subgroup: adapter.subgroup_widths().0.max(1),
            widest_subgroup: adapter.subgroup_widths().1.max(1),
            batch,
            matrix_cores,
            core: adapter.core().unwrap_or(16),
            timestamps,
            workgroup_threads: limits.max_compute_invocations_per_workgroup,
            workgroup_bytes: limits.max_compute_workgroup_storage_size,
            binding_bytes: limits.max_storage_buffer_binding_size,
            buffer_bytes: limits.max_buffer_size,
            storage_buffers: limits.max_storage_buffers_per_shader_stage as usize,
        };
        Ok(Arc::new(Self {
            name,
            driver: adapter.driver(),
            coherent,
            tunes: timestamps && checks == Checks::default() && adapter.kind() != Kind::Software,
            capabilities,
            adapter: adapter.clone(),
            device,
            queue,
            checks,
            failures,
            created: AtomicU64::new(0),
            persisted: AtomicU64::new(0),
        }))
    }

    /// Whether it has memory of its own.
    pub(crate) fn is_discrete(&self) -> bool {
        self.adapter.kind() == Kind::Discrete
    }

    /// Bytes that can be allocated at this time, if known.
    pub(crate) fn free_memory(&self) -> Option<u64> {
        self.adapter.free_memory()
    }

    /// Bytes that are allocated, as wgpu's allocator counts them; `None` where it does not.
    pub(crate) fn allocated(&self) -> Option<u64> {
        self.device.generate_allocator_report().map(|report| report.total_allocated_bytes)
    }

    /// A zeroed buffer that kernels can read and write.
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
        if size > self.capabilities.buffer_bytes {
            return Err(self.fail(format!(
                "{label} needs a buffer of {size} bytes, expected at most {}",
                self.capabilities.buffer_bytes
            )));
        }
        self.created.fetch_add(1, Ordering::Relaxed);
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        });
        match block_on(scope.pop()) {
            None => Ok(buffer),
            Some(_) => {
                Err(self.fail(format!("{label} needs {size} bytes, which could not be allocated")))
            }
        }
    }

    /// A compiled kernel.
    pub(crate) fn kernel(&self, label: &str, source: &KernelSource) -> Result<Kernel, Error> {
        let kernel = self.kernel_to_compile(label, source);
        self.compile(&kernel)?;
        Ok(kernel)
    }

    /// A kernel that can be bound, and that [`compile_all`](Self::compile_all) compiles later.
    pub(crate) fn kernel_to_compile(&self, label: &str, source: &KernelSource) -> Kernel {
        let entries: Vec<_> = source
            .bindings()
            .iter()
            .enumerate()
            .map(|(i, bound)| wgpu::BindGroupLayoutEntry {
                binding: i as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage {
                        read_only: bound.access == Access::Read,
                    },
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
        let (label, source) = (label.to_owned(), source.clone());
        Kernel { label, source, layout, pipeline: OnceLock::new() }
    }

    /// Compiles kernels on all cores of the CPU, because drivers take long for each.
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

    /// Compiles a kernel that is not compiled yet.
    fn compile(&self, kernel: &Kernel) -> Result<(), Error> {
        if kernel.pipeline.get().is_some() {
            return Ok(());
        }
        self.created.fetch_add(1, Ordering::Relaxed);
        let label = Some(kernel.label.as_str());
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let text = kernel.source.with_prelude();
        let source = match self.checks.poison {
            true => poisoned(&text).into(),
            false => text,
        };
        let descriptor =
            wgpu::ShaderModuleDescriptor { label, source: wgpu::ShaderSource::Wgsl(source) };
        let module = match self.checks.indices {
            true => self.device.create_shader_module(descriptor),
            // SAFETY: the source is one of our own kernels, whose loops end and whose indices
            // are bounded by shapes that the host checks before a dispatch; tests run them
            // with checks and without
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
                zero_initialize_workgroup_memory: self.checks.indices,
                ..Default::default()
            },
            cache: None,
        });
        match block_on(scope.pop()) {
            None => {
                // another thread may have compiled it first, to the same pipeline
                let _ = kernel.pipeline.set(pipeline);
                Ok(())
            }
            Some(error) => Err(self.fail(format!("kernel {}: {error}", kernel.label))),
        }
    }

    /// A bind group of a kernel with buffers in the order of its bindings.
    pub(crate) fn bind(
        &self,
        label: &str,
        kernel: &Kernel,
        buffers: &[wgpu::BufferBinding<'_>],
    ) -> Result<wgpu::BindGroup, Error> {
        self.created.fetch_add(1, Ordering::Relaxed);
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
        match block_on(scope.pop()) {
            None => Ok(group),
            Some(error) => Err(self.fail(format!("bindings of {label}: {error}"))),
        }
    }

    /// Copies the beginning of a buffer that can be mapped to `out`, after all submitted work.
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

    /// The commands up to an index, and the mappings requested after them, for
    /// [`wait_until`](Self::wait_until).
    pub(crate) fn submission(&self, index: wgpu::SubmissionIndex) -> Submission {
        Submission::new(&self.queue, index)
    }

    /// Waits for all work up to a submission.
    pub(crate) fn wait_until(&self, submission: &Submission) -> Result<(), Error> {
        self.poll(Some(submission))
    }

    /// Waits for all work up to a submission, which is soon over: at first without sleep.
    pub(crate) fn wait_soon(&self, submission: &Submission) -> Result<(), Error> {
        spin(&self.device, submission);
        self.poll(Some(submission))
    }

    /// Whether a submission has ended.
    pub(crate) fn has_ended(&self, submission: &Submission) -> bool {
        has_ended(&self.device, submission)
    }

    /// Calls the callbacks of what the GPU has done, without a wait.
    pub(crate) fn advance(&self) -> Result<(), Error> {
        let polled = self.device.poll(wgpu::PollType::Poll);
        self.check()?;
        polled.map(drop).map_err(|error| self.fail(error.to_string()))
    }

    /// Waits until the callback of a mapping has sent its result.
    pub(crate) fn wait_for(&self, mapped: &Receiver<bool>) -> Result<(), Error> {
        loop {
            match mapped.try_recv() {
                Ok(true) => return Ok(()),
                Ok(false) | Err(TryRecvError::Disconnected) => {
                    self.check()?;
                    return Err(self.fail("a buffer could not be mapped".into()));
                }
                Err(TryRecvError::Empty) => self.wait()?,
            }
        }
    }

    /// Waits for all work that was submitted.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.poll(None)
    }

    fn poll(&self, until: Option<&Submission>) -> Result<(), Error> {
        let polled = wait(&self.device, &self.queue, until, WAIT_LIMIT);
        if let Err(wgpu::PollError::Timeout) = polled {
            let seconds = WAIT_LIMIT.as_secs();
            self.failures.note(&self.failures.lost, format!("no answer for {seconds} seconds"));
        }
        self.check()?;
        polled.map_err(|error| self.fail(error.to_string()))
    }

    /// Returns the failure since the last check, if any. A lost GPU is reported at every check, any
    /// other failure once.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.failures.take() {
            None => Ok(()),
            Some(what) => Err(self.fail(what)),
        }
    }

    /// Number of buffers, pipelines and bind groups created so far.
    #[cfg(test)]
    pub(crate) fn created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }

    /// Makes every later check fail, as after a loss of the GPU.
    #[cfg(test)]
    pub(crate) fn lose(&self) {
        self.failures.note(&self.failures.lost, "it was lost: by a test".to_owned());
    }

    pub(crate) fn fail(&self, what: String) -> Error {
        Error::Device { device: self.name.clone(), what }
    }
}

/// The first failures that the driver reported outside of a call.
#[derive(Debug, Default)]
struct Failures {
    lost: Mutex<Option<String>>,
    latest: Mutex<Option<String>>,
}

impl Failures {
    fn note(&self, kind: &Mutex<Option<String>>, what: String) {
        if let Ok(mut first) = kind.lock() {
            first.get_or_insert(what);
        }
    }

    /// The reason why the GPU is lost, or else a failure that is not reported yet.
    fn take(&self) -> Option<String> {
        let lost = self.lost.lock().ok().and_then(|lost| lost.clone());
        lost.or_else(|| self.latest.lock().ok().and_then(|mut latest| latest.take()))
    }
}

/// Timestamps between the dispatches of a pass.
const STAMPS: wgpu::Features =
    wgpu::Features::TIMESTAMP_QUERY.union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES);

/// The features that a device is opened with: those that kernels need, and others if it has them.
fn features(adapter: &Adapter, matrix_cores: bool) -> wgpu::Features {
    let mut features = wgpu::Features::SUBGROUP;
    if adapter.has_f16() {
        features |= wgpu::Features::SHADER_F16;
    }
    if matrix_cores {
        features |=
            wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX | wgpu::Features::SUBGROUP_BARRIER;
    }
    if adapter.inner.features().contains(STAMPS) {
        features |= STAMPS;
    }
    if adapter.has_coherent_buffers() {
        features |= wgpu::Features::MEMORY_DECORATION_COHERENT;
    }
    features
}

/// The value of [`Capabilities::batch`], at least 2: a chunk of one unit a lane must fit in
/// workgroup memory. `None` if that of two rows does not.
fn batch(adapter: &Adapter, limits: &wgpu::Limits) -> Option<usize> {
    /// Bytes of a unit of activations: codes, scale and sums.
    const UNIT: usize = 40;
    let bytes = (limits.max_compute_workgroup_storage_size as usize).min(32 << 10);
    let width = adapter.subgroup_widths().1.max(1) as usize;
    let most = if adapter.kind() == Kind::Software { 4 } else { 16 };
    [16, 8, 4, 2].into_iter().find(|b| *b <= most && b * (UNIT * width + 64) <= bytes)
}
