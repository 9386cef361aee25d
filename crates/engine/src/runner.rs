//! The executable with the pages of its caches: what the scheduler drives, and what a
//! [`Session`] lends out.

use pelton_graph::{Batch, Executable, Limits, Row};

use crate::{Error, pages::PagePool};

/// An executable, and who has which of its pages.
pub(crate) struct Runner {
    executable: Box<dyn Executable>,
    limits: Limits,
    vocab: usize,
    context: usize,
    pool: PagePool,
    /// The page table of each slot; empty for a slot that is free.
    tables: Vec<Vec<u32>>,
    rows: Vec<Row>,
    selected: Vec<u32>,
}

/// A place for one sequence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

impl Runner {
    pub(crate) fn new(
        executable: Box<dyn Executable>,
        limits: Limits,
        vocab: usize,
        context: usize,
    ) -> Self {
        Self {
            executable,
            vocab,
            context,
            pool: PagePool::new(limits.pages),
            tables: vec![Vec::new(); limits.sequences],
            rows: Vec::with_capacity(limits.rows),
            selected: Vec::with_capacity(limits.selected),
            limits,
        }
    }

    /// A place with pages for `positions` positions, if there is one.
    pub(crate) fn take_slot(&mut self, positions: usize) -> Option<Slot> {
        let free = self.tables.iter().position(Vec::is_empty)?;
        self.tables[free] = self.pool.take(positions.max(1))?;
        Some(Slot(free))
    }

    pub(crate) fn give_back(&mut self, slot: Slot) {
        self.pool.give_back(std::mem::take(&mut self.tables[slot.0]));
    }

    /// Begins a batch.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.selected.clear();
    }

    /// How many more rows the batch has room for.
    pub(crate) fn room(&self) -> usize {
        self.limits.rows - self.rows.len()
    }

    /// Adds tokens of a sequence from `position` on; with `select`, the last one's logits are
    /// wanted.
    pub(crate) fn add(&mut self, slot: &Slot, position: usize, tokens: &[u32], select: bool) {
        let sequence = slot.0 as u32;
        self.rows.extend(tokens.iter().enumerate().map(|(i, &token)| Row {
            token,
            position: (position + i) as u32,
            sequence,
        }));
        if select {
            self.selected.push(self.rows.len() as u32 - 1);
        }
    }

    /// Runs the batch: the logits of the selected rows, one row after the other.
    pub(crate) fn forward(&mut self) -> Result<std::slice::Chunks<'_, f32>, Error> {
        let batch = Batch { rows: &self.rows, tables: &self.tables, selected: &self.selected };
        Ok(self.executable.forward(&batch)?.chunks(self.vocab))
    }
}

/// One sequence, run by hand: for measuring, and for logits instead of text.
///
/// See [`Model::session`](crate::Model::session).
pub struct Session<'a> {
    runner: &'a mut Runner,
    slot: Option<Slot>,
    /// How many positions there is room for.
    positions: usize,
    /// How many have been run.
    position: usize,
}

impl<'a> Session<'a> {
    /// A sequence with room for `positions` positions.
    pub(crate) fn new(runner: &'a mut Runner, positions: usize) -> Result<Self, Error> {
        if positions > runner.context {
            return Err(Error::PromptTooLong { tokens: positions, context: runner.context + 1 });
        }
        let slot = runner.take_slot(positions).ok_or(Error::CacheFull { needed: positions })?;
        Ok(Self { runner, slot: Some(slot), positions, position: 0 })
    }

    /// Runs tokens in as few passes as possible, and returns the logits after the last.
    pub fn run(&mut self, tokens: &[u32]) -> Result<&[f32], Error> {
        let rows = self.runner.limits.rows;
        // the last part has at least one token, and at most as many as a pass
        let Some(last) = tokens.len().checked_sub(1).map(|n| n / rows * rows) else {
            return Err(Error::EmptyPrompt);
        };
        for part in tokens[..last].chunks(rows) {
            self.stage(part, false)?;
            let _no_logits = self.runner.forward()?;
        }
        self.stage(&tokens[last..], true)?;
        Ok(self.runner.forward()?.next().unwrap_or(&[]))
    }

    /// Runs tokens, and gives the logits after each of them to `visit`, in order.
    pub fn run_all(&mut self, tokens: &[u32], mut visit: impl FnMut(&[f32])) -> Result<(), Error> {
        let Limits { rows, selected, .. } = self.runner.limits;
        for chunk in tokens.chunks(rows.min(selected)) {
            self.stage(chunk, false)?;
            self.runner.selected.extend(0..chunk.len() as u32);
            self.runner.forward()?.for_each(&mut visit);
        }
        Ok(())
    }

    /// Makes tokens the batch, after a check that they fit.
    fn stage(&mut self, tokens: &[u32], select: bool) -> Result<(), Error> {
        let vocab = self.runner.vocab;
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(Error::UnknownToken { token, vocab });
        }
        let end = self.position + tokens.len();
        if end > self.positions {
            return Err(Error::CacheFull { needed: end });
        }
        self.runner.clear();
        if let Some(slot) = &self.slot {
            self.runner.add(slot, self.position, tokens, select);
        }
        self.position = end;
        Ok(())
    }

    /// Takes the sequence back to its first `positions` positions.
    pub fn truncate(&mut self, positions: usize) {
        self.position = self.position.min(positions);
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.runner.give_back(slot);
        }
    }
}
