//! The stage of a request between its arrival and its end.
//!
//! A request waits, runs, and ends. One that is preempted loses its slot and its pages. It drains
//! while results of its passes were not taken, as their tokens belong to its text. Then it is
//! queued, and runs again.

use crate::{kv::SequencePages, schedule::queue::Place};

/// The stage of a request, with all that it has in this stage alone.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Queued, before the first start.
    Waiting {
        /// The place in the bounded queue.
        place: Place,
        /// A prefix that another request computes first.
        prefix: Option<AwaitedPrefix>,
    },
    /// In a slot.
    Running(Running),
    /// Preempted, with passes that were not taken.
    Draining(InFlight),
    /// Preempted and queued: it can be resumed.
    Preempted,
}

/// A prefix that a running request computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AwaitedPrefix {
    /// The request that computes it.
    pub(crate) leader: u64,
    /// Its pages in the prefix tree.
    pub(crate) depth: usize,
}

/// The passes of a sequence that were submitted and not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) passes: usize,
    /// Tokens that these passes sample.
    pub(crate) tokens: usize,
}

/// Why a running sequence has no further pass for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// A pass verifies drafts of it: the next position is not known.
    Verification,
    /// Its newest pass waits for the draw of its token.
    Draw,
}

/// The state of a sequence in a slot.
///
/// Positions below `submitted` are in passes that were submitted, positions below `computed` in
/// passes whose results were taken.
#[derive(Debug)]
pub(crate) struct Running {
    slot: u32,
    pub(super) pages: SequencePages,
    /// Tokens that were known at the start or the resumption. They have to be run before it
    /// decodes.
    target: usize,
    submitted: usize,
    computed: usize,
    in_flight: InFlight,
    pause: Option<Pause>,
}

impl Running {
    /// In a slot, with pages of which the first `hit` positions are computed.
    pub(super) fn new(slot: u32, pages: SequencePages, hit: usize, target: usize) -> Self {
        let in_flight = InFlight::default();
        Self { slot, pages, target, submitted: hit, computed: hit, in_flight, pause: None }
    }

    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    pub(crate) fn pages(&self) -> &SequencePages {
        &self.pages
    }

    pub(crate) fn pages_mut(&mut self) -> &mut SequencePages {
        &mut self.pages
    }

    /// The position after the last one that was submitted.
    pub(crate) fn submitted(&self) -> usize {
        self.submitted
    }

    /// The position after the last one whose results were taken.
    pub(crate) fn computed(&self) -> usize {
        self.computed
    }

    /// Tokens that have to be run before it decodes.
    pub(super) fn target(&self) -> usize {
        self.target
    }

    pub(super) fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// Takes note of a submitted pass up to position `end` that samples `tokens` tokens.
    pub(crate) fn submit(&mut self, end: usize, tokens: usize, pause: Option<Pause>) {
        self.pages.mark_sent();
        self.submitted = end;
        self.in_flight.passes += 1;
        self.in_flight.tokens += tokens;
        self.pause = pause;
    }

    /// Takes note of results up to position `end`.
    pub(crate) fn compute(&mut self, end: usize) {
        self.computed = end;
    }

    /// Ends a verification of drafts. The rows from position `end` on are run again.
    pub(crate) fn verify(&mut self, end: usize) {
        self.pause = None;
        self.run_again(end);
    }

    /// Runs the rows from position `from` on again.
    pub(crate) fn run_again(&mut self, from: usize) {
        (self.submitted, self.computed) = (from, from);
    }
}

impl Stage {
    pub(super) fn in_flight(&self) -> InFlight {
        match self {
            Self::Running(running) => running.in_flight,
            Self::Draining(in_flight) => *in_flight,
            Self::Waiting { .. } | Self::Preempted => InFlight::default(),
        }
    }

    /// Whether the request has started before, and lost its slot.
    pub(crate) fn is_preempted(&self) -> bool {
        matches!(self, Self::Draining(_) | Self::Preempted)
    }

    fn in_flight_mut(&mut self) -> Option<&mut InFlight> {
        match self {
            Self::Running(running) => Some(&mut running.in_flight),
            Self::Draining(in_flight) => Some(in_flight),
            Self::Waiting { .. } | Self::Preempted => None,
        }
    }

    /// Takes note that a pass was taken, which has sampled `tokens` tokens.
    pub(super) fn take(&mut self, tokens: usize) {
        if let Some(in_flight) = self.in_flight_mut() {
            in_flight.passes -= 1;
            in_flight.tokens -= tokens;
        }
        if matches!(self, Self::Draining(InFlight { passes: 0, .. })) {
            *self = Self::Preempted;
        }
    }

    /// Takes note that the newest pass has its draw, or samples `dropped` tokens less.
    pub(super) fn settle_draw(&mut self, dropped: usize) {
        if let Self::Running(running) = self {
            running.pause = None;
        }
        if let Some(in_flight) = self.in_flight_mut() {
            in_flight.tokens -= dropped;
        }
    }

    /// Leaves the slot. Returns what it had there.
    pub(super) fn leave(&mut self) -> Option<Running> {
        if !matches!(self, Self::Running(_)) {
            return None;
        }
        let next = match self.in_flight() {
            InFlight { passes: 0, .. } => Self::Preempted,
            in_flight => Self::Draining(in_flight),
        };
        match std::mem::replace(self, next) {
            Self::Running(running) => Some(running),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preempted_request_drains_before_it_can_be_resumed() {
        let mut running = Running::new(3, SequencePages::new(0), 2, 5);
        assert_eq!((running.submitted(), running.computed()), (2, 2));
        running.submit(5, 1, None);
        running.submit(6, 1, Some(Pause::Draw));
        assert!(running.is_paused());
        let mut stage = Stage::Running(running);
        assert_eq!(stage.in_flight(), InFlight { passes: 2, tokens: 2 });
        assert_eq!(stage.leave().map(|left| left.slot()), Some(3));
        assert!(matches!(stage, Stage::Draining(_)) && stage.is_preempted());
        stage.take(1);
        // the newest pass draws nothing
        stage.settle_draw(1);
        assert!(matches!(stage, Stage::Draining(InFlight { passes: 1, tokens: 0 })));
        stage.take(0);
        assert!(matches!(stage, Stage::Preempted) && stage.is_preempted());
        assert!(stage.leave().is_none());
    }

    #[test]
    fn a_request_without_passes_in_flight_can_be_resumed_at_once() {
        let mut stage = Stage::Running(Running::new(0, SequencePages::new(0), 0, 1));
        assert!(stage.leave().is_some());
        assert!(matches!(stage, Stage::Preempted));
    }
}
