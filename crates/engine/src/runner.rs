//! The executable with the pages of its caches: what the scheduler drives, and what a
//! [`Session`] lends out.

use pelton_graph::{Batch, Choice, Executable, Limits, Profile, Row};

use crate::{Error, chain, pages::PagePool};

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

    /// Runs the batch many times, and says where the time went.
    fn profile(&mut self, passes: usize) -> Result<Profile, Error> {
        let batch = Batch { rows: &self.rows, tables: &self.tables, selected: &self.selected };
        Ok(self.executable.profile(&batch, passes)?)
    }
}

/// Chains: see [`Executable::chains`].
impl Runner {
    pub(crate) fn has_chains(&self) -> bool {
        self.executable.chains()
    }

    /// Begins a chain of a sequence with its token at `position`.
    pub(crate) fn begin_chain(
        &mut self,
        slot: &Slot,
        position: usize,
        token: u32,
        choice: &Choice,
    ) -> Result<(), Error> {
        let row = Row { token, position: position as u32, sequence: slot.0 as u32 };
        Ok(self.executable.begin_chain(row, &self.tables[slot.0], choice)?)
    }

    pub(crate) fn extend_chain(&mut self, n: usize) -> Result<(), Error> {
        Ok(self.executable.extend_chain(n)?)
    }

    pub(crate) fn read_chain(&mut self) -> Result<&[u32], Error> {
        Ok(self.executable.read_chain()?)
    }

    pub(crate) fn end_chain(&mut self) {
        self.executable.end_chain();
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

    /// Whether [`decode`](Self::decode) can be used: a device that chooses tokens by itself.
    pub fn decodes(&self) -> bool {
        self.runner.has_chains()
    }

    /// Runs `token`, and then `n - 1` tokens each of which is the likeliest after the one before,
    /// in a chain of passes that needs the host for nothing. Returns the `n` tokens that were
    /// chosen; the last one is not run.
    ///
    /// # Errors
    ///
    /// If the device has no chains, or the sequence has no room.
    pub fn decode(&mut self, token: u32, n: usize) -> Result<Vec<u32>, Error> {
        let end = self.position + n;
        if end > self.positions {
            return Err(Error::CacheFull { needed: end });
        }
        let Some(slot) = &self.slot else { return Ok(Vec::new()) };
        let greedy =
            Choice { temperature: 0.0, top_k: 1, top_p: 1.0, min_p: 0.0, seed: 0, index: 0 };
        self.runner.begin_chain(slot, self.position, token, &greedy)?;
        let tokens = chain::all(self.runner, n);
        self.runner.end_chain();
        let tokens = tokens?;
        self.position = end;
        Ok(tokens)
    }

    /// Runs tokens at the next positions, in one pass that is run `passes` times over, and says
    /// where the time went. The sequence stays as long as it was.
    ///
    /// # Errors
    ///
    /// If the device cannot tell the time of single steps, or one pass cannot take the tokens.
    pub fn profile(&mut self, tokens: &[u32], passes: usize) -> Result<Profile, Error> {
        self.stage(tokens, true)?;
        self.position -= tokens.len();
        self.runner.profile(passes)
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
