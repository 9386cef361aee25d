//! A small model that drafts the next tokens of running sequences.

use pelton_graph::{Input, PAGE, Pass, Phase, Row, Sample, Want};
use pelton_sampling::Draw;

use super::{
    draft_passes::{DraftPasses, column},
    drafter::{Ask, DECODE_ROWS, Drafter},
};
use crate::{
    Error,
    schedule::{resources::Resources, runner::Runner},
};

/// The positions of one slot that the draft model has run.
struct Slot {
    id: u64,
    /// The tokens of these positions.
    run: Vec<u32>,
}

/// A loaded draft model, whose slots are those of the model that it drafts for. It has pages for
/// all of them at full length.
pub(crate) struct DraftModel {
    resources: Resources,
    passes: DraftPasses,
    slots: Vec<Slot>,
    /// The sequences of the newest draft `(request, slot)` whose tokens were not taken yet.
    begun: Vec<(u64, u32)>,
}

impl DraftModel {
    pub(crate) fn new(resources: Resources) -> Self {
        let slot = || Slot { id: 0, run: Vec::new() };
        let slots = std::iter::repeat_with(slot).take(resources.limits.sequences).collect();
        Self { passes: DraftPasses::new(&resources), resources, slots, begun: Vec::new() }
    }

    /// The tokens of a sequence that have not run, if `count` more have room. The tokens that were
    /// run are cut where they are not the sequence's, and the sequence's last token is run in any
    /// case, for its logits.
    fn left(&mut self, ask: &Ask<'_>, count: usize) -> Option<usize> {
        let Self { resources, passes, slots, .. } = self;
        let slot = slots.get_mut(ask.slot as usize)?;
        let known = ask.tokens.iter().all(|&token| (token as usize) < resources.plan.vocab);
        if !known || ask.tokens.len() + count > resources.limits.context {
            return None;
        }
        if slot.id != ask.id {
            passes.release(resources, ask.slot);
            slot.run.clear();
            slot.id = ask.id;
        }
        let pairs = slot.run.iter().zip(&ask.tokens[..ask.tokens.len() - 1]);
        let common = pairs.take_while(|(a, b)| a == b).count();
        slot.run.truncate(common);
        Some(ask.tokens.len() - common)
    }

    /// Runs tokens of a sequence in the phase of prompts, up to its last one.
    fn run_prompt(&mut self, ask: &Ask<'_>) -> Result<(), Error> {
        let first = self.slots[ask.slot as usize].run.len();
        let last = ask.tokens.len() - 1;
        let most = first + self.resources.limits.rows;
        let end = if last <= most { last } else { most / PAGE * PAGE };
        let rows: Vec<Row> = (first..end)
            .map(|position| row(Input::Token(ask.tokens[position]), position, ask.slot))
            .collect();
        self.run(Phase::Prompt, &rows, &[], 1, &[(ask.slot, end)])?;
        self.slots[ask.slot as usize].run.extend(&ask.tokens[first..end]);
        Ok(())
    }

    /// Runs the tokens of sequences that have not run, and samples the one after each.
    fn first(&mut self, asks: &[&Ask<'_>]) -> Result<(), Error> {
        let (mut rows, mut wants) = (Vec::new(), Vec::new());
        let mut ends = Vec::new();
        for ask in asks {
            let first = self.slots[ask.slot as usize].run.len();
            let tokens = ask.tokens.iter().enumerate().skip(first);
            rows.extend(tokens.map(|(p, &token)| row(Input::Token(token), p, ask.slot)));
            let vocab = self.resources.plan.vocab;
            let sample = ask.sample(rows.len() - 1, ask.tokens.len() - 1, vocab);
            // the mask of a constraint is known for the first token alone
            let mask = ask.draw.mask().filter(|mask| mask.len() == vocab.div_ceil(32));
            let draw = Draw { mask, ..sample.draw };
            wants.push(Want::Sample(Sample { draw, ..sample }));
            ends.push((ask.slot, ask.tokens.len()));
        }
        self.run(Phase::Decode, &rows, &wants, 1, &ends)?;
        for ask in asks {
            let run = &mut self.slots[ask.slot as usize].run;
            run.extend(&ask.tokens[run.len()..]);
        }
        Ok(())
    }

    /// Samples `count` more tokens `[count, sequences]`, each after the one before.
    fn more(&mut self, asks: &[&Ask<'_>], count: usize) -> Result<(), Error> {
        let vocab = self.resources.plan.vocab;
        let (mut rows, mut wants, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (i, ask) in asks.iter().enumerate() {
            rows.push(row(Input::Sampled, ask.tokens.len(), ask.slot));
            wants.push(Want::Sample(ask.sample(i, ask.tokens.len(), vocab)));
            ends.push((ask.slot, ask.tokens.len() + count));
        }
        self.run(Phase::Decode, &rows, &wants, count as u32, &ends)
    }

    /// Submits a pass, with pages for the positions up to `ends` of each slot.
    fn run(
        &mut self,
        phase: Phase,
        rows: &[Row],
        wants: &[Want<'_>],
        repeat: u32,
        ends: &[(u32, usize)],
    ) -> Result<(), Error> {
        let pass = Pass { repeat, ..Pass::new(phase, rows, wants) };
        self.passes.submit(&mut self.resources, &pass, ends)
    }
}

impl Drafter for DraftModel {
    fn name(&self) -> &'static str {
        "draft model"
    }

    fn pair(&mut self, model: &mut Runner) -> bool {
        self.resources.runner.pair(model)
    }

    /// Sequences whose tokens have not all run have no draft: a pass of each call runs
    /// over the oldest of them.
    fn begin(&mut self, asks: &[Ask<'_>], count: usize) -> Result<Vec<Option<u32>>, Error> {
        // then the tokens that it has run are known
        self.finish()?;
        self.passes.begin();
        let mut ready: Vec<usize> = Vec::new();
        let mut prompt = None;
        for (i, ask) in asks.iter().enumerate() {
            match self.left(ask, count) {
                Some(1..=DECODE_ROWS) => ready.push(i),
                Some(_) if prompt.is_none() => prompt = Some(ask),
                _ => {}
            }
        }
        if let Some(ask) = prompt {
            self.run_prompt(ask)?;
        }
        ready.truncate(self.resources.limits.wants);
        let mut rows = decoding_rows(&self.resources);
        ready.retain(|&i| {
            let own = asks[i].tokens.len() - self.slots[asks[i].slot as usize].run.len();
            let fits = own <= rows;
            rows -= if fits { own } else { 0 };
            fits
        });
        let mut places = vec![None; asks.len()];
        if ready.is_empty() || count == 0 {
            return Ok(places);
        }
        let drafting: Vec<&Ask<'_>> = ready.iter().map(|&i| &asks[i]).collect();
        self.first(&drafting)?;
        if count > 1 {
            self.more(&drafting, count - 1)?;
        }
        self.begun = drafting.iter().map(|ask| (ask.id, ask.slot)).collect();
        for i in ready {
            places[i] = Some(asks[i].tokens.len() as u32);
        }
        Ok(places)
    }

    fn finish(&mut self) -> Result<Vec<(u64, Vec<u32>)>, Error> {
        let Self { resources, passes, slots, begun } = self;
        let samples = passes.finish(resources)?;
        let sequences = begun.len();
        let each = begun.drain(..).enumerate().map(|(n, (id, slot))| {
            let tokens = column(&samples, n, sequences);
            // the last one has not run
            slots[slot as usize].run.extend(&tokens[..tokens.len().saturating_sub(1)]);
            (id, tokens)
        });
        Ok(each.collect())
    }
}

/// The most rows of one pass of the phase of decoding, on every backend.
pub(super) fn decoding_rows(resources: &Resources) -> usize {
    resources.limits.rows.min(resources.limits.wants.max(DECODE_ROWS))
}

pub(super) fn row(input: Input, position: usize, slot: u32) -> Row {
    Row { input, position: position as u32, slot }
}
