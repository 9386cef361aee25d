//! One sequence that is run by hand: for measuring, and for logits instead of text.

use std::collections::VecDeque;

use pelton_graph::{
    Effort, Input, KvType, MAX_REPEAT, OutputKind, PAGE, Pass, Phase, Plan, Profile, Row, Sample,
    TableEdit, Ticket, Want,
};
use pelton_sampling::Draw;

use crate::{Error, api::EffortLevel, kv::SequencePages, schedule::Resources};

/// A loaded model with one sequence, which the caller runs by hand on its own thread. See
/// [`Model::into_session`](crate::Model::into_session).
///
/// The sequence begins empty, at effort 1, with the LoRA adapters of the load. Each token that is
/// run takes the next position, and the sequence has at most
/// [`LoadOptions::context`](crate::LoadOptions::context) positions. [`truncate`](Self::truncate)
/// shortens it; to begin another text, truncate it to 0.
///
/// Several tokens at once run in the phase of prompts, in chunks that end at the borders of pages;
/// a single one runs in the phase of decoding. Sequences that a plan has to run as a whole are run
/// in one pass, each in place of the one before.
///
/// ```
/// use pelton::{Engine, LoadOptions, ModelSource};
///
/// let engine = Engine::builder().build()?;
/// let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
/// let prompt = model.tokenizer()?.encode_prompt("Once upon a time")?;
/// let mut session = model.into_session()?;
/// let logits = session.run(&prompt)?;
/// let likeliest = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
/// if let Some(token) = likeliest {
///     let tokens = session.decode(token as u32, 8)?;
///     assert_eq!(tokens.len(), 8);
///     assert_eq!(session.position(), prompt.len() + 8);
/// }
/// // another text: the logits [vocab] after each of its tokens
/// session.truncate(0);
/// session.run_all(&prompt, |logits| assert!(logits[0].is_finite()))?;
/// # Ok::<(), pelton::Error>(())
/// ```
pub struct Session {
    resources: Resources,
    pages: SequencePages,
    /// Positions that have been run.
    position: usize,
    effort: Effort,
    /// Whether rows of every effort run the whole model.
    is_whole: bool,
    logits: Vec<f32>,
}

impl Session {
    /// An empty sequence on a model of which no request runs.
    pub(crate) fn new(mut resources: Resources, is_whole: bool) -> Result<Self, Error> {
        let pages = SequencePages::new(resources.kv.groups());
        if resources.plan.adapters().is_some() {
            resources.runner.set_adapters(0, &resources.loras)?;
        }
        let (effort, logits) = (Effort::FULL, Vec::new());
        Ok(Self { resources, pages, position: 0, effort, is_whole, logits })
    }

    /// The plan that the model runs.
    pub fn plan(&self) -> &Plan {
        &self.resources.plan
    }

    /// The element type of its keys and values.
    pub(crate) fn kv(&self) -> KvType {
        self.resources.limits.kv
    }

    /// Sets the effort of the rows that are run from now on, in any phase.
    ///
    /// # Errors
    ///
    /// [`Error::Effort`] if it is out of its range, or below 1 of a model that was loaded without
    /// [`LoadOptions::effort`](crate::LoadOptions::effort).
    pub fn set_effort(&mut self, effort: impl Into<EffortLevel>) -> Result<(), Error> {
        let effort = effort_of(effort.into())?;
        self.effort = match self.is_whole {
            true => Effort::FULL,
            false => of_plan(effort, &self.resources.plan)?,
        };
        Ok(())
    }

    /// The share of the weights that an effort applies to which the rows of an effort below 1 have
    /// multiplied since the model was loaded, between 0 and 1. `None` before the first such row,
    /// and on GPUs, which do not count.
    pub fn live_share(&self) -> Option<f64> {
        self.resources.runner.live_share()
    }

    /// Runs tokens in as few passes as possible, and returns the logits `[vocab]` after the last;
    /// of a plan without logits its result `[width]`.
    ///
    /// # Errors
    ///
    /// [`Error::EmptyPrompt`] if there is no token, [`Error::UnknownToken`] if one is not in the
    /// vocabulary, [`Error::CacheFull`] if they do not fit into the context. [`Error::TextTooLong`]
    /// if a plan that runs whole sequences has passes of fewer rows, [`Error::Pass`] if a pass
    /// fails.
    pub fn run(&mut self, tokens: &[u32]) -> Result<&[f32], Error> {
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        self.begin(tokens)?;
        let before = self.position;
        if let Err(error) = self.run_chunks(tokens) {
            self.resources.runner.drain();
            self.position = before;
            return Err(error);
        }
        Ok(&self.logits)
    }

    /// Runs tokens in passes, as many of them in flight as the backend allows: several
    /// devices run several.
    fn run_chunks(&mut self, tokens: &[u32]) -> Result<(), Error> {
        let phase = self.phase_of(tokens);
        let depth = self.resources.runner.pipeline.depth;
        let mut flights: VecDeque<Ticket> = VecDeque::with_capacity(depth);
        let mut left = tokens;
        while !left.is_empty() || !flights.is_empty() {
            if !left.is_empty() && flights.len() < depth.max(1) {
                let count = self.chunk(left.len(), self.resources.limits.rows);
                let last = count == left.len();
                let wants = [last.then_some(count as u32 - 1)];
                flights.push_back(self.send(phase, &left[..count], &wants)?);
                left = &left[count..];
            } else if let Some(oldest) = flights.pop_front() {
                self.keep_logits(oldest)?;
            }
        }
        Ok(())
    }

    /// Runs tokens, and passes the logits `[vocab]` after each of them to `visit`, in order; of a
    /// plan without logits its results `[width]`.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); without tokens it does nothing.
    pub fn run_all(&mut self, tokens: &[u32], mut visit: impl FnMut(&[f32])) -> Result<(), Error> {
        self.begin(tokens)?;
        let phase = self.phase_of(tokens);
        let mut left = tokens;
        while !left.is_empty() {
            let limits = &self.resources.limits;
            let count = self.chunk(left.len(), limits.rows.min(limits.wants));
            let wants: Vec<Option<u32>> = (0..count as u32).map(Some).collect();
            self.forward(phase, &left[..count], &wants)?;
            self.logits.chunks(self.resources.plan.output_width()).for_each(&mut visit);
            left = &left[count..];
        }
        Ok(())
    }

    /// Runs `token`, and then `n - 1` tokens each of which is the likeliest after the one before,
    /// in passes that need the host for nothing. Returns the `n` tokens that were sampled; the last
    /// one is not run.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownToken`] if the token is not in the vocabulary, [`Error::CacheFull`] if `n`
    /// tokens do not fit into the context. [`Error::NotANumber`] if every logit is NaN,
    /// [`Error::Pass`] if the model has no logits or a pass fails.
    pub fn decode(&mut self, token: u32, n: usize) -> Result<Vec<u32>, Error> {
        self.check(&[token])?;
        if self.resources.plan.output != OutputKind::Logits {
            return Err(Error::Pass("the model has no logits to sample tokens from".to_owned()));
        }
        let end = self.end(n)?;
        let pipeline = self.resources.runner.pipeline;
        let most = pipeline.repeat.clamp(1, MAX_REPEAT) as usize;
        let mut flights: VecDeque<Ticket> = VecDeque::new();
        let mut tokens = Vec::with_capacity(n);
        let (mut next, mut repeat) = (self.position, 1);
        while tokens.len() < n {
            while next < end && flights.len() < pipeline.depth.max(1) {
                let count = repeat.min(end - next);
                let input =
                    if next == self.position { Input::Token(token) } else { Input::Sampled };
                flights.push_back(self.submit_sampled(input, next, count)?);
                next += count;
                repeat = (2 * repeat).min(most);
            }
            let Some(ticket) = flights.pop_front() else { break };
            for sampled in self.resources.runner.take(ticket)?.samples {
                let index = tokens.len();
                tokens.push(sampled.token.ok_or(Error::NotANumber { index })?);
            }
        }
        self.position = end;
        Ok(tokens)
    }

    fn submit_sampled(
        &mut self,
        input: Input,
        position: usize,
        repeat: usize,
    ) -> Result<Ticket, Error> {
        self.grown(position + repeat)?;
        let row = Row { input, position: position as u32, slot: 0 };
        let sample = Sample { row: 0, draw: Draw::GREEDY, recent: &[], pending: 0 };
        let tables = edits(&self.pages);
        let pass = Pass {
            phase: Phase::Decode,
            rows: &[row],
            tables: &tables,
            wants: &[Want::Sample(sample)],
            efforts: &[self.effort],
            repeat: repeat as u32,
            ..Pass::new(Phase::Decode, &[], &[])
        };
        let ticket = self.resources.runner.submit(&pass)?;
        self.pages.mark_sent();
        Ok(ticket)
    }

    /// Runs tokens at the next positions in one pass that is run `passes` times over, and returns
    /// where the time went. The sequence stays as long as it was; with recurrent states, which
    /// every pass changes, it is empty afterwards.
    ///
    /// # Errors
    ///
    /// If the backend has no clock for single steps, or one pass cannot run the tokens.
    pub fn profile(&mut self, tokens: &[u32], passes: usize) -> Result<Profile, Error> {
        self.profile_as(self.phase_of(tokens), tokens, passes)
    }

    /// The same with the tokens as rows of decoding, as those of several sequences or of drafts
    /// are.
    ///
    /// # Errors
    ///
    /// As [`profile`](Self::profile), and if a decoding pass cannot have so many rows: at
    /// least 16 are possible.
    pub fn profile_decode(&mut self, tokens: &[u32], passes: usize) -> Result<Profile, Error> {
        self.profile_as(Phase::Decode, tokens, passes)
    }

    fn profile_as(
        &mut self,
        phase: Phase,
        tokens: &[u32],
        passes: usize,
    ) -> Result<Profile, Error> {
        self.begin(tokens)?;
        self.grown(self.position + tokens.len())?;
        let rows = rows(tokens, self.position);
        let wants = [Want::Logits { row: (tokens.len() as u32).saturating_sub(1) }];
        let tables = edits(&self.pages);
        let efforts = vec![self.effort; rows.len()];
        let pass = Pass { tables: &tables, efforts: &efforts, ..Pass::new(phase, &rows, &wants) };
        let profile = self.resources.runner.profile(&pass, passes)?;
        self.pages.mark_sent();
        if !self.resources.plan.states.is_empty() {
            self.position = 0;
        }
        Ok(profile)
    }

    /// Shortens the sequence to its first `positions` positions. Nothing happens if it has no more
    /// than these.
    ///
    /// The sequence is empty afterwards if the model no longer has the state that the next row
    /// would need. Recurrent states are those of the last position alone, and a cache of a window
    /// has no keys and values before it. [`position`](Self::position) tells.
    pub fn truncate(&mut self, positions: usize) {
        if positions >= self.position {
            return;
        }
        let Resources { runner, kv, plan, .. } = &mut self.resources;
        let lost = !plan.states.is_empty() || !kv.sees(&self.pages, positions);
        self.position = if lost { 0 } else { positions };
        if self.position == 0 {
            // a pass that was given up may still write to them
            runner.drain();
            kv.release(&mut self.pages);
        }
    }

    /// Positions that have been run, and the position of the next token.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Tokens of the next chunk of a prompt with `left` tokens left.
    fn chunk(&self, left: usize, rows: usize) -> usize {
        let end = self.position + left.min(rows);
        match end / PAGE * PAGE {
            border if left > rows && border > self.position => border - self.position,
            _ => end - self.position,
        }
    }

    /// Runs tokens in one pass and keeps the logits of the rows that `wants` names.
    fn forward(
        &mut self,
        phase: Phase,
        tokens: &[u32],
        wants: &[Option<u32>],
    ) -> Result<(), Error> {
        let ticket = self.send(phase, tokens, wants)?;
        self.keep_logits(ticket)
    }

    /// Submits a pass over tokens at the next positions.
    fn send(
        &mut self,
        phase: Phase,
        tokens: &[u32],
        wants: &[Option<u32>],
    ) -> Result<Ticket, Error> {
        self.grown(self.position + tokens.len())?;
        let rows = rows(tokens, self.position);
        let wants: Vec<Want<'_>> =
            wants.iter().flatten().map(|&row| Want::Logits { row }).collect();
        let tables = edits(&self.pages);
        let efforts = vec![self.effort; rows.len()];
        let pass = Pass { tables: &tables, efforts: &efforts, ..Pass::new(phase, &rows, &wants) };
        let ticket = self.resources.runner.submit(&pass)?;
        self.pages.mark_sent();
        self.position += tokens.len();
        Ok(ticket)
    }

    /// Keeps the logits of the oldest pass in flight.
    fn keep_logits(&mut self, ticket: Ticket) -> Result<(), Error> {
        let outputs = self.resources.runner.take(ticket)?;
        self.logits.clear();
        self.logits.extend_from_slice(outputs.logits);
        Ok(())
    }

    /// Pages for the first `positions` positions; of windowed groups those that the next row sees.
    fn grown(&mut self, positions: usize) -> Result<(), Error> {
        let kv = &mut self.resources.kv;
        kv.slide(&mut self.pages, self.position);
        let available = self.resources.limits.context;
        kv.grow(&mut self.pages, positions)
            .map_err(|_| Error::CacheFull { needed: positions, available })
    }

    /// The position after `n` more.
    fn end(&self, n: usize) -> Result<usize, Error> {
        let needed = self.position.saturating_add(n);
        let available = self.resources.limits.context;
        match needed <= available {
            true => Ok(needed),
            false => Err(Error::CacheFull { needed, available }),
        }
    }

    /// Prepares to run tokens: those of a whole sequence begin at its first position.
    fn begin(&mut self, tokens: &[u32]) -> Result<(), Error> {
        let resources = &self.resources;
        if resources.plan.whole_sequences {
            let limit = resources.limits.rows;
            if tokens.len() > limit {
                let what = "the rows of a pass that the model was loaded with";
                return Err(Error::TextTooLong { text: 0, tokens: tokens.len(), limit, what });
            }
            self.position = 0;
        }
        self.check(tokens)
    }

    fn phase_of(&self, tokens: &[u32]) -> Phase {
        match tokens.len() {
            1 if !self.resources.plan.whole_sequences => Phase::Decode,
            _ => Phase::Prompt,
        }
    }

    fn check(&self, tokens: &[u32]) -> Result<(), Error> {
        let vocab = self.resources.plan.vocab;
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(Error::UnknownToken { token, vocab });
        }
        self.end(tokens.len()).map(drop)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // a process that ends while a GPU runs can hang the GPU
        self.resources.runner.drain();
    }
}

/// The effort of a level.
pub(crate) fn effort_of(level: EffortLevel) -> Result<Effort, Error> {
    let (found, expected) = (level.fraction(), "a number above 0 and at most 1");
    Effort::new(found).ok_or(Error::Effort { found, expected })
}

/// An effort, if a plan's rows can have it.
pub(crate) fn of_plan(effort: Effort, plan: &Plan) -> Result<Effort, Error> {
    match effort.is_full() || plan.has_effort() {
        true => Ok(effort),
        false => Err(Error::Effort {
            found: effort.fraction(),
            expected: "1: the model was not loaded for an effort below 1",
        }),
    }
}

fn rows(tokens: &[u32], position: usize) -> Vec<Row> {
    let row =
        |(i, &token)| Row { input: Input::Token(token), position: (position + i) as u32, slot: 0 };
    tokens.iter().enumerate().map(row).collect()
}

fn edits(pages: &SequencePages) -> Vec<TableEdit<'_>> {
    let tables = pages.tables.iter().enumerate();
    tables
        .filter_map(|(group, table)| {
            let (first, pages) = table.unsent()?;
            Some(TableEdit { group: group as u32, slot: 0, first: first as u32, pages })
        })
        .collect()
}
