//! Drafts of the model itself at a low effort.
//!
//! The rows of drafts run in the sequence's own pages, from its newest token on. The pass that
//! verifies them runs the same positions at the effort of the request, and writes their keys and
//! values again, so that nothing of the low effort is left.

use std::collections::BTreeMap;

use pelton_graph::{Effort, Pass, Phase, Row, TableEdit, Want};

use super::{
    goal::Goal, resources::Resources, scheduler::Scheduler, sequence::Sequence, speculate::Ask,
};
use crate::Error;

impl Sequence {
    /// Whether the next `count` tokens can be drafted at an effort: its newest token alone is to be
    /// run, and at a higher effort.
    fn drafts_itself(&self, effort: Effort, count: usize, context: usize) -> bool {
        let newest = self.appended() == 1 && self.ahead == 0 && !self.verifying;
        let fits = self.tokens.len() + count <= context;
        newest && fits && self.slot.is_some() && self.effort > effort
    }
}

impl Scheduler {
    /// Drafts the next `count` tokens of sequences at an effort below theirs. Those that cannot have
    /// drafts now are missing.
    ///
    /// # Errors
    ///
    /// If the pass fails.
    pub(super) fn own_drafts(
        &mut self,
        ids: &[u64],
        count: usize,
        effort: Effort,
    ) -> Result<BTreeMap<u64, Vec<u32>>, Error> {
        let Self { resources, sequences, flights, .. } = self;
        let Resources { runner, kv, limits, plan, loras: _ } = resources;
        // the results of a pass are taken in order
        if !flights.is_empty() || count == 0 {
            return Ok(BTreeMap::new());
        }
        let most = limits.rows.min(limits.wants).min(runner.pipeline.exact_rows);
        let can = |id: &&u64| {
            sequences.get(id).is_some_and(|s| s.drafts_itself(effort, count, limits.context))
        };
        let ids: Vec<u64> = ids.iter().filter(can).take(most).copied().collect();
        let reach = ids.iter().filter_map(|id| sequences.get(id));
        let reach = reach.map(|sequence| (&sequence.pages, sequence.tokens.len() + count));
        if ids.is_empty() || !kv.can_grow(reach) {
            return Ok(BTreeMap::new());
        }
        for id in &ids {
            if let Some(sequence) = sequences.get_mut(id) {
                let end = sequence.tokens.len() + count;
                let grown = kv.grow(&mut sequence.pages, end);
                grown.map_err(|_| Error::CacheFull { needed: end, available: limits.context })?;
            }
        }
        let mut rows: Vec<Row> = Vec::new();
        let mut wants: Vec<Want<'_>> = Vec::new();
        let mut tables: Vec<TableEdit<'_>> = Vec::new();
        let mut drafting = Vec::new();
        for &id in &ids {
            let Some(sequence) = sequences.get(&id) else { continue };
            let (Goal::Text { draw, .. }, Some(slot)) = (&sequence.goal, sequence.slot) else {
                continue;
            };
            let (tokens, prompt) = (&sequence.tokens[..], sequence.prompt);
            let ask = Ask { id, slot, tokens, prompt, draw };
            wants.push(Want::Sample(ask.sample(rows.len(), tokens.len() - 1, plan.vocab)));
            rows.push(sequence.row(tokens.len() - 1));
            for (group, table) in sequence.pages.tables.iter().enumerate() {
                if let Some((first, pages)) = table.unsent() {
                    let (group, first) = (group as u32, first as u32);
                    tables.push(TableEdit { group, slot, first, pages });
                }
            }
            drafting.push(id);
        }
        let efforts = vec![effort; rows.len()];
        let pass = Pass {
            tables: &tables,
            efforts: &efforts,
            repeat: count as u32,
            ..Pass::new(Phase::Decode, &rows, &wants)
        };
        let ticket = runner.submit(&pass)?;
        for id in &drafting {
            if let Some(sequence) = sequences.get_mut(id) {
                sequence.pages.mark_sent();
            }
        }
        let samples = &runner.take(ticket)?.samples;
        let each = drafting.iter().enumerate().map(|(n, &id)| {
            let column = samples.iter().skip(n).step_by(drafting.len());
            (id, column.map_while(|sampled| sampled.token).collect())
        });
        Ok(each.collect())
    }
}
