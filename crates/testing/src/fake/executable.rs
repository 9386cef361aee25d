//! The fake executable: passes are checked and queued when they are submitted, and run when they
//! are taken.

use std::{collections::VecDeque, sync::Arc};

use pelton_graph::{
    Effort, Error, Executable, Input, Limits, Op, Outputs, PAGE, PageTables, Pass, Phase, Pipeline,
    Plan, RECENT, Row, Shared, TableEdit, Ticket,
};
use pelton_sampling::{Draw, Sampler};

use super::{
    cells::{Cell, Cells, mix, state},
    hidden::HiddenStates,
    log::{Failure, PassRecord},
    options::Fake,
    partner::{Own, OwnHidden, Results},
    wants::{OwnSample, OwnWant},
};

/// The most passes that a model over three devices has under way.
const PASSES_BEHIND: u64 = 4;

/// A copy between a slot's states and a snapshot, or a change of a slot's adapters.
#[derive(Clone, Copy)]
enum StateCopy {
    Save { slot: u32, snapshot: u32 },
    Restore { snapshot: u32, slot: u32 },
    Adapters { slot: u32, hash: u64 },
}

/// A pass that waits to be run.
struct Queued {
    ticket: Ticket,
    phase: Phase,
    rows: Vec<Row>,
    edits: Vec<(u32, u32, u32, Vec<u32>)>,
    wants: Vec<OwnWant>,
    repeat: u32,
    /// How much each row multiplies, or none.
    efforts: Vec<Effort>,
    hidden: OwnHidden,
    keeps_hidden: bool,
    failure: Option<Failure>,
    /// The results, if it has run.
    results: Option<Results>,
}

/// See [`Fake`].
pub(super) struct FakeExecutable {
    fake: Fake,
    plan: Plan,
    limits: Limits,
    /// The tables after the newest submitted pass, for checks.
    ahead: PageTables,
    /// The tables after the newest run pass.
    tables: PageTables,
    cells: Cells,
    /// The token of each slot at each position, the newest [`RECENT`] of them.
    ring: Vec<[u32; RECENT]>,
    /// The recurrent states of each slot after each position that has run.
    states: Vec<Vec<u64>>,
    /// The snapshots of such states.
    snapshots: Vec<Vec<u64>>,
    /// A hash of the LoRA adapters of each slot, 0 for none.
    adapters: Vec<u64>,
    /// Copies of states and changes of adapters, each with the number of the pass before which it
    /// is made.
    copies: VecDeque<(u64, StateCopy)>,
    /// For each slot the ticket before which its passes belong to a sequence whose caches a failed
    /// pass has spoiled: they were queued already.
    spoiled: Vec<u64>,
    /// For each slot the failed passes of all parts that it knows of.
    failures: Vec<u64>,
    /// The ticket of the pass that runs.
    current: u64,
    queue: VecDeque<Queued>,
    next: u64,
    /// The results of the newest pass that has run.
    results: Results,
    states_of_rows: HiddenStates,
    hidden: Vec<f32>,
    own: Own,
    partner: Option<Own>,
    /// Rows of the pass that was submitted last.
    rows_before: usize,
}

impl FakeExecutable {
    pub(super) fn new(fake: Fake, plan: Plan, limits: Limits) -> Self {
        let width = plan.hidden_width();
        Self {
            fake,
            plan,
            ahead: PageTables::new(&limits),
            tables: PageTables::new(&limits),
            cells: Cells::new(&limits.pages),
            ring: vec![[u32::MAX; RECENT]; limits.sequences],
            states: vec![Vec::new(); limits.sequences],
            snapshots: vec![Vec::new(); limits.snapshots],
            adapters: vec![0; limits.sequences],
            copies: VecDeque::new(),
            spoiled: vec![0; limits.sequences],
            failures: vec![0; limits.sequences],
            current: 0,
            queue: VecDeque::new(),
            next: 0,
            results: Results::default(),
            states_of_rows: HiddenStates::new(width, limits.sequences),
            hidden: Vec::new(),
            own: Own::default(),
            partner: None,
            rows_before: 0,
            limits,
        }
    }

    fn violation(&self, what: String) {
        self.fake.log().violations.push(what);
    }

    fn violation_of(&self, slot: usize, what: impl FnOnce() -> String) {
        if self.current >= self.spoiled[slot] {
            self.violation(what());
        }
    }

    /// How a row is run, which its state depends on where phases do not agree.
    fn mode(&self, phase: Phase, row: usize, chunk: u32) -> u64 {
        let decodes = match phase {
            Phase::Prompt => false,
            Phase::Mixed { decoding } => row < decoding,
            Phase::Decode | Phase::Encode => true,
        };
        match (self.fake.pipeline.phases_agree, decodes) {
            (true, _) => 0,
            (false, false) => 1 + u64::from(chunk % PAGE as u32),
            (false, true) => 1000,
        }
    }

    /// Makes the copies of states requested before the pass `ticket` was submitted.
    fn copy_states(&mut self, ticket: u64) {
        while let Some((_, copy)) = self.copies.pop_front_if(|(before, _)| *before <= ticket) {
            match copy {
                StateCopy::Save { slot, snapshot } => {
                    self.snapshots[snapshot as usize] = self.states[slot as usize].clone();
                }
                StateCopy::Restore { snapshot, slot } => {
                    self.states[slot as usize] = self.snapshots[snapshot as usize].clone();
                }
                StateCopy::Adapters { slot, hash } => self.adapters[slot as usize] = hash,
            }
        }
    }

    fn run(&mut self, queued: &Queued) {
        self.current = queued.ticket.0;
        self.copy_states(self.current);
        for (group, slot, first, pages) in &queued.edits {
            let edit = TableEdit { group: *group, slot: *slot, first: *first, pages };
            if let Err(error) = self.tables.apply(&edit) {
                self.violation(error.to_string());
            }
        }
        for row in &queued.rows {
            // a part before this one did not hand on a pass of the slot
            let slot = row.slot as usize;
            let failures = self.fake.failures_of(slot, false);
            if std::mem::replace(&mut self.failures[slot], failures) != failures {
                self.spoiled[slot] = self.current + self.behind();
            }
        }
        let width = self.plan.width_of(&self.plan.entry);
        self.hidden = queued.hidden.states(width, &self.hidden, self.partner.as_ref());
        self.results = Results::default();
        for n in 0..queued.repeat {
            let mut chunk = (u32::MAX, 0);
            let given = std::mem::take(&mut self.hidden);
            for (i, row) in queued.rows.iter().enumerate() {
                let position = row.position + n;
                if chunk.0 != row.slot {
                    chunk = (row.slot, position);
                }
                let input = match row.input {
                    // a part between others samples nothing: the values that it is given have the
                    // token
                    Input::Sampled if !given.is_empty() && !self.plan.has_results() => {
                        let width = self.plan.width_of(&self.plan.entry);
                        Input::Token(given[i * width + 1] as u32)
                    }
                    input if n == 0 => input,
                    _ => Input::Sampled,
                };
                let level = match queued.efforts.get(i) {
                    Some(level) if !level.is_full() => mix(3, level.bits()),
                    _ => 0,
                };
                let adapters = self.adapters[row.slot as usize];
                let mode = self.mode(queued.phase, i, chunk.1) ^ adapters ^ level;
                self.run_row(row.slot as usize, position, input, mode);
                self.run_hidden(&Row { position, ..*row }, i, &given);
            }
            for want in &queued.wants {
                match want {
                    OwnWant::Logits { row } => {
                        let results = self.results_of(&queued.rows, queued.rows[*row]);
                        self.results.logits.extend(results);
                    }
                    OwnWant::Sample(sample) => self.sample(&queued.rows, sample, n),
                }
            }
        }
        if queued.keeps_hidden {
            self.results.hidden.clone_from(&self.hidden);
        }
        if self.partner.is_some() {
            let mut own = self.own.lock();
            own.ring.clone_from(&self.ring);
            own.hidden.clone_from(&self.hidden);
            own.rows = queued.rows.len();
        }
    }

    /// Passes that were queued before other devices of the model when a pass fails on this one.
    fn behind(&self) -> u64 {
        let is_part = !(self.plan.entry.is_empty() && self.plan.exit.is_empty());
        if is_part { PASSES_BEHIND } else { 0 }
    }

    /// Writes nonsense where a failed pass has written.
    fn spoil(&mut self, queued: &Queued) {
        for (row, n) in queued.rows.iter().flat_map(|row| (0..queued.repeat).map(move |n| (row, n)))
        {
            let slot = row.slot as usize;
            let cell = Cell { position: row.position + n, mode: 7, ..Cell::default() };
            for group in 0..self.plan.groups.len() {
                self.cells.set(&self.tables, group, slot, cell);
            }
            self.ring[slot][(row.position + n + 1) as usize % RECENT] = u32::MAX;
            self.states[slot].clear();
            self.spoiled[slot] = self.next + self.behind();
            self.failures[slot] = self.fake.failures_of(slot, true);
        }
    }

    fn run_row(&mut self, slot: usize, position: u32, input: Input, mode: u64) {
        let at = position as usize % RECENT;
        let token = match input {
            Input::Token(token) => token,
            Input::Sampled => self.ring[slot][at],
            Input::Drafted(from) => {
                let partner = self.partner.as_ref();
                let token = partner.map(|own| own.lock().ring[slot][from as usize % RECENT]);
                self.results.drafted.extend(token);
                token.unwrap_or(u32::MAX)
            }
            // the plans of this executable have no encoder and no pictures, so the check of a pass
            // refuses such rows
            Input::Features | Input::Embedding(_) => 0,
        };
        if token as usize >= self.plan.vocab {
            self.violation_of(slot, || {
                format!("slot {slot} has no sampled token for position {position}")
            });
        }
        self.ring[slot][at] = token;
        let before = self.before(slot, position);
        let state = state(before, token, position, mode);
        let cell = Cell { token, position, mode, state };
        for group in 0..self.plan.groups.len() {
            self.cells.set(&self.tables, group, slot, cell);
        }
        if !self.plan.states.is_empty() {
            self.run_recurrent(slot, token, position, mode);
        }
    }

    /// The hidden state of a row that has run, which is row `i` of a pass.
    fn run_hidden(&mut self, row: &Row, i: usize, given: &[f32]) {
        let token = self.ring[row.slot as usize][row.position as usize % RECENT];
        let width = self.plan.hidden_width();
        let is_part = !self.plan.has_results() || self.plan.exit.is_empty();
        let state = match (self.plan.entry.is_empty(), is_part) {
            (true, _) if self.plan.exit.is_empty() => return,
            (false, true) => {
                let width = self.plan.width_of(&self.plan.entry);
                let given = &given[i * width..(i + 1) * width];
                let expected = [row.position as f32, token as f32];
                if given[..2] != expected {
                    let found = [given[0], given[1]];
                    self.violation_of(row.slot as usize, || {
                        format!("the values of {found:?} of the part before, expected {expected:?}")
                    });
                }
                self.states_of_rows.of(row.position, token)
            }
            (false, false) => {
                let given = &given[i * width..(i + 1) * width];
                let (state, wrong) = self.states_of_rows.run(row, given, token);
                if let Some(wrong) = wrong {
                    self.violation_of(row.slot as usize, || wrong);
                }
                state
            }
            (true, _) => self.states_of_rows.of(row.position, token),
        };
        self.hidden.extend(state);
    }

    /// Continues the recurrent state of a slot, which starts at position 0.
    fn run_recurrent(&mut self, slot: usize, token: u32, position: u32, mode: u64) {
        if position == 0 {
            self.states[slot].clear();
        }
        let known = self.states[slot].len();
        if known != position as usize {
            self.violation_of(slot, || {
                format!("slot {slot} continues the state after {known} positions at {position}")
            });
            self.states[slot].resize(position as usize, 0);
        }
        let before = self.states[slot].last().copied().unwrap_or(2);
        self.states[slot].push(state(before, token, position, mode));
    }

    /// The result of a row: its logits, or values of the rows that it summarizes.
    fn results_of(&self, rows: &[Row], row: Row) -> Vec<f32> {
        let slot = row.slot as usize;
        if !self.plan.whole_sequences {
            return self.logits_of(slot, row.position);
        }
        // every row sees the last one
        let last = rows.iter().filter(|other| other.slot == row.slot).map(|row| row.position).max();
        let mut results = self.logits_of(slot, last.unwrap_or(0));
        let pools = self.plan.steps.iter().any(|step| matches!(step.op, Op::Pool(_)));
        if !pools {
            results.iter_mut().for_each(|value| *value += row.position as f32);
        }
        results
    }

    /// The state that a row at `position` continues: that of the position before in all groups.
    fn before(&self, slot: usize, position: u32) -> u64 {
        let Some(previous) = position.checked_sub(1) else { return 1 };
        let cell = |group| self.cells.get(&self.tables, group, slot, previous as usize);
        let all = (0..self.plan.groups.len()).map(cell);
        all.fold(0, |hash, cell| {
            if cell.position != previous {
                self.violation_of(slot, || {
                    format!("slot {slot} finds position {} for {previous}", cell.position)
                });
            }
            // equal in all groups, unless a page is wrong
            if hash == 0 || hash == cell.state { cell.state } else { mix(hash, cell.state) }
        })
    }

    /// Logits of the row at `position`: from all cells that it sees, whose chain is checked.
    fn logits_of(&self, slot: usize, position: u32) -> Vec<f32> {
        let mut hash = 0;
        for (g, group) in self.plan.groups.iter().enumerate() {
            let from = group.window.map_or(0, |w| (position as usize + 1).saturating_sub(w));
            let mut before = (from == 0).then_some(1);
            for p in from..=position as usize {
                let cell = self.cells.get(&self.tables, g, slot, p);
                let sound = before.is_none_or(|before| {
                    cell.state == state(before, cell.token, p as u32, cell.mode)
                });
                if !sound || cell.position as usize != p {
                    self.violation_of(slot, || {
                        format!("group {g}, slot {slot}: position {p} of {position} is {cell:?}")
                    });
                }
                before = Some(cell.state);
                hash = mix(hash, cell.state);
            }
        }
        if let Some(&state) = self.states[slot].get(position as usize) {
            hash = mix(hash, state);
        }
        let broken = self.fake.nan_from.is_some_and(|from| position >= from);
        (0..self.plan.output_width() as u64)
            .map(|token| match broken {
                true => f32::NAN,
                // about as far apart as those of a model: 0 to 16
                false => (mix(hash, token) >> 40) as f32 / (1 << 20) as f32,
            })
            .collect()
    }

    fn sample(&mut self, rows: &[Row], sample: &OwnSample, n: u32) {
        let row = rows[sample.row];
        let (slot, position) = (row.slot as usize, row.position + n);
        let pending = sample.pending + n as usize;
        let mut history = sample.recent.clone();
        if sample.penalties.is_some() {
            let first = (position as usize + 1).saturating_sub(pending);
            let ring = &self.ring[slot];
            history.extend((first..=position as usize).map(|p| ring[p % RECENT]));
        }
        let draw = Draw {
            params: sample.params,
            seed: sample.seed,
            index: sample.index + u64::from(n),
            penalties: sample.penalties,
            bias: &sample.bias,
            mask: sample.mask.as_deref(),
            log_probs: sample.log_probs,
        };
        let logits = self.logits_of(slot, position);
        let sampled = Sampler::new().sample(&logits, self.limits.tokens, &draw, &history);
        self.ring[slot][(position as usize + 1) % RECENT] = sampled.token.unwrap_or(0);
        self.results.samples.push(sampled);
    }

    /// Checks what [`Pass::check`] does not: rows of a slot in order and next to each other.
    fn check_rows(&self, pass: &Pass<'_>) {
        for (i, pair) in pass.rows.windows(2).enumerate() {
            if pair[0].slot == pair[1].slot && pair[0].position + 1 != pair[1].position {
                self.violation(format!("rows {i} and {} of a slot are not in order", i + 1));
            }
        }
        let mut slots: Vec<u32> = pass.rows.iter().map(|row| row.slot).collect();
        slots.dedup();
        let runs = slots.len();
        slots.sort_unstable();
        slots.dedup();
        if slots.len() != runs {
            self.violation("the rows of a slot are not next to each other".to_owned());
        }
    }
}

impl Executable for FakeExecutable {
    fn pipeline(&self) -> Pipeline {
        self.fake.pipeline
    }

    fn shared(&self) -> Option<Shared> {
        self.fake.has_partners.then(|| Arc::new(self.own.clone()) as Shared)
    }

    fn pair(&mut self, partner: Shared) -> bool {
        self.partner = partner.downcast_ref().cloned();
        self.partner.is_some()
    }

    fn submit(&mut self, pass: &Pass<'_>) -> Result<Ticket, Error> {
        let failure = {
            let mut log = self.fake.log();
            let number = log.submitted;
            log.submitted += 1;
            log.failures.remove(&number)
        };
        if matches!(failure, Some(Failure::Submit | Failure::SubmitPanic)) && self.behind() > 0 {
            // passes behind it were queued before other parts
            for row in pass.rows {
                let slot = row.slot as usize;
                self.spoiled[slot] = self.next + self.behind();
                self.failures[slot] = self.fake.failures_of(slot, true);
            }
        }
        match failure {
            Some(Failure::Submit) => return Err(Error::Pass("a failure of the test".to_owned())),
            Some(Failure::SubmitPanic) => panic!("a panic of the test"),
            _ => {}
        }
        if self.queue.len() >= self.fake.pipeline.depth {
            return Err(Error::Pass(format!("{} passes are not taken", self.queue.len())));
        }
        for edit in pass.tables {
            self.ahead.apply(edit)?;
        }
        let before = std::mem::take(&mut self.rows_before);
        let partner = self.partner.as_ref().map(|partner| partner.lock().rows);
        let checked = pass
            .check(&self.plan, &self.limits, &self.ahead)
            .and_then(|()| pass.check_other(before, partner));
        if let Err(error) = checked {
            self.violation(error.to_string());
            return Err(error);
        }
        self.check_rows(pass);
        if pass.draws_later() {
            return Err(Error::Pass("the fake has no late draws".to_owned()));
        }
        self.rows_before = pass.rows.len();
        let ticket = Ticket(self.next);
        self.next += 1;
        let edit = |edit: &TableEdit<'_>| (edit.group, edit.slot, edit.first, edit.pages.to_vec());
        let mut queued = Queued {
            ticket,
            phase: pass.phase,
            rows: pass.rows.to_vec(),
            edits: pass.tables.iter().map(edit).collect(),
            wants: pass.wants.iter().map(OwnWant::of).collect(),
            repeat: pass.repeat,
            efforts: pass.efforts.to_vec(),
            hidden: OwnHidden::of(pass),
            keeps_hidden: pass.keeps_hidden,
            failure,
            results: None,
        };
        if self.partner.is_some() {
            self.run(&queued);
            queued.results = Some(std::mem::take(&mut self.results));
        }
        self.queue.push_back(queued);
        let mut log = self.fake.log();
        log.deepest = log.deepest.max(self.queue.len());
        log.passes.push(PassRecord {
            phase: pass.phase,
            rows: pass.rows.to_vec(),
            repeat: pass.repeat,
            samples: pass.samples(),
            results: pass.logits(),
            edited: pass.tables.iter().map(|edit| edit.pages.len()).sum(),
            in_flight: self.queue.len(),
        });
        Ok(ticket)
    }

    fn take(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let Some(mut queued) = self.queue.pop_front_if(|queued| queued.ticket == ticket) else {
            self.violation(format!("{ticket:?} is not the oldest"));
            return Err(Error::Pass(format!("{ticket:?} is not the oldest")));
        };
        let rows = queued.rows.len() as u32 * queued.repeat;
        let time = self.fake.time_per_pass * queued.repeat + self.fake.time_per_row * rows;
        if !time.is_zero() {
            std::thread::sleep(time);
        }
        match queued.results.take() {
            Some(results) => self.results = results,
            None => self.run(&queued),
        }
        if queued.failure.is_some() {
            self.spoil(&queued);
        }
        match queued.failure {
            Some(Failure::Take) => Err(Error::Pass("a failure of the test".to_owned())),
            Some(Failure::TakePanic) => panic!("a panic of the test"),
            _ => Ok(self.results.outputs()),
        }
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) -> Result<(), Error> {
        self.cells.copy_page(group, from as usize, to as usize);
        Ok(())
    }

    fn save_states(&mut self, slot: u32, snapshot: u32) -> Result<(), Error> {
        self.limits.check_snapshot(slot, snapshot)?;
        self.copies.push_back((self.next, StateCopy::Save { slot, snapshot }));
        Ok(())
    }

    fn restore_states(&mut self, snapshot: u32, slot: u32) -> Result<(), Error> {
        self.limits.check_snapshot(slot, snapshot)?;
        self.copies.push_back((self.next, StateCopy::Restore { snapshot, slot }));
        Ok(())
    }

    fn set_adapters(&mut self, slot: u32, adapters: &[(u32, f32)]) -> Result<(), Error> {
        self.plan.adapters_of(self.limits.sequences, slot, adapters)?;
        let words = adapters.iter().map(|&(id, f)| u64::from(id) << 32 | u64::from(f.to_bits()));
        let hash = words.fold(0, |hash, word| mix(hash + 1, word));
        self.copies.push_back((self.next, StateCopy::Adapters { slot, hash }));
        Ok(())
    }
}
