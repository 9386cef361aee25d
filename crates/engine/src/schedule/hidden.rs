//! The hidden states of the rows of passes, on their way to the head of the model's file.

use std::collections::BTreeMap;

use pelton_graph::{Outputs, Phase};

use super::{
    drafts::accepted,
    scheduler::{PlannedPass, Scheduler},
    sequence::Sequence,
    speculate::{DECODE_ROWS, HeadModel, States},
};

/// The slot of a sequence whose next tokens the head may draft.
fn slot_of(sequence: &Sequence) -> Option<u32> {
    sequence.slot.filter(|_| sequence.drafter.is_some())
}

/// Gives the head the hidden states of those rows of a pass whose tokens are of the texts: not of
/// rejected drafts. `is_newest` says that no pass was submitted after it.
pub(super) fn keep_hidden(
    head: &mut HeadModel,
    sequences: &BTreeMap<u64, Sequence>,
    work: &PlannedPass,
    outputs: &Outputs<'_>,
    is_newest: bool,
) {
    let width = head.width();
    let rows: usize = work.entries.iter().map(|entry| entry.count).sum();
    let leaves = work.leaves_hidden && is_newest;
    if outputs.hidden.len() != rows * width && !leaves {
        return;
    }
    let (mut row, mut column) = (0, 0);
    for entry in &work.entries {
        column += entry.scores;
        let sampled = &outputs.samples[column.min(outputs.samples.len())..];
        let count = entry.count - entry.drafts.len() + accepted(&entry.drafts, sampled);
        if let Some(slot) = sequences.get(&entry.id).and_then(slot_of) {
            let states = match leaves {
                true => States::Rows { first: row, count },
                false => States::Given(&outputs.hidden[row * width..(row + count) * width]),
            };
            head.keep(entry.id, slot, entry.first, states);
        }
        row += entry.count;
        column += entry.samples;
    }
}

impl Scheduler {
    /// Whether the results of a pass have the hidden states of its rows, for the head.
    pub(super) fn keeps_hidden(&self, work: &PlannedPass) -> bool {
        let drafts = |id| self.sequences.get(id).is_some_and(|s| s.drafter.is_some());
        self.head.is_some()
            && work.repeat == 1
            && !work.leaves_hidden
            && work.entries.iter().any(|entry| drafts(&entry.id))
    }

    /// Whether the head finds the hidden states of a pass on the device: it has drafted for all rows, and
    /// there is no other request whose pass might come before its next one.
    pub(super) fn leaves_hidden(&self, work: &PlannedPass) -> bool {
        self.head.is_some()
            && self.sequences.len() == work.entries.len()
            && work.entries.iter().all(|entry| entry.at.is_some())
    }

    /// Lets the head run the rows that it would find on the device, before the next pass of the model.
    pub(super) fn run_kept_rows(&mut self) {
        let Some(head) = &mut self.head else { return };
        for (id, slot) in head.kept() {
            let tokens = self.sequences.get(&id).map_or(&[][..], |s| &s.tokens);
            if let Err(error) = head.run_kept(id, slot, tokens) {
                tracing::error!(%error, "the head failed, and drafts no more");
                self.head = None;
                return;
            }
        }
    }

    /// Lets the head run the rows of a pass's prompts, and those of generated tokens that were not
    /// drafted for so long that they fill a pass.
    pub(super) fn follow_with_head(&mut self, work: &PlannedPass) {
        let Some(head) = &mut self.head else { return };
        let least = if work.phase == Phase::Prompt { 1 } else { DECODE_ROWS };
        for entry in &work.entries {
            let Some(sequence) = self.sequences.get(&entry.id) else { continue };
            let Some(slot) = slot_of(sequence) else { continue };
            if let Err(error) = head.follow(entry.id, slot, &sequence.tokens, least) {
                tracing::error!(%error, "the head failed, and drafts no more");
                self.head = None;
                return;
            }
        }
    }
}
