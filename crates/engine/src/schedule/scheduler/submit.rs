//! The submission of planned passes.

use pelton_graph::{Effort, Hidden, Input, Pass, Place, Row, TableEdit, Want};
use web_time::Instant;

use super::Scheduler;
use crate::{
    Error,
    schedule::{
        pass::{Entry, PlannedPass, SubmittedPass},
        requests::Requests,
        resources::Resources,
        sequence::{Pause, Sequence},
    },
};

/// The rows of a pass, with all that they need.
#[derive(Default)]
struct Rows<'a> {
    rows: Vec<Row>,
    /// Empty for texts alone.
    places: Vec<Place>,
    embeddings: Vec<f32>,
    efforts: Vec<Effort>,
    wants: Vec<Want<'a>>,
    tables: Vec<TableEdit<'a>>,
}

impl<'a> Rows<'a> {
    /// The rows of all entries, which take note of what their rows want.
    fn of(plan: &mut PlannedPass, requests: &'a Requests, reads_places: bool) -> Self {
        let Self { mut rows, mut places, mut embeddings, mut efforts, mut wants, mut tables } =
            Self::default();
        let has_pictures = |entry: &Entry| {
            requests.get(entry.id).is_some_and(|sequence| sequence.pictures().is_some())
        };
        let has_places = reads_places && plan.entries.iter().any(has_pictures);
        let mut count = 0;
        for entry in &mut plan.entries {
            let Some(sequence) = requests.get(entry.id) else { continue };
            let Some(running) = sequence.running() else { continue };
            debug_assert!(
                entry.first >= running.pages().depth * pelton_graph::PAGE,
                "a row would write to a shared page"
            );
            let (slot, end) = (running.slot(), entry.end());
            let before = wants.len();
            wants.extend(sequence.score_wants(entry.first, end, rows.len()));
            let scores = wants.len() - before;
            let wanted = sequence.wants(entry.first, end, rows.len(), entry.drafts.len());
            entry.expect(scores, &wanted);
            wants.extend(wanted);
            let known = end - entry.drafts.len();
            efforts.extend((entry.first..end).map(|position| sequence.effort_at(position)));
            if has_places {
                let place = |position| match sequence.pictures() {
                    Some(pictures) => pictures.place(position),
                    None => Place::of(position as u32),
                };
                places.extend((entry.first..end).map(place));
            }
            rows.extend((entry.first..known).map(|position| {
                let row = sequence.row(position);
                match sequence.pictures().and_then(|pictures| pictures.embedding(position)) {
                    Some(embedding) => {
                        embeddings.extend_from_slice(embedding);
                        count += 1;
                        Row { input: Input::Embedding(count - 1), ..row }
                    }
                    None => row,
                }
            }));
            let drafts = (0..).zip(&entry.drafts).map(|(i, &token)| match entry.at {
                Some(at) => Input::Drafted(at + i),
                None => Input::Token(token),
            });
            let position = |position: usize| position as u32;
            let drafts = (known..end).map(position).zip(drafts);
            rows.extend(drafts.map(|(position, input)| Row { input, position, slot }));
            for (group, table) in running.pages().tables.iter().enumerate() {
                if let Some((first, pages)) = table.unsent() {
                    let (group, first) = (group as u32, first as u32);
                    tables.push(TableEdit { group, slot, first, pages });
                }
            }
        }
        if efforts.iter().all(|one| one.is_full()) {
            efforts.clear();
        }
        Self { rows, places, embeddings, efforts, wants, tables }
    }
}

impl Scheduler {
    /// Submits a pass; if that fails, its requests fail.
    pub(super) fn submit(&mut self, mut plan: PlannedPass) {
        let at = Instant::now();
        self.submits(&plan);
        if let Err(error) = self.save_rollbacks(&plan) {
            return self.fail_pass(&plan, &error);
        }
        self.drafting.run_kept_rows(&self.requests);
        plan.leave_hidden(self.drafting.leaves_hidden(&plan, &self.requests));
        let reads_places = self.resources.reads_places;
        let Rows { rows, places, embeddings, efforts, wants, tables } =
            Rows::of(&mut plan, &self.requests, reads_places);
        let awaits_draw = wants.iter().any(|want| matches!(want, Want::Later { .. }));
        tracing::trace!(phase = ?plan.phase, rows = rows.len(), repeat = plan.repeat, "a pass");
        let pass = Pass {
            places: &places,
            embeddings: &embeddings,
            phase: plan.phase,
            rows: &rows,
            tables: &tables,
            wants: &wants,
            efforts: &efforts,
            hidden: Hidden::NONE,
            keeps_hidden: self.drafting.keeps_hidden(&plan, &self.requests),
            repeat: plan.repeat,
        };
        match self.resources.runner.submit(&pass) {
            Ok(ticket) => {
                for entry in &plan.entries {
                    let Some(sequence) = self.requests.get_mut(entry.id) else { continue };
                    let repeat = plan.repeat as usize;
                    let pause = match awaits_draw {
                        true => Some(Pause::Draw),
                        false => (!entry.drafts.is_empty()).then_some(Pause::Verification),
                    };
                    sequence.submit(entry.end() + repeat - 1, entry.samples * repeat, pause, at);
                }
                self.save_states(&plan);
                self.passes.push_back(SubmittedPass { ticket, plan, at, awaits_draw });
            }
            Err(error) => self.fail_pass(&plan, &error),
        }
    }

    /// Saves the recurrent states that the drafts of a pass may have to be rolled back to.
    fn save_rollbacks(&mut self, plan: &PlannedPass) -> Result<(), Error> {
        for entry in plan.entries.iter().filter(|entry| !entry.drafts.is_empty()) {
            if let Some(running) = self.requests.get(entry.id).and_then(Sequence::running)
                && let Some(snapshot) = running.pages().rollback
            {
                self.resources.runner.save_states(running.slot(), snapshot)?;
            }
        }
        Ok(())
    }

    /// Saves the recurrent states of the sequences of a submitted pass that end at the border of a
    /// page, as far as there are snapshots.
    fn save_states(&mut self, plan: &PlannedPass) {
        // states after drafted tokens may be rolled back
        for entry in plan.entries.iter().filter(|entry| entry.drafts.is_empty()) {
            let Resources { runner, kv, .. } = &mut self.resources;
            let Some(sequence) = self.requests.get_mut(entry.id) else { continue };
            let (prompt, is_uniform) = (sequence.prompt_rows(), sequence.is_uniform());
            if sequence.terms().salt.is_none() {
                continue;
            }
            let Some(running) = sequence.running_mut() else { continue };
            let (slot, end) = (running.slot(), running.submitted());
            // prefixes beyond the prompt are not shared
            if end > prompt && !is_uniform {
                continue;
            }
            let Some(snapshot) = kv.snapshot_at(running.pages_mut(), prompt, end) else {
                continue;
            };
            if let Err(error) = runner.save_states(slot, snapshot) {
                // the sequence goes on without it
                tracing::error!(%error, "a snapshot of recurrent states is not saved");
                kv.forget_snapshot(running.pages_mut(), snapshot);
            }
        }
    }
}
