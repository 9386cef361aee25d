//! The hidden states of the rows of passes, on their way to the head of the model's file.

use std::collections::BTreeMap;

use pelton_graph::{Outputs, Phase};

use super::{
    drafts::accepted,
    scheduler::{Scheduler, Work},
    sequence::Sequence,
    speculate::{DECODE_ROWS, HeadModel},
};

/// The slot of a sequence whose next tokens the head may draft.
fn slot_of(sequence: &Sequence) -> Option<u32> {
    sequence.slot.filter(|_| sequence.drafter.is_some())
}

/// Gives the head the hidden states of those rows of a pass whose tokens are of the texts: not of
/// rejected drafts.
pub(super) fn keep_hidden(
    head: &mut HeadModel,
    sequences: &BTreeMap<u64, Sequence>,
    work: &Work,
    outputs: &Outputs<'_>,
) {
    let width = head.width();
    let rows: usize = work.entries.iter().map(|entry| entry.count).sum();
    if outputs.hidden.len() != rows * width {
        return;
    }
    let (mut row, mut column) = (0, 0);
    for entry in &work.entries {
        column += entry.scores;
        let sampled = &outputs.samples[column.min(outputs.samples.len())..];
        let count = entry.count - entry.drafts.len() + accepted(&entry.drafts, sampled);
        if let Some(slot) = sequences.get(&entry.id).and_then(slot_of) {
            let states = &outputs.hidden[row * width..(row + count) * width];
            head.keep(entry.id, slot, entry.first, states);
        }
        row += entry.count;
        column += entry.samples;
    }
}

impl Scheduler {
    /// Whether a pass keeps the hidden states of its rows for the head.
    pub(super) fn keeps_hidden(&self, work: &Work) -> bool {
        let drafts = |id| self.sequences.get(id).is_some_and(|s| s.drafter.is_some());
        self.head.is_some()
            && work.repeat == 1
            && work.entries.iter().any(|entry| drafts(&entry.id))
    }

    /// Lets the head run the rows of a pass's prompts, and those of generated tokens that were not
    /// drafted for so long that they fill a pass.
    pub(super) fn follow_with_head(&mut self, work: &Work) {
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
