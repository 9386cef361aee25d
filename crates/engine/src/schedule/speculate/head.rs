//! The head of a model file that drafts the next tokens of running sequences.
//!
//! A row of the head has the model's hidden state of position `p` and the token of position
//! `p + 1`. Its logits predict the token of position `p + 2`. The head's own positions count its
//! rows. Positions whose hidden states were not kept have no row: those of a cached prefix, and of
//! passes ahead of the host.
//!
//! Hidden states come from the host. If the head is the partner of its model, they can be rows of
//! the model's newest pass too; such rows have to run before the model's next pass.

use pelton_graph::{Hidden, Input, PAGE, Pass, Phase, Row, Want};
use pelton_sampling::Draw;

use super::{
    draft_model::{decoding_rows, row},
    draft_passes::{DraftPasses, column},
    drafter::{Ask, DECODE_ROWS, Drafter, States},
};
use crate::{
    Error,
    schedule::{resources::Resources, runner::Runner},
};

/// The hidden states that wait to be run.
enum WaitingStates {
    /// `[positions, hidden]`.
    Given(Vec<f32>),
    /// Rows of the model's newest pass from this one on.
    Rows(usize),
}

impl WaitingStates {
    const NONE: Self = Self::Given(Vec::new());
}

/// The rows of one slot.
struct Slot {
    id: u64,
    /// Rows that the head has run.
    rows: usize,
    /// Positions whose hidden states wait to be run, in ascending order, and these states.
    positions: Vec<usize>,
    states: WaitingStates,
    /// The position of the sequence whose hidden state is expected next.
    next: usize,
}

impl Slot {
    const EMPTY: Self =
        Self { id: 0, rows: 0, positions: Vec::new(), states: WaitingStates::NONE, next: 0 };

    /// Whether states wait that are rows of the model's newest pass.
    fn is_kept(&self) -> bool {
        !self.positions.is_empty() && matches!(self.states, WaitingStates::Rows(_))
    }
}

/// The rows of one slot in a pass.
struct Span<'a> {
    slot: u32,
    tokens: &'a [u32],
    /// Waiting positions that run.
    count: usize,
    /// The draw of the token after the last row, if it is sampled.
    ask: Option<&'a Ask<'a>>,
}

/// A loaded head, whose slots are those of its model. It has pages for all of them at full length.
pub(crate) struct HeadModel {
    resources: Resources,
    passes: DraftPasses,
    slots: Vec<Slot>,
    /// The sequences of the newest draft whose tokens were not taken yet.
    begun: Vec<u64>,
}

impl HeadModel {
    pub(crate) fn new(resources: Resources) -> Self {
        let slots = std::iter::repeat_with(|| Slot::EMPTY);
        let slots = slots.take(resources.limits.sequences).collect();
        Self { passes: DraftPasses::new(&resources), resources, slots, begun: Vec::new() }
    }

    /// Elements of a hidden state.
    fn width(&self) -> usize {
        self.resources.plan.hidden_width()
    }

    /// Waiting positions of a sequence that are followed by a known token.
    fn known(&self, id: u64, slot: u32, tokens: &[u32]) -> usize {
        let slot = self.slots.get(slot as usize).filter(|slot| slot.id == id);
        slot.map_or(0, |slot| slot.positions.partition_point(|&p| p + 1 < tokens.len()))
    }

    /// Runs the first `count` waiting rows of a slot, in chunks.
    fn run_without_results(
        &mut self,
        slot: u32,
        tokens: &[u32],
        count: usize,
    ) -> Result<(), Error> {
        let most = self.resources.limits.rows / PAGE * PAGE;
        let mut left = count;
        while left > 0 {
            let count = left.min(most.max(1));
            left -= count;
            let phase = if count > DECODE_ROWS { Phase::Prompt } else { Phase::Decode };
            self.submit(phase, &[Span { slot, tokens, count, ask: None }])?;
        }
        Ok(())
    }

    /// Submits the first waiting rows of slots, which wait no more, and samples the token after
    /// each span with a draw. The hidden states of all are of one kind.
    fn submit(&mut self, phase: Phase, spans: &[Span<'_>]) -> Result<(), Error> {
        let width = self.width();
        let vocab = self.resources.plan.vocab;
        let (mut rows, mut wants): (Vec<Row>, Vec<Want<'_>>) = (Vec::new(), Vec::new());
        let (mut given, mut kept, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for span in spans {
            let slot = &mut self.slots[span.slot as usize];
            for &position in &slot.positions[..span.count] {
                let input = Input::Token(span.tokens[position + 1]);
                rows.push(row(input, slot.rows, span.slot));
                slot.rows += 1;
            }
            match &mut slot.states {
                WaitingStates::Given(states) => given.extend(states.drain(..span.count * width)),
                WaitingStates::Rows(first) => {
                    kept.extend((*first..*first + span.count).map(|row| row as u32));
                    *first += span.count;
                }
            }
            slot.positions.drain(..span.count);
            ends.push((span.slot, slot.rows));
            if let Some(ask) = span.ask {
                let sample = ask.sample(rows.len() - 1, ask.tokens.len() - 1, vocab);
                // the mask of a constraint is known for the first token alone
                let mask = ask.draw.mask().filter(|mask| mask.len() == vocab.div_ceil(32));
                let draw = Draw { mask, ..sample.draw };
                wants.push(Want::Sample(pelton_graph::Sample { draw, ..sample }));
            }
        }
        let hidden = match kept.is_empty() {
            true => Hidden::Given(&given),
            false => Hidden::Partner(&kept),
        };
        let pass = Pass { hidden, ..Pass::new(phase, &rows, &wants) };
        self.passes.submit(&mut self.resources, &pass, &ends)
    }

    /// Samples `count` more tokens, each after the one before, from the hidden states of the last
    /// row of each span in the pass before. These rows are not of the sequences' texts yet, and the
    /// next pass overwrites them.
    fn more(&mut self, spans: &[Span<'_>], count: usize) -> Result<(), Error> {
        let vocab = self.resources.plan.vocab;
        let (mut rows, mut wants, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let (mut last, mut end) = (Vec::new(), 0);
        for span in spans {
            end += span.count as u32;
            let Some(ask) = span.ask else { continue };
            let first = self.slots[span.slot as usize].rows;
            last.push(end - 1);
            wants.push(Want::Sample(ask.sample(rows.len(), ask.tokens.len(), vocab)));
            rows.push(row(Input::Sampled, first, span.slot));
            ends.push((span.slot, first + count));
        }
        let (hidden, repeat) = (Hidden::Before(&last), count as u32);
        let pass = Pass { hidden, repeat, ..Pass::new(Phase::Decode, &rows, &wants) };
        self.passes.submit(&mut self.resources, &pass, &ends)
    }
}

impl Drafter for HeadModel {
    fn name(&self) -> &'static str {
        "head"
    }

    fn pair(&mut self, model: &mut Runner) -> bool {
        self.resources.runner.pair(model)
    }

    fn hidden_width(&self) -> Option<usize> {
        Some(self.width())
    }

    fn keep(&mut self, id: u64, slot: u32, first: usize, states: States<'_>) {
        let Self { resources, passes, slots, .. } = self;
        let (width, context) = (resources.plan.hidden_width(), resources.limits.context);
        let at = slot;
        let Some(slot) = slots.get_mut(at as usize) else { return };
        if slot.id != id {
            passes.release(resources, at);
            *slot = Slot { id, ..Slot::EMPTY };
        }
        let count = match states {
            States::Given(values) => values.len() / width.max(1),
            States::Rows { count, .. } => count,
        };
        let end = (first + count).min(context);
        // waiting rows of positions that run again are replaced, those that have run stay
        while slot.positions.last().is_some_and(|&last| last >= first) {
            slot.next = slot.positions.pop().unwrap_or(first);
        }
        let new = first.max(slot.next)..end;
        match (&mut slot.states, states) {
            (WaitingStates::Given(waiting), _) => waiting.truncate(slot.positions.len() * width),
            // rows of an earlier pass are lost
            (WaitingStates::Rows(_), _) => slot.positions.clear(),
        }
        if new.is_empty() {
            return;
        }
        match (&mut slot.states, states) {
            (WaitingStates::Given(waiting), States::Given(values)) => waiting
                .extend_from_slice(&values[(new.start - first) * width..(end - first) * width]),
            (WaitingStates::Rows(_), States::Given(values)) => {
                let own = &values[(new.start - first) * width..(end - first) * width];
                slot.states = WaitingStates::Given(own.to_vec());
            }
            (_, States::Rows { first: row, .. }) => {
                slot.positions.clear();
                slot.states = WaitingStates::Rows(row + new.start - first);
            }
        }
        slot.next = end;
        slot.positions.extend(new);
    }

    fn kept(&self) -> Vec<(u64, u32)> {
        let slots = (0..).zip(&self.slots).filter(|(_, slot)| slot.is_kept());
        slots.map(|(at, slot)| (slot.id, at)).collect()
    }

    fn run_kept(&mut self, id: u64, slot: u32, tokens: &[u32]) -> Result<(), Error> {
        let known = self.known(id, slot, tokens);
        self.run_without_results(slot, tokens, known)?;
        if let Some(slot) = self.slots.get_mut(slot as usize).filter(|slot| slot.is_kept()) {
            slot.positions.clear();
        }
        Ok(())
    }

    fn follow(&mut self, id: u64, slot: u32, tokens: &[u32], least: usize) -> Result<(), Error> {
        let known = self.known(id, slot, &tokens[..tokens.len().saturating_sub(1)]);
        match known >= least.max(1) {
            true => self.run_without_results(slot, tokens, known),
            false => Ok(()),
        }
    }

    /// Sequences whose newest hidden state is not known have no draft. Where some states are rows
    /// of the model's newest pass, all others have none.
    fn begin(&mut self, asks: &[Ask<'_>], count: usize) -> Result<Vec<Option<u32>>, Error> {
        self.passes.begin();
        self.begun.clear();
        let mut rows = decoding_rows(&self.resources);
        let mut ready = Vec::new();
        let is_kept = |ask: &Ask<'_>| {
            self.slots.get(ask.slot as usize).is_some_and(|s| s.id == ask.id && s.is_kept())
        };
        let any_kept = asks.iter().any(is_kept);
        let kept: Vec<bool> = asks.iter().map(is_kept).collect();
        for (i, ask) in asks.iter().enumerate().filter(|(i, _)| kept[*i] == any_kept) {
            let waiting = self.known(ask.id, ask.slot, ask.tokens);
            let Some(slot) = self.slots.get(ask.slot as usize).filter(|_| waiting > 0) else {
                continue;
            };
            let is_newest = slot.next + 1 == ask.tokens.len();
            let fits = slot.rows + waiting + count <= self.resources.limits.context;
            if !is_newest || !fits || ready.len() == self.resources.limits.wants {
                continue;
            }
            if waiting > DECODE_ROWS.min(rows) {
                self.run_without_results(ask.slot, ask.tokens, waiting - 1)?;
            }
            let waiting = self.known(ask.id, ask.slot, ask.tokens);
            if waiting <= rows {
                rows -= waiting;
                ready.push((i, waiting));
            }
        }
        let mut places = vec![None; asks.len()];
        if ready.is_empty() || count == 0 {
            return Ok(places);
        }
        let spans: Vec<Span<'_>> = ready
            .iter()
            .map(|&(i, count)| {
                let ask = &asks[i];
                Span { slot: ask.slot, tokens: ask.tokens, count, ask: Some(ask) }
            })
            .collect();
        self.submit(Phase::Decode, &spans)?;
        for span in &spans {
            self.begun.extend(span.ask.map(|ask| ask.id));
        }
        for &(i, _) in &ready {
            places[i] = Some(self.slots[asks[i].slot as usize].rows as u32);
        }
        if count > 1 {
            self.more(&spans, count - 1)?;
        }
        Ok(places)
    }

    fn finish(&mut self) -> Result<Vec<(u64, Vec<u32>)>, Error> {
        let samples = self.passes.finish(&mut self.resources)?;
        let sequences = self.begun.len();
        let each = self.begun.drain(..).enumerate();
        Ok(each.map(|(n, id)| (id, column(&samples, n, sequences))).collect())
    }
}
