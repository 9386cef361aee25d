//! The data that passes in flight need to run again.

use std::collections::VecDeque;

use pelton_graph::{Error, RECENT};

use super::{
    partner::Copies,
    shape::{PassShape, PassWords},
};
use crate::{device::Device, kernels::sample::SampleCall, lower::Inputs, run::in_flight::DEPTH};

/// The recorded commands of a pass.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) shape: PassShape,
    pub(super) call: SampleCall,
    pub(super) repeat: u32,
    /// The first step that did not run before: the one after the last part of the host.
    pub(super) first: usize,
    /// Whether persistent kernels run, as long as none failed.
    pub(super) persists: bool,
    /// Whether kernels wait for the host, as long as none failed.
    pub(super) waits: bool,
    /// The rows whose logits are wanted, among the selected ones.
    pub(super) logits: Vec<usize>,
    /// Whether the hidden states of the rows are kept.
    pub(super) keeps_hidden: bool,
    /// Whether the values that go into the first step are those of another pass.
    pub(super) finds_states: bool,
    /// Copies from the passes before it, of this executable and of its partner.
    pub(super) copies: Copies,
}

/// The inputs of a pass in flight.
pub(super) struct Given {
    pub(super) run: Run,
    pub(super) words: PassWords,
    /// The values that go into the first step.
    pub(super) hidden: Vec<f32>,
    /// The embeddings of rows without a token.
    pub(super) embeddings: Vec<f32>,
    /// Parameters and states of the draws.
    pub(super) draws: [Vec<u32>; 2],
    pub(super) slots: Vec<u32>,
    /// The pages `[groups, slots]` of each slot.
    pub(super) pages: Vec<Vec<Vec<u32>>>,
    /// The index of the copies of sampled tokens and of hidden states.
    pub(super) copy: usize,
}

/// The data that passes in flight need to run again.
pub(super) struct Repeat {
    /// The inputs of each pass in flight, the oldest first; `None` if nothing before it can fail.
    pub(super) given: VecDeque<Option<Given>>,
    /// Copies of the sampled tokens `[slots, RECENT]`, one for each pass in flight; none without
    /// persistent kernels.
    pub(super) copies: Vec<wgpu::Buffer>,
    /// Copies of the values `[rows, width]` that a pass of a head began with, one for each pass in
    /// flight; none of other plans.
    pub(super) states: Vec<wgpu::Buffer>,
    pub(super) next: usize,
    /// Passes that ran again.
    #[cfg(test)]
    pub(super) count: usize,
}

/// Bytes of the sampled tokens of a slot.
pub(super) const RING: u64 = 4 * RECENT as u64;

impl Repeat {
    /// Memory for the passes of a plan, if its persistent kernels are `used`, and for so many bytes
    /// of hidden states of each.
    pub(super) fn new(
        device: &Device,
        inputs: &Inputs,
        used: bool,
        states: u64,
    ) -> Result<Self, Error> {
        let copies = |label, bytes| -> Result<Vec<_>, Error> {
            let count = if used && bytes > 0 { DEPTH } else { 0 };
            (0..count).map(|_| device.buffer(label, bytes)).collect()
        };
        Ok(Self {
            given: VecDeque::with_capacity(DEPTH),
            copies: copies("copy of recent tokens", inputs.recent.size())?,
            states: copies("copy of hidden states", states)?,
            next: 0,
            #[cfg(test)]
            count: 0,
        })
    }
}
