//! The recurrent states of the slots with their snapshots, and the adapters of the slots.

use pelton_graph::{Error, Limits, Plan};

use super::AlignedBuf;
use crate::pool::SharedMut;
/// The recurrent states of each of [`Plan::states`].
#[derive(Debug)]
pub(crate) struct SlotStates {
    all: Vec<States>,
}

/// The LoRA adapters of the slots.
#[derive(Debug)]
pub(crate) struct SlotAdapters {
    /// The ids and the weights of each slot `[slots, 2, used]`.
    rows: Vec<f32>,
    used: usize,
}

impl SlotAdapters {
    /// No adapters in any slot.
    ///
    /// # Errors
    /// If the plan has no adapters although it has an op of that kind.
    pub(crate) fn new(plan: &Plan, limits: &Limits) -> Result<Self, Error> {
        match plan.adapters() {
            None => Ok(Self { rows: Vec::new(), used: 0 }),
            Some(all) => Ok(Self { rows: all.row(&[])?.repeat(limits.sequences), used: all.used }),
        }
    }

    /// Sets the ids and the weights `[2, used]` of a slot, which exists.
    pub(crate) fn set(&mut self, slot: u32, row: &[f32]) {
        self.rows[slot as usize * 2 * self.used..][..2 * self.used].copy_from_slice(row);
    }

    /// The ids and the weights of a slot `[used]` each.
    pub(crate) fn of(&self, slot: u32) -> (&[f32], &[f32]) {
        self.rows[slot as usize * 2 * self.used..][..2 * self.used].split_at(self.used)
    }
}

/// One of the plan's states.
#[derive(Debug)]
struct States {
    /// `[slots, len]`.
    slots: AlignedBuf,
    /// `[snapshots, len]`.
    snapshots: AlignedBuf,
    len: usize,
}

impl SlotStates {
    /// Allocates zeroed states and snapshots.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(crate) fn new(plan: &Plan, limits: &Limits) -> Result<Self, Error> {
        let states = |len| -> Result<States, Error> {
            Ok(States {
                slots: AlignedBuf::zeroed("recurrent states", limits.sequences, len)?,
                snapshots: AlignedBuf::zeroed("snapshots of states", limits.snapshots, len)?,
                len,
            })
        };
        let all = plan.states.iter().map(|state| states(state.len));
        Ok(Self { all: all.collect::<Result<_, _>>()? })
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub(crate) fn bytes(plan: &Plan, limits: &Limits) -> u128 {
        let rows = [limits.sequences, limits.snapshots];
        let bytes = |len| rows.iter().map(move |&rows| AlignedBuf::bytes(rows, len));
        plan.states.iter().flat_map(|state| bytes(state.len)).fold(0, u128::saturating_add)
    }

    /// The state `state` of all slots `[slots, len]`.
    pub(crate) fn all(&mut self, state: usize) -> SharedMut<'_, f32> {
        SharedMut::new(&mut self.all[state].slots)
    }

    /// The state `state` `[len]` of a slot.
    pub(crate) fn slot(&mut self, state: usize, slot: u32, len: usize) -> &mut [f32] {
        &mut self.all[state].slots[slot as usize * len..][..len]
    }

    /// Copies the states of a slot to a snapshot; both exist.
    pub(crate) fn save(&mut self, slot: u32, snapshot: u32) {
        for States { slots, snapshots, len } in &mut self.all {
            snapshots[snapshot as usize * *len..][..*len]
                .copy_from_slice(&slots[slot as usize * *len..][..*len]);
        }
    }

    /// Copies a snapshot to the states of a slot; both exist.
    pub(crate) fn restore(&mut self, snapshot: u32, slot: u32) {
        for States { slots, snapshots, len } in &mut self.all {
            slots[slot as usize * *len..][..*len]
                .copy_from_slice(&snapshots[snapshot as usize * *len..][..*len]);
        }
    }
}
