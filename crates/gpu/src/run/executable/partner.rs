//! Values that a pass reads of other passes without the host: hidden states of the pass before, and
//! hidden states and sampled tokens of a partner.
//!
//! Both executables of a pair submit to one queue, so a copy at the beginning of a pass reads what the
//! passes that were submitted before have left. Drafted tokens are copied to the ring of sampled tokens,
//! where the rows find them, and to the results: these are the tokens that have run.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use pelton_graph::{Hidden, Input, Limits, Pass, Plan, RECENT, Row, Shared};

use super::GpuExecutable;
use crate::{device::Device, lower::Inputs};

/// The memory of an executable that a partner reads.
pub(super) struct Own {
    device: Arc<Device>,
    /// The ring `[slots, RECENT]` u32 of sampled tokens.
    recent: wgpu::Buffer,
    /// The buffers of the exit, and their widths.
    exit: Vec<(wgpu::Buffer, usize)>,
    slots: usize,
    /// Rows of the newest pass; 0 if it was refused.
    rows: AtomicUsize,
}

/// A run of elements that is copied: where it begins in each buffer, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    from: u64,
    to: u64,
    len: u64,
}

/// What a pass copies before its steps run.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    /// Tokens of the partner's ring.
    tokens: Vec<Span>,
    /// Rows of the partner's hidden states.
    partner: Vec<Span>,
    /// Rows of the pass before.
    before: Vec<Span>,
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

impl Own {
    pub(super) fn new(
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
        })
    }

    /// Begins a pass: the rows of the one before.
    pub(super) fn begin(&self) -> usize {
        self.rows.swap(0, Ordering::Relaxed)
    }

    /// Ends the submission of a pass of some rows.
    pub(super) fn end(&self, rows: usize) {
        self.rows.store(rows, Ordering::Relaxed);
    }
}

impl Copies {
    pub(super) fn of(pass: &Pass<'_>) -> Self {
        let token = |&Row { input, position, slot }: &Row| match input {
            Input::Drafted(from) => Some((at(slot, from), at(slot, position))),
            Input::Token(_) | Input::Sampled | Input::Features => None,
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

impl GpuExecutable {
    /// Whether a partner's memory can be read, which becomes that of this executable.
    pub(super) fn pair_with(&mut self, partner: Shared) -> bool {
        let Ok(partner) = partner.downcast::<Own>() else { return false };
        let fits = Arc::ptr_eq(&partner.device, &self.device)
            && partner.slots == self.limits.sequences;
        if fits {
            self.partner = Some(partner);
        }
        fits
    }

    /// Rows of the partner's newest pass whose hidden states a pass can have; `None` without one.
    pub(super) fn partner_rows(&self) -> Option<usize> {
        let partner = self.partner.as_ref()?;
        let widths = self.plan.entry.iter().map(|&id| self.plan.buffer(id).width);
        let fits = widths.eq(partner.exit.iter().map(|(_, width)| *width));
        Some(if fits { partner.rows.load(Ordering::Relaxed) } else { 0 })
    }

    /// Records the copies.
    pub(super) fn copy_others(&self, encoder: &mut wgpu::CommandEncoder, copies: &Copies) {
        let mut copy = |from: &wgpu::Buffer, to: &wgpu::Buffer, span: &Span, bytes: u64| {
            let Span { from: first, to: at, len } = *span;
            encoder.copy_buffer_to_buffer(from, first * bytes, to, at * bytes, len * bytes);
        };
        for &id in &self.plan.entry {
            let (buffer, bytes) = (&self.buffers[id.0], 4 * self.plan.buffer(id).width as u64);
            // a copy within a buffer is not allowed
            for span in &copies.before {
                copy(buffer, &self.states_before, span, bytes);
            }
            for span in &copies.before {
                copy(&self.states_before, buffer, &Span { from: span.to, ..*span }, bytes);
            }
        }
        let Some(partner) = &self.partner else { return };
        for (&id, (states, width)) in self.plan.entry.iter().zip(&partner.exit) {
            for span in &copies.partner {
                copy(states, &self.buffers[id.0], span, 4 * *width as u64);
            }
        }
        for span in &copies.tokens {
            copy(&partner.recent, &self.inputs.recent, span, 4);
        }
    }

    /// The drafted tokens, as parts of a buffer: where each begins, and its bytes.
    pub(super) fn drafted(&self, copies: &Copies) -> Vec<(wgpu::Buffer, u64, u64)> {
        let Some(partner) = &self.partner else { return Vec::new() };
        let parts = copies.tokens.iter();
        parts.map(|span| (partner.recent.clone(), 4 * span.from, 4 * span.len)).collect()
    }
}
