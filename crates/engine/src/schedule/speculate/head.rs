//! The head of a model file that drafts the next tokens of running sequences.
//!
//! A row of the head has the model's hidden state of one position of a sequence and the token of the
//! next position, and its logits are those of the token after that. Its own positions count its
//! rows: positions whose hidden states were not kept (a cached prefix, passes ahead of the host) are
//! left out.

use std::collections::VecDeque;

use pelton_graph::{Input, PAGE, Pass, Phase, Row, Ticket, Want};
use pelton_sampling::{Draw, Sampled};

use super::{
    draft_model::{Ask, DECODE_ROWS, decoding_rows, row},
    slot_pages::SlotPages,
};
use crate::{Error, schedule::resources::Resources};

/// The rows of one slot.
struct Slot {
    id: u64,
    /// Rows that the head has run.
    rows: usize,
    /// Positions whose hidden states wait to be run, in ascending order, and these states
    /// `[positions, hidden]`.
    positions: Vec<usize>,
    states: Vec<f32>,
    /// The position of the sequence whose hidden state is expected next.
    next: usize,
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
    pages: SlotPages,
    slots: Vec<Slot>,
    /// Passes without results that were not taken yet.
    tickets: VecDeque<Ticket>,
}

impl HeadModel {
    pub(crate) fn new(resources: Resources) -> Self {
        let slot = || Slot { id: 0, rows: 0, positions: Vec::new(), states: Vec::new(), next: 0 };
        let slots = std::iter::repeat_with(slot).take(resources.limits.sequences).collect();
        Self { pages: SlotPages::new(&resources), resources, slots, tickets: VecDeque::new() }
    }

    /// Elements of a hidden state.
    pub(crate) fn width(&self) -> usize {
        self.resources.plan.hidden_width()
    }

    /// Takes note of the hidden states `[positions, hidden]` of a sequence from position `first` on.
    pub(crate) fn keep(&mut self, id: u64, slot: u32, first: usize, states: &[f32]) {
        let Self { resources, pages, slots, .. } = self;
        let (width, context) = (resources.plan.hidden_width(), resources.limits.context);
        let at = slot;
        let Some(slot) = slots.get_mut(at as usize) else { return };
        if slot.id != id {
            pages.release(resources, at);
            (slot.id, slot.rows, slot.next) = (id, 0, 0);
            slot.positions.clear();
            slot.states.clear();
        }
        let end = (first + states.len() / width.max(1)).min(context);
        // waiting rows of positions that run again are replaced, those that have run stay
        while slot.positions.last().is_some_and(|&last| last >= first) {
            slot.next = slot.positions.pop().unwrap_or(first);
        }
        slot.states.truncate(slot.positions.len() * width);
        let new = first.max(slot.next)..end;
        if new.is_empty() {
            return;
        }
        slot.states.extend_from_slice(&states[(new.start - first) * width..(end - first) * width]);
        slot.next = end;
        slot.positions.extend(new);
    }

    /// Runs the waiting rows of a sequence but for the newest, which a draft begins with, if there are
    /// at least `least`.
    ///
    /// # Errors
    ///
    /// If a pass fails.
    pub(crate) fn follow(
        &mut self,
        id: u64,
        slot: u32,
        tokens: &[u32],
        least: usize,
    ) -> Result<(), Error> {
        let known = self.known(id, slot, &tokens[..tokens.len().saturating_sub(1)]);
        match known >= least.max(1) {
            true => self.run_without_results(slot, tokens, known),
            false => Ok(()),
        }
    }

    /// Waiting positions of a sequence that are followed by a known token.
    fn known(&self, id: u64, slot: u32, tokens: &[u32]) -> usize {
        let slot = self.slots.get(slot as usize).filter(|slot| slot.id == id);
        slot.map_or(0, |slot| slot.positions.partition_point(|&p| p + 1 < tokens.len()))
    }

    /// Drafts the next `count` tokens of sequences. The drafts of those whose newest hidden state is
    /// not known are empty.
    ///
    /// # Errors
    ///
    /// If a pass fails.
    pub(crate) fn draft(&mut self, asks: &[Ask<'_>], count: usize) -> Result<Vec<Vec<u32>>, Error> {
        let mut drafts = vec![Vec::new(); asks.len()];
        let mut rows = decoding_rows(&self.resources);
        let mut ready = Vec::new();
        for (i, ask) in asks.iter().enumerate() {
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
        if ready.is_empty() || count == 0 {
            return Ok(drafts);
        }
        let spans: Vec<Span<'_>> = ready
            .iter()
            .map(|&(i, count)| {
                let ask = &asks[i];
                Span { slot: ask.slot, tokens: ask.tokens, count, ask: Some(ask) }
            })
            .collect();
        let (sampled, states) = self.first(&spans, count)?;
        for (sampled, &(i, _)) in sampled.into_iter().zip(&ready) {
            drafts[i].extend(sampled.token);
        }
        if count > 1 {
            let more = self.more(&spans, &states, count - 1)?;
            for (n, &(i, _)) in ready.iter().enumerate() {
                let column = more.iter().skip(n).step_by(ready.len());
                drafts[i].extend(column.map_while(|sampled| sampled.token));
            }
        }
        Ok(drafts)
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
            let span = Span { slot, tokens, count, ask: None };
            let ticket = self.submit(phase, &[span], false)?;
            self.tickets.push_back(ticket);
            let depth = self.resources.runner.pipeline.depth;
            self.settle(depth.saturating_sub(1))?;
        }
        Ok(())
    }

    /// Takes passes without results until at most `most` are left.
    fn settle(&mut self, most: usize) -> Result<(), Error> {
        while self.tickets.len() > most {
            if let Some(ticket) = self.tickets.pop_front() {
                self.resources.runner.take(ticket)?;
            }
        }
        Ok(())
    }

    /// Runs the waiting rows of sequences, and samples the token after each; with those that are to
    /// follow, returns the hidden states `[sequences, hidden]` of the last rows too.
    fn first(
        &mut self,
        spans: &[Span<'_>],
        count: usize,
    ) -> Result<(Vec<Sampled>, Vec<f32>), Error> {
        self.settle(0)?;
        let ticket = self.submit(Phase::Decode, spans, count > 1)?;
        let width = self.width();
        let outputs = self.resources.runner.take(ticket)?;
        let mut states = Vec::new();
        let mut end = 0;
        for span in spans.iter().filter(|_| count > 1) {
            end += span.count;
            states.extend_from_slice(&outputs.hidden[(end - 1) * width..end * width]);
        }
        Ok((outputs.samples.to_vec(), states))
    }

    /// Submits the first waiting rows of slots, which wait no more.
    fn submit(
        &mut self,
        phase: Phase,
        spans: &[Span<'_>],
        keeps_hidden: bool,
    ) -> Result<Ticket, Error> {
        let width = self.width();
        let vocab = self.resources.plan.vocab;
        let (mut rows, mut wants): (Vec<Row>, Vec<Want<'_>>) = (Vec::new(), Vec::new());
        let (mut hidden, mut ends) = (Vec::new(), Vec::new());
        for span in spans {
            let slot = &mut self.slots[span.slot as usize];
            for &position in &slot.positions[..span.count] {
                let input = Input::Token(span.tokens[position + 1]);
                rows.push(row(input, slot.rows, span.slot));
                slot.rows += 1;
            }
            hidden.extend(slot.states.drain(..span.count * width));
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
        let pass = Pass { hidden: &hidden, keeps_hidden, ..Pass::new(phase, &rows, &wants) };
        self.pages.submit(&mut self.resources, &pass, &ends)
    }

    /// Samples `count` more tokens `[count, sequences]`, each after the one before, from the hidden
    /// states of the rows of the first. These rows are not of the sequences' texts yet, and the next
    /// pass overwrites them.
    fn more(
        &mut self,
        spans: &[Span<'_>],
        states: &[f32],
        count: usize,
    ) -> Result<Vec<Sampled>, Error> {
        let vocab = self.resources.plan.vocab;
        let (mut rows, mut wants, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for span in spans {
            let Some(ask) = span.ask else { continue };
            let first = self.slots[span.slot as usize].rows;
            wants.push(Want::Sample(ask.sample(rows.len(), ask.tokens.len(), vocab)));
            rows.push(row(Input::Sampled, first, span.slot));
            ends.push((span.slot, first + count));
        }
        let repeat = count as u32;
        let pass = Pass { hidden: states, repeat, ..Pass::new(Phase::Decode, &rows, &wants) };
        let ticket = self.pages.submit(&mut self.resources, &pass, &ends)?;
        Ok(self.resources.runner.take(ticket)?.samples.to_vec())
    }
}
