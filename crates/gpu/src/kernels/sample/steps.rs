//! The memory of sampling, and the kernels over it.

use std::sync::Arc;

use minijinja::Value;
use pelton_graph::Error;

use super::{call::SampleCall, shape::VocabShape};
use crate::device::{BufferList, Device, Kernel};

/// Bytes of the struct `Search`.
const SEARCH_BYTES: usize = 64;
/// Bytes of the three histograms of a want.
const BINS_BYTES: usize = 3 * 2 * 2048 * 4;
/// Bytes of a pair of a key and a token, and of a 64-bit sum.
const PAIR_BYTES: usize = 8;
/// Bytes of a want's state.
const STATE_BYTES: usize = 8;

/// A kernel, its buffers, and the workgroups of one want.
#[derive(Debug)]
pub(super) struct Step {
    kernel: Arc<Kernel>,
    bindings: wgpu::BindGroup,
    groups: u32,
}

impl Step {
    pub(super) fn record(&self, pass: &mut wgpu::ComputePass<'_>, call: &SampleCall) {
        self.kernel.record(pass, &self.bindings, [self.groups, call.wants as u32, 1]);
    }
}

/// The buffers that sampling shares with the rest of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleBuffers<'a> {
    /// Logits `[wants, vocab]`, f32: one row for each distinct row of the wants, in their order.
    /// Biases and penalties change them in place.
    pub(crate) logits: &'a wgpu::Buffer,
    /// The ring of sampled tokens `[slots, RECENT]`, u32: the token at position `p` of a slot is at
    /// `p % RECENT`.
    pub(crate) recent: &'a wgpu::Buffer,
    /// The rows `[rows, 4]` of the pass, u32: token (`u32::MAX` for the sampled one), position,
    /// slot, 0. A draw advances its row to the next position.
    pub(crate) rows: &'a wgpu::Buffer,
}

/// The buffers that only the kernels of sampling use, each `[wants, …]`.
pub(super) struct Memory<B = wgpu::Buffer> {
    /// The best tokens of chunks.
    pub(super) best: B,
    /// The greatest logits of chunks.
    pub(super) peaks: B,
    /// Sums of exponentials.
    pub(super) log_sums: B,
    /// Raw logits in place of which there are changed ones.
    pub(super) saved: B,
    /// The best draws of workgroups.
    pub(super) draws: B,
    /// Histograms.
    pub(super) bins: B,
    /// The two states of a search, of which a stage reads one and writes the other.
    pub(super) searches: [B; 2],
    /// The state that every pass advances.
    pub(super) state: B,
}

impl<B> Memory<B> {
    /// Makes a buffer of a label and a number of bytes for each use.
    pub(super) fn with(
        shape: &VocabShape,
        wants: usize,
        buffer: &mut dyn FnMut(&str, u64) -> Result<B, Error>,
    ) -> Result<Self, Error> {
        let mut each = |label: &str, bytes: usize| buffer(label, (wants * bytes) as u64);
        Ok(Self {
            best: each("best tokens of chunks", shape.chunks * PAIR_BYTES)?,
            peaks: each("greatest logits of chunks", shape.chunks * 4)?,
            log_sums: each("sums of exponentials", (shape.iteration_groups() + 1) * PAIR_BYTES)?,
            saved: each("saved logits", shape.saved() * PAIR_BYTES)?,
            draws: each("draws of workgroups", shape.many_groups() * PAIR_BYTES)?,
            bins: each("histograms", BINS_BYTES)?,
            searches: [each("search", SEARCH_BYTES)?, each("search", SEARCH_BYTES)?],
            state: each("sampling state", STATE_BYTES)?,
        })
    }
}

/// Makes the steps of sampling.
pub(super) struct Steps<'a> {
    device: &'a Device,
    shape: VocabShape,
    /// The buffers that have one name in all kernels.
    buffers: Vec<(&'static str, &'a wgpu::Buffer)>,
    /// The kernels made so far, still to be compiled.
    kernels: Vec<Arc<Kernel>>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(
        device: &'a Device,
        shape: VocabShape,
        memory: &'a Memory,
        shared: SampleBuffers<'a>,
        [params, results]: [&'a wgpu::Buffer; 2],
    ) -> Self {
        let SampleBuffers { logits, recent, rows } = shared;
        let buffers = vec![
            ("logits", logits),
            ("recent", recent),
            ("rows", rows),
            ("params", params),
            ("results", results),
            ("best", &memory.best),
            ("peaks", &memory.peaks),
            ("log_sums", &memory.log_sums),
            ("saved", &memory.saved),
            ("draws", &memory.draws),
            ("bins", &memory.bins),
            ("state", &memory.state),
        ];
        Self { device, shape, buffers, kernels: Vec::new() }
    }

    /// A kernel and its workgroups for one want; `own` are the buffers that have another name in
    /// this kernel.
    pub(super) fn step(
        &mut self,
        name: &str,
        more: Value,
        groups: usize,
        own: &[(&'static str, &'a wgpu::Buffer)],
    ) -> Result<Step, Error> {
        let source = self.shape.source(name, more)?;
        let declares = |name: &str| source.bindings().iter().any(|binding| binding.name == name);
        let shared = self.buffers.iter().filter(|(name, _)| declares(name));
        let buffers = BufferList::of(own.iter().chain(shared).copied());
        let kernel = Arc::new(self.device.kernel_to_compile(name, &source));
        self.kernels.push(Arc::clone(&kernel));
        let bindings = self.device.bind(name, &kernel, &buffers.in_order(name, &source)?)?;
        Ok(Step { kernel, bindings, groups: groups as u32 })
    }

    pub(super) fn compile(self) -> Result<(), Error> {
        self.device.compile_all(&self.kernels)
    }
}
