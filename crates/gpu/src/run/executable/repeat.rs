//! Passes in flight run again by dispatches, after a spin of a persistent kernel ran out, or of one
//! that waits for the host.
//!
//! The results of such a pass are not to be used, and those of the passes submitted after it may
//! depend on them. So the inputs of each are kept: the pages of its slots, the words of its rows
//! and of its draws, and a copy of the sampled tokens of its slots before it. A pass that begins
//! with hidden states of another one has a copy of these too. A repeated pass writes to the same
//! places of the KV caches again.

use std::collections::HashSet;

use pelton_graph::{Error, Pass, Phase};

use super::{
    GpuExecutable,
    host::Host,
    partner::Copies,
    repeat_data::{Given, RING, Run},
    shape::PassWords,
};
use crate::run::in_flight::{DEPTH, Recorded};

impl GpuExecutable {
    /// The inputs of a pass, if it or one before it may have to run again.
    pub(super) fn given(&mut self, run: &Run, words: PassWords, pass: &Pass<'_>) -> Option<Given> {
        if !run.persists && !run.waits && self.repeat.given.iter().all(Option::is_none) {
            return None;
        }
        let mut slots: Vec<u32> = words.rows.iter().map(|row| row[2]).collect();
        slots.sort_unstable();
        slots.dedup();
        let pages = |group| {
            let pages = slots.iter().map(|&slot| self.tables.table(group, slot as usize).to_vec());
            pages.collect()
        };
        let pages = (0..self.plan.groups.len()).map(pages).collect();
        let copy = self.repeat.next;
        self.repeat.next = (copy + 1) % DEPTH;
        let (run, draws) = (run.clone(), self.sample.written());
        let (hidden, embeddings) = (pass.hidden.given().to_vec(), pass.embeddings.to_vec());
        Some(Given { run, words, hidden, embeddings, draws, slots, pages, copy })
    }

    /// Records copies of the values of other passes that a pass begins with, and copies for its
    /// repetition.
    pub(super) fn find(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        copies: &Copies,
        given: Option<&Given>,
    ) {
        self.copy_states(encoder, copies);
        if let Some(given) = given {
            for &slot in &given.slots {
                let (from, to) = (&self.inputs.recent, &self.repeat.copies[given.copy]);
                copy_ring(encoder, slot, (from, to));
            }
            self.copy_kept_states(encoder, given, |entry, kept| (entry, kept));
        }
        self.copy_tokens(encoder, copies);
    }

    /// Records copies between the entry of a pass and the kept values that it began with, in the
    /// direction that `of` chooses.
    fn copy_kept_states<'a>(
        &'a self,
        encoder: &mut wgpu::CommandEncoder,
        given: &Given,
        of: impl Fn(&'a wgpu::Buffer, &'a wgpu::Buffer) -> (&'a wgpu::Buffer, &'a wgpu::Buffer),
    ) {
        let kept = self.repeat.states.get(given.copy).filter(|_| given.run.finds_states);
        for (&id, kept) in self.plan.entry.iter().zip(kept) {
            let bytes = 4 * given.run.shape.rows * self.plan.buffer(id).width;
            let (from, to) = of(&self.buffers[id.0], kept);
            encoder.copy_buffer_to_buffer(from, 0, to, 0, bytes as u64);
        }
    }

    /// Waits for the persistent passes up to a ticket, or for all of them. If a spin of one ran
    /// out, all passes in flight run again, by dispatches, as do all later ones.
    pub(super) fn settle(&mut self, ticket: Option<pelton_graph::Ticket>) -> Result<(), Error> {
        let died = self.in_flight.died(&self.device, ticket)?;
        let missed = self.host.as_mut().is_some_and(Host::has_missed);
        if died || missed {
            return self.run_again();
        }
        if ticket.is_none() {
            self.repeat.given.iter_mut().for_each(|given| *given = None);
        }
        self.pair.own.settle(self.in_flight.is_settled());
        Ok(())
    }

    fn run_again(&mut self) -> Result<(), Error> {
        self.steps.persistent = None;
        if let Some(host) = &mut self.host {
            host.wait_no_more();
        }
        self.device.wait()?;
        let mut restored = HashSet::new();
        for index in 0..self.in_flight.len() {
            // every pass after a persistent one is kept
            let Some(given) = self.repeat.given.get_mut(index).and_then(Option::take) else {
                continue;
            };
            self.write_pages(&given);
            self.write(&given);
            let [params, state] = &given.draws;
            self.sample.write(&self.device, [params, state]);
            let mut encoder = self.device.device.create_command_encoder(&Default::default());
            // the hidden states of a pass that runs again are right only then
            let follows = !restored.is_empty() && given.run.copies.partner.is_empty();
            for &slot in given.slots.iter().filter(|slot| restored.insert(**slot)) {
                let (from, to) = (&self.repeat.copies[given.copy], &self.inputs.recent);
                copy_ring(&mut encoder, slot, (from, to));
            }
            match follows {
                true => self.copy_states(&mut encoder, &given.run.copies),
                false => self.copy_kept_states(&mut encoder, &given, |entry, kept| (kept, entry)),
            }
            self.copy_tokens(&mut encoder, &given.run.copies);
            let recorded = match given.run.waits {
                true => {
                    self.device.queue.submit([encoder.finish()]);
                    self.recorded_after_host(&given.run)?
                }
                false => self.recorded(&given.run, encoder),
            };
            self.in_flight.submit_again(&self.device, index, recorded)?;
            self.release_host()?;
            #[cfg(test)]
            {
                self.repeat.count += 1;
            }
        }
        self.pair.own.settle(true);
        // the tables of passes to come
        for group in 0..self.plan.groups.len() {
            for slot in 0..self.limits.sequences {
                let pages = self.tables.table(group, slot);
                self.inputs.write_table(&self.device, group, slot, 0, pages);
            }
        }
        Ok(())
    }

    /// Runs the parts of the host of a pass, and records the steps after them.
    fn recorded_after_host(&mut self, run: &Run) -> Result<Recorded, Error> {
        self.run_host(&run.shape)?;
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        self.enter_last(&mut encoder, &run.shape);
        let mut recorded = self.recorded(&Run { waits: false, ..run.clone() }, encoder);
        recorded.finish(&self.device);
        self.finish_host()?;
        Ok(recorded)
    }

    /// Writes the inputs of a pass. Buffers then hold what `written` says of the newest pass.
    ///
    /// The order of rows by sequence and adapters are not among them:
    /// [`persist::choose`](crate::persist::choose) refuses every plan that reads one of these.
    fn write(&self, given: &Given) {
        let (queue, inputs) = (&self.device.queue, &self.inputs);
        let Given { words: PassWords { rows, places, tiles, lives }, run, .. } = given;
        let selected = &run.shape.selected;
        let counts = [rows.len() as u32, selected.len() as u32];
        queue.write_buffer(&inputs.pass, 0, bytemuck::cast_slice(&counts));
        queue.write_buffer(&inputs.rows, 0, bytemuck::cast_slice(rows));
        queue.write_buffer(&inputs.row_places, 0, bytemuck::cast_slice(places));
        queue.write_buffer(&inputs.selected, 0, bytemuck::cast_slice(selected));
        queue.write_buffer(&inputs.tiles, 0, bytemuck::cast_slice(tiles));
        queue.write_buffer(&inputs.lives, 0, bytemuck::cast_slice(lives));
        self.write_hidden(run.shape.phase, rows.len(), &given.hidden);
        self.write_embeddings(&given.embeddings);
    }

    /// Writes the embeddings of rows without a token.
    pub(super) fn write_embeddings(&self, embeddings: &[f32]) {
        if !embeddings.is_empty() {
            let bytes = bytemuck::cast_slice(embeddings);
            self.device.queue.write_buffer(&self.inputs.embeddings, 0, bytes);
        }
    }

    /// Writes the values that go into the first step, where the pass before has left its own.
    /// Values of another pass are copied instead, and `hidden` is empty.
    pub(super) fn write_hidden(&self, phase: Phase, rows: usize, hidden: &[f32]) {
        let mut rest = hidden;
        for &given in self.plan.given(phase).iter().filter(|_| !hidden.is_empty()) {
            let (own, others) = rest.split_at(rows * self.plan.buffer(given).width);
            let buffer = &self.buffers[given.0];
            self.device.queue.write_buffer(buffer, 0, bytemuck::cast_slice(own));
            rest = others;
        }
    }

    fn write_pages(&self, given: &Given) {
        for (group, pages) in given.pages.iter().enumerate() {
            for (&slot, pages) in given.slots.iter().zip(pages) {
                self.inputs.write_table(&self.device, group, slot as usize, 0, pages);
            }
        }
    }
}

/// Records a copy of the sampled tokens of a slot from one ring to another.
fn copy_ring(
    encoder: &mut wgpu::CommandEncoder,
    slot: u32,
    (from, to): (&wgpu::Buffer, &wgpu::Buffer),
) {
    let at = u64::from(slot) * RING;
    encoder.copy_buffer_to_buffer(from, at, to, at, RING);
}
