//! The drafter of a model: what it drafts, and the hidden states that it needs.

use std::collections::BTreeMap;

use pelton_graph::{Outputs, Phase};

use super::{
    pass::{PlannedPass, UNKNOWN},
    requests::Requests,
    runner::Runner,
    sequence::Sequence,
    speculate::{Ask, DECODE_ROWS, Drafter, Rate, States},
};

/// Tokens that a drafter has drafted for a sequence.
pub(super) struct Found {
    /// [`UNKNOWN`] as long as they are not known.
    pub(super) tokens: Vec<u32>,
    /// The position of the first in its sequence, where they are not known.
    pub(super) at: Option<u32>,
}

/// The drafter of a model, if it has one. A drafter that fails is used no more.
pub(super) struct Drafting {
    drafter: Option<Box<dyn Drafter>>,
    /// Whether the drafter is the partner of the model.
    is_paired: bool,
    /// The rate at which the drafter's tokens were accepted lately, in all texts.
    rate: Rate,
}

/// The slot of a sequence whose next tokens may be drafted.
fn slot_of(sequence: &Sequence) -> Option<u32> {
    sequence.running().filter(|_| sequence.drafter().is_some()).map(|running| running.slot())
}

impl Drafting {
    /// A state without observations, for a drafter of the model that a runner has.
    pub(super) fn new(mut drafter: Option<Box<dyn Drafter>>, model: &mut Runner) -> Self {
        let is_paired = drafter.as_mut().is_some_and(|drafter| drafter.pair(model));
        Self { drafter, is_paired, rate: Rate::of_models() }
    }

    pub(super) fn has_drafter(&self) -> bool {
        self.drafter.is_some()
    }

    /// Whether passes can find the drafter's tokens on the device.
    pub(super) fn is_paired(&self) -> bool {
        self.is_paired
    }

    /// Whether the drafter reads hidden states of the model's passes.
    pub(super) fn reads_hidden(&self) -> bool {
        self.drafter.as_ref().is_some_and(|drafter| drafter.hidden_width().is_some())
    }

    /// The rate at which the drafter's tokens were accepted lately, in all texts.
    pub(super) fn rate(&self) -> f64 {
        self.rate.get()
    }

    /// Takes note of drafted tokens of one sequence, of which `accepted` were accepted. `by_model`
    /// says whether they are the drafter's.
    pub(super) fn observe(&mut self, by_model: bool, drafted: usize, accepted: usize) {
        self.rate.observe(by_model, drafted, accepted);
    }

    /// The drafter's next `count` tokens of sequences. They are unknown if the pass that
    /// verifies them `finds` them.
    pub(super) fn draft(
        &mut self,
        asks: &[Ask<'_>],
        count: usize,
        finds: bool,
    ) -> BTreeMap<u64, Found> {
        let Some(drafter) = &mut self.drafter else { return BTreeMap::new() };
        let found = drafter.begin(asks, count).and_then(|places| {
            if finds {
                let each = asks.iter().zip(places).filter(|(_, at)| at.is_some());
                let unknown = |at| Found { tokens: vec![UNKNOWN; count], at };
                return Ok(each.map(|(ask, at)| (ask.id, unknown(at))).collect());
            }
            let known = |(id, tokens)| (id, Found { tokens, at: None });
            Ok(drafter.finish()?.into_iter().map(known).collect())
        });
        match found {
            Ok(found) => found,
            Err(error) => {
                self.fail(&error);
                BTreeMap::new()
            }
        }
    }

    fn fail(&mut self, error: &crate::Error) {
        if let Some(drafter) = self.drafter.take() {
            tracing::error!(%error, drafter = drafter.name(), "a drafter failed, and drafts no more");
        }
    }

    /// Whether the results of a pass have the hidden states of its rows, for the drafter.
    pub(super) fn keeps_hidden(&self, plan: &PlannedPass, requests: &Requests) -> bool {
        let drafts = |id| requests.get(id).is_some_and(|s| s.drafter().is_some());
        self.reads_hidden()
            && plan.repeat == 1
            && !plan.leaves_hidden
            && plan.entries.iter().any(|entry| drafts(entry.id))
    }

    /// Whether the drafter finds the hidden states of a pass on the device: it has drafted for all
    /// rows, and there is no other request whose pass might come before its next one.
    pub(super) fn leaves_hidden(&self, plan: &PlannedPass, requests: &Requests) -> bool {
        self.reads_hidden()
            && requests.len() == plan.entries.len()
            && plan.entries.iter().all(|entry| entry.at.is_some())
    }

    /// Lets the drafter run the rows that it would find on the device, before the
    /// next pass of the model.
    pub(super) fn run_kept_rows(&mut self, requests: &Requests) {
        let Some(drafter) = &mut self.drafter else { return };
        for (id, slot) in drafter.kept() {
            let tokens = requests.get(id).map_or(&[][..], Sequence::tokens);
            if let Err(error) = drafter.run_kept(id, slot, tokens) {
                return self.fail(&error);
            }
        }
    }

    /// Gives the drafter the hidden states of the rows of a pass, without the rows of rejected
    /// drafts. `is_newest` says that no pass was submitted after it.
    pub(super) fn keep_hidden(
        &mut self,
        requests: &Requests,
        plan: &PlannedPass,
        outputs: &Outputs<'_>,
        is_newest: bool,
    ) {
        let Some(drafter) = &mut self.drafter else { return };
        let Some(width) = drafter.hidden_width() else { return };
        let leaves = plan.leaves_hidden && is_newest;
        if outputs.hidden.len() != plan.rows() * width && !leaves {
            return;
        }
        let (mut row, mut column) = (0, 0);
        for entry in &plan.entries {
            column += entry.scores;
            let sampled = &outputs.samples[column.min(outputs.samples.len())..];
            let count = entry.count - entry.drafts.len() + entry.accepted(sampled);
            if let Some(slot) = requests.get(entry.id).and_then(slot_of) {
                let states = match leaves {
                    true => States::Rows { first: row, count },
                    false => States::Given(&outputs.hidden[row * width..(row + count) * width]),
                };
                drafter.keep(entry.id, slot, entry.first, states);
            }
            row += entry.count;
            column += entry.samples;
        }
    }

    /// Lets the drafter run the rows of a pass's prompts. Rows of generated tokens run when so many
    /// were not drafted that they fill a pass.
    pub(super) fn follow(&mut self, requests: &Requests, plan: &PlannedPass) {
        let Some(drafter) = &mut self.drafter else { return };
        let least = if plan.phase == Phase::Prompt { 1 } else { DECODE_ROWS };
        for entry in &plan.entries {
            let Some(sequence) = requests.get(entry.id) else { continue };
            let Some(slot) = slot_of(sequence) else { continue };
            if let Err(error) = drafter.follow(entry.id, slot, sequence.tokens(), least) {
                return self.fail(&error);
            }
        }
    }
}
