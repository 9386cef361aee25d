//! The measured times of passes, from which the next ones are planned.

use std::time::Duration;

use pelton_graph::{Phase, Pipeline};
use web_time::Instant;

use super::{
    pass::{PlannedPass, SubmittedPass},
    prefill_budget::{Average, PrefillBudget, Targets, WaitingPrompt},
    speculate::PassCosts,
};

/// The most seconds of submitted passes that a new request waits for. Where passes take longer it
/// waits for two: one that runs, and one with which the device goes on.
const WAIT: f64 = 0.01;
/// Seconds that one submission of decoding passes may take: one runs and one waits
/// when a request comes.
const SUBMISSION: f64 = WAIT / 2.0;

/// The measured times of passes.
pub(super) struct Timing {
    budget: PrefillBudget,
    /// Seconds of one decoding pass.
    decode: Average,
    /// Seconds of decoding passes by their rows.
    costs: PassCosts,
    last_taken: Option<Instant>,
}

impl Timing {
    /// No times yet, for passes of at most `rows` rows.
    pub(super) fn new(targets: Targets, rows: usize, pipeline: &Pipeline) -> Self {
        Self {
            budget: PrefillBudget::new(targets, rows).of_whole_passes(pipeline.streams.is_some()),
            decode: Average::default(),
            costs: PassCosts::new(pipeline.repeat > 1),
            last_taken: None,
        }
    }

    /// Notes that a pass was taken at this moment. Returns the time that it took.
    pub(super) fn take(&mut self, plan: &PlannedPass, submitted: Instant) -> Duration {
        let now = Instant::now();
        let begun = match self.last_taken {
            // the passes of the drafter came before it
            Some(last) if plan.finds_drafts() => last,
            last => last.map_or(submitted, |last| last.max(submitted)),
        };
        self.last_taken = Some(now);
        now - begun
    }

    /// Adds the time of a pass that succeeded.
    pub(super) fn add(&mut self, plan: &PlannedPass, time: Duration) {
        let rows = plan.rows();
        match plan.phase {
            Phase::Prompt | Phase::Mixed { .. } => self.budget.measured(rows, time),
            Phase::Decode if plan.drafted() > 0 => {
                self.costs.add_drafts(rows, time, plan.finds_drafts());
            }
            Phase::Decode if rows == plan.entries.len() => {
                let seconds = time.as_secs_f64() / f64::from(plan.repeat);
                self.decode.add(seconds);
                self.costs.add_plain(rows, seconds, plan.repeat);
            }
            // generated tokens that are computed again; no sequence is encoded
            Phase::Decode | Phase::Encode => {}
        }
    }

    /// Adds the seconds in which a drafter drafted one token of some sequences.
    pub(super) fn add_drafter(&mut self, sequences: usize, seconds: f64) {
        self.costs.add_model(sequences, seconds);
    }

    /// Whether submitted passes take so long that a new request should not wait for more.
    pub(super) fn are_enough<'a>(
        &self,
        passes: impl ExactSizeIterator<Item = &'a SubmittedPass>,
    ) -> bool {
        passes.len() >= 2 && passes.map(|pass| self.seconds(&pass.plan)).sum::<f64>() >= WAIT
    }

    /// The seconds of a pass, as far as such passes were measured.
    fn seconds(&self, plan: &PlannedPass) -> f64 {
        match plan.phase {
            Phase::Prompt | Phase::Mixed { .. } => self.budget.seconds(plan.rows()),
            Phase::Decode | Phase::Encode => self.decode_seconds() * f64::from(plan.repeat),
        }
    }

    /// The seconds of one decoding pass; 0 before the first measurement.
    fn decode_seconds(&self) -> f64 {
        self.decode.get().unwrap_or(0.0)
    }

    /// Decoding passes that one submission may run.
    pub(super) fn timely_repeats(&self) -> u32 {
        match self.decode.get() {
            // a cast from a float saturates
            Some(seconds) => (SUBMISSION / seconds.max(1e-9)) as u32,
            None => 1,
        }
    }

    /// Rows that the next pass over prompts may have, while other sequences decode if `decodes`.
    pub(super) fn prompt_rows(&self, decodes: bool, prompts: &[WaitingPrompt]) -> usize {
        self.budget.rows(decodes.then(|| self.decode_seconds()), prompts)
    }

    /// Rows of prompts in the next pass, which has `decoding` decoding rows too.
    pub(super) fn prompt_rows_beside(&self, decoding: usize, prompts: &[WaitingPrompt]) -> usize {
        self.budget.rows_beside(decoding, prompts)
    }

    /// Seconds of decoding passes by their rows.
    pub(super) fn costs(&self) -> &PassCosts {
        &self.costs
    }
}
