//! Values that a pass reads of other passes without the host: hidden states of the pass before, and
//! hidden states and sampled tokens of a partner.
//!
//! Both executables of a pair submit to one queue, so a copy at the beginning of a pass
//! reads what the passes that were submitted before have left. Drafted tokens are copied to
//! the ring of sampled tokens, where the rows find them, and to the results: these are the
//! tokens that have run.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use pelton_graph::{Error, Hidden, Input, Limits, Pass, Plan, RECENT, Row};

use crate::{device::Device, lower::Inputs, run::memory::before_len};

/// The memory of an executable that a partner reads.
pub(super) struct Own {
    pub(super) device: Arc<Device>,
    /// The ring `[slots, RECENT]` u32 of sampled tokens.
    pub(super) recent: wgpu::Buffer,
    /// The buffers of the exit, and their widths.
    pub(super) exit: Vec<(wgpu::Buffer, usize)>,
    pub(super) slots: usize,
    /// Rows of the newest pass; 0 if it was refused.
    rows: AtomicUsize,
    /// Whether no pass in flight may have to run again.
    settled: AtomicBool,
}

/// The executables that read each other's memory.
pub(super) struct Pair {
    /// The memory that a partner reads.
    pub(super) own: Arc<Own>,
    /// The memory of the partner, if there is one.
    pub(super) partner: Option<Arc<Own>>,
    /// Hidden states on their way from the pass before.
    pub(super) before: wgpu::Buffer,
}

/// A run of elements that is copied: where it begins in each buffer, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) len: u64,
}

/// The parts of other passes that a pass copies before its steps run.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    /// Tokens of the partner's ring.
    pub(super) tokens: Vec<Span>,
    /// Rows of the partner's hidden states.
    pub(super) partner: Vec<Span>,
    /// Rows of the pass before.
    pub(super) before: Vec<Span>,
}

/// Joins pairs of indices that follow each other in both lists.
fn spans(pairs: impl Iterator<Item = (u64, u64)>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (from, to) in pairs {
        match spans.last_mut() {
            Some(last) if last.from + last.len == from && last.to + last.len == to => last.len += 1,
            _ => spans.push(Span { from, to, len: 1 }),
        }
    }
    spans
}

/// The index of a token in a ring.
fn at(slot: u32, position: u32) -> u64 {
    u64::from(slot) * RECENT as u64 + u64::from(position) % RECENT as u64
}

impl Pair {
    /// An executable without a partner.
    pub(super) fn new(
        device: &Arc<Device>,
        plan: &Plan,
        limits: &Limits,
        buffers: &[wgpu::Buffer],
        inputs: &Inputs,
    ) -> Result<Self, Error> {
        let bytes = 4 * before_len(plan, limits) as u64;
        Ok(Self {
            own: Own::new(device, plan, limits, buffers, inputs),
            partner: None,
            before: device.buffer("hidden states of the pass before", bytes)?,
        })
    }
}

impl Own {
    fn new(
        device: &Arc<Device>,
        plan: &Plan,
        limits: &Limits,
        buffers: &[wgpu::Buffer],
        inputs: &Inputs,
    ) -> Arc<Self> {
        let exit = plan.exit.iter();
        let exit = exit.map(|&id| (buffers[id.0].clone(), plan.buffer(id).width));
        Arc::new(Self {
            device: Arc::clone(device),
            recent: inputs.recent.clone(),
            exit: exit.collect(),
            slots: limits.sequences,
            rows: AtomicUsize::new(0),
            settled: AtomicBool::new(true),
        })
    }

    /// Begins a pass: the rows of the one before.
    pub(super) fn begin(&self) -> usize {
        self.rows.swap(0, Ordering::Relaxed)
    }

    /// Rows of the newest pass.
    pub(super) fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// Ends the submission of a pass of some rows.
    pub(super) fn end(&self, rows: usize, settled: bool) {
        self.rows.store(rows, Ordering::Relaxed);
        self.settle(settled);
    }

    /// Takes note whether the hidden states of the newest pass are final.
    pub(super) fn settle(&self, settled: bool) {
        self.settled.store(settled, Ordering::Relaxed);
    }

    /// Whether the hidden states of the newest pass are final.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }
}

impl Copies {
    pub(super) fn of(pass: &Pass<'_>) -> Self {
        let token = |&Row { input, position, slot }: &Row| match input {
            Input::Drafted(from) => Some((at(slot, from), at(slot, position))),
            Input::Token(_) | Input::Sampled | Input::Features | Input::Embedding(_) => None,
        };
        let rows = |rows: &[u32]| spans(rows.iter().map(|&row| u64::from(row)).zip(0..));
        let (before, partner) = match pass.hidden {
            Hidden::Given(_) => (Vec::new(), Vec::new()),
            // those rows that are in their places
            Hidden::Before(of) if (0..).zip(of).all(|(i, &row)| i == row) => Default::default(),
            Hidden::Before(of) => (rows(of), Vec::new()),
            Hidden::Partner(of) => (Vec::new(), rows(of)),
        };
        Self { tokens: spans(pass.rows.iter().filter_map(token)), partner, before }
    }
}
