//! The state of a loaded plan that both paths work on: weights, buffers, KV caches and
//! recurrent states.

use std::cell::{Ref, RefCell, RefMut};
use std::sync::Arc;

use pelton_graph::{BufferId, Error, Hidden, Limits, Phase, Plan};
use pelton_weights::Checkpoint;

use super::{AlignedBuf, KvCache, SlotAdapters, SlotStates, Weights};

/// A loaded plan; everything in it is allocated once.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) plan: Plan,
    pub(crate) weights: Weights,
    pub(crate) buffers: Buffers,
    /// The KV cache of each of [`Plan::caches`].
    pub(crate) caches: Vec<KvCache>,
    pub(crate) states: SlotStates,
    pub(crate) adapters: SlotAdapters,
    pub(crate) limits: Limits,
}

impl State {
    /// Finds the weights of a plan, and allocates its buffers, caches and states.
    ///
    /// # Errors
    /// If a weight is not as the plan says, the caches cannot have the element type of the limits,
    /// or the system refuses the memory.
    pub(crate) fn new(
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
    ) -> Result<Self, Error> {
        let caches = plan
            .caches
            .iter()
            .map(|&shape| KvCache::new(shape, limits.kv, limits.pages[shape.group]))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            weights: Weights::new(&plan, checkpoint)?,
            buffers: Buffers::new(&plan, &limits)?,
            states: SlotStates::new(&plan, &limits)?,
            adapters: SlotAdapters::new(&plan, &limits)?,
            caches,
            plan,
            limits,
        })
    }

    /// Writes the values that a pass of this phase begins with; of other plans they are empty.
    pub(crate) fn set_hidden(&mut self, phase: Phase, hidden: Hidden<'_>) {
        let given = self.plan.given(phase);
        match hidden {
            Hidden::Given(values) => {
                let rows = values.len().checked_div(self.plan.width_of(given)).unwrap_or(0);
                let mut rest = values;
                for &to in given {
                    let (own, others) = rest.split_at(rows * self.plan.buffer(to).width);
                    self.buffers.get_mut(to)[..own.len()].copy_from_slice(own);
                    rest = others;
                }
            }
            // the entry of a head is its exit
            Hidden::Before(rows) | Hidden::Partner(rows) => {
                for &id in given {
                    let width = self.plan.buffer(id).width;
                    let buffer = self.buffers.get_mut(id);
                    let before: Vec<f32> = rows
                        .iter()
                        .flat_map(|&row| &buffer[row as usize * width..][..width])
                        .copied()
                        .collect();
                    buffer[..before.len()].copy_from_slice(&before);
                }
            }
        }
    }

    /// Bytes of the caches of a plan.
    pub(crate) fn cache_bytes(plan: &Plan, limits: &Limits) -> u128 {
        let bytes = |&shape: &pelton_graph::Cache| {
            KvCache::bytes(shape, limits.kv, limits.pages[shape.group])
        };
        plan.caches.iter().map(bytes).fold(0, u128::saturating_add)
    }

    /// Bytes of the buffers and states of a plan.
    pub(crate) fn bytes(plan: &Plan, limits: &Limits) -> u128 {
        let buffers =
            plan.buffers.iter().map(|b| AlignedBuf::bytes(limits.rows_of(b.rows), b.width));
        let states = SlotStates::bytes(plan, limits);
        buffers.fold(states, u128::saturating_add)
    }
}

/// The values between steps: an f32 buffer `[rows, width]` for each of [`Plan::buffers`].
///
/// A step borrows the buffers that it reads and those that it writes; the borrows end with the step
/// however it ends.
#[derive(Debug)]
pub(crate) struct Buffers(Vec<RefCell<AlignedBuf>>);

impl Buffers {
    fn new(plan: &Plan, limits: &Limits) -> Result<Self, Error> {
        let zeroed = |rows, width| AlignedBuf::zeroed("a buffer between steps", rows, width);
        let buffers = plan.buffers.iter().map(|b| zeroed(limits.rows_of(b.rows), b.width));
        Ok(Self(buffers.map(|buffer| Ok(RefCell::new(buffer?))).collect::<Result<_, Error>>()?))
    }

    /// The buffer, to be read.
    ///
    /// # Panics
    /// If it is being written: no op reads a buffer that it writes, except for ops in place, which
    /// borrow it once.
    pub(crate) fn read(&self, id: BufferId) -> Ref<'_, AlignedBuf> {
        self.0[id.0].borrow()
    }

    /// The buffer, to be written.
    ///
    /// # Panics
    /// If it is being read or written.
    pub(crate) fn write(&self, id: BufferId) -> RefMut<'_, AlignedBuf> {
        self.0[id.0].borrow_mut()
    }

    /// The buffer, between steps.
    pub(crate) fn get_mut(&mut self, id: BufferId) -> &mut AlignedBuf {
        self.0[id.0].get_mut()
    }
}
