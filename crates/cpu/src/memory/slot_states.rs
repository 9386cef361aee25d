//! The recurrent states of the slots.

use pelton_graph::{Error, Limits, Plan};

use super::AlignedBuf;
use crate::pool::SharedMut;
/// The recurrent states `[slots, len]` of each of [`Plan::states`].
#[derive(Debug)]
pub(crate) struct SlotStates {
    all: Vec<AlignedBuf>,
}

impl SlotStates {
    /// Allocates zeroed states.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(crate) fn new(plan: &Plan, limits: &Limits) -> Result<Self, Error> {
        let zeroed = |len| AlignedBuf::zeroed("recurrent states", limits.sequences, len);
        let all = plan.states.iter().map(|state| zeroed(state.len));
        Ok(Self { all: all.collect::<Result<_, _>>()? })
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub(crate) fn bytes(plan: &Plan, limits: &Limits) -> u128 {
        let bytes = plan.states.iter().map(|s| AlignedBuf::bytes(limits.sequences, s.len));
        bytes.fold(0, u128::saturating_add)
    }

    /// The state `state` of all slots `[slots, len]`.
    pub(crate) fn all(&mut self, state: usize) -> SharedMut<'_, f32> {
        SharedMut::new(&mut self.all[state])
    }

    /// The state `state` `[len]` of a slot.
    pub(crate) fn slot(&mut self, state: usize, slot: u32, len: usize) -> &mut [f32] {
        &mut self.all[state][slot as usize * len..][..len]
    }
}
