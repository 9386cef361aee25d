//! Recording of passes, and passes again by dispatches after a spin of a persistent kernel ran out.

use std::{collections::HashSet, sync::atomic::Ordering};

use pelton_graph::{Error, Hidden, Pass, Phase};

use super::{
    GpuExecutable,
    host::Host,
    partner::Copies,
    redo::{Given, RING, Run},
    shape::{PassShape, PassWords},
};
use crate::{
    persist::{PassRows, PersistentPass},
    run::in_flight::{DEPTH, Recorded},
};

impl GpuExecutable {
    /// The persistent kernels of a pass, if it has some: of a decoding pass of one row that is alone, or of
    /// a few of one slot.
    pub(super) fn kernels_of(&self, shape: &PassShape) -> Option<&PersistentPass> {
        let few = shape.phase == Phase::Decode && shape.rows > 1 && shape.slots == 1;
        let rows = PassRows { count: shape.rows, below: shape.below[0] };
        self.persistent.as_ref().filter(|_| shape.alone || few).and_then(|all| all.of(rows))
    }

    /// Whether a pass begins with hidden states of another one, of this executable or of its partner.
    pub(super) fn finds_states(&self, pass: &Pass<'_>) -> bool {
        !matches!(pass.hidden, Hidden::Given(_)) && !self.plan.given(pass.phase).is_empty()
    }

    /// Records the steps of one pass from the first one on that did not run yet, by persistent kernels if it `persists`.
    pub(super) fn record(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        shape: &PassShape,
        (first, persists): (usize, bool),
    ) {
        match self.kernels_of(shape) {
            Some(kernels) if persists && kernels.covers(shape.bound) => {
                let step = |i: usize| self.dispatches(shape, i..i + 1).next();
                kernels.record(pass, shape.bound, step);
            }
            _ => {
                let steps = first..self.plan.steps.len();
                self.dispatches(shape, steps).for_each(|step| step.record(pass));
            }
        }
    }

    /// Records copies of the logits of some of the selected rows; returns their bytes.
    fn copy_logits(&self, encoder: &mut wgpu::CommandEncoder, wanted: &[usize]) -> u64 {
        let row_bytes = 4 * self.plan.output_width() as u64;
        let mut bytes = 0;
        for &at in wanted {
            let logits = &self.buffers[self.plan.logits.0];
            let to = self.in_flight.logits();
            encoder.copy_buffer_to_buffer(logits, at as u64 * row_bytes, to, bytes, row_bytes);
            bytes += row_bytes;
        }
        bytes
    }

    /// The inputs of a pass, if it or one before it may have to run again.
    pub(super) fn given(&mut self, run: &Run, words: PassWords, hidden: &[f32]) -> Option<Given> {
        if !run.persists && !run.waits && self.redo.given.iter().all(Option::is_none) {
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
        let copy = self.redo.next;
        self.redo.next = (copy + 1) % DEPTH;
        let (run, hidden, draws) = (run.clone(), hidden.to_vec(), self.sample.written());
        Some(Given { run, words, hidden, draws, slots, pages, copy })
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
                let (from, to) = (&self.inputs.recent, &self.redo.copies[given.copy]);
                copy_ring(encoder, slot, (from, to));
            }
            self.copy_kept_states(encoder, given, |entry, kept| (entry, kept));
        }
        self.copy_tokens(encoder, copies);
    }

    /// Records copies between the entry of a pass and the kept values that it began with, in the direction
    /// that `of` chooses.
    fn copy_kept_states<'a>(
        &'a self,
        encoder: &mut wgpu::CommandEncoder,
        given: &Given,
        of: impl Fn(&'a wgpu::Buffer, &'a wgpu::Buffer) -> (&'a wgpu::Buffer, &'a wgpu::Buffer),
    ) {
        let kept = self.redo.states.get(given.copy).filter(|_| given.run.finds_states);
        for (&id, kept) in self.plan.entry.iter().zip(kept) {
            let bytes = 4 * given.run.shape.rows * self.plan.buffer(id).width;
            let (from, to) = of(&self.buffers[id.0], kept);
            encoder.copy_buffer_to_buffer(from, 0, to, 0, bytes as u64);
        }
    }

    /// Records a pass that begins with the values in its buffers.
    pub(super) fn recorded(&self, run: &Run, mut encoder: wgpu::CommandEncoder) -> Recorded {
        let mut shape = run.shape.clone();
        let mut logits_bytes = 0;
        let mut compute = encoder.begin_compute_pass(&Default::default());
        for _ in 0..run.repeat {
            self.record(&mut compute, &shape, (run.first, run.persists));
            shape.bound += 1;
            if !run.logits.is_empty() {
                // before biases and penalties change them
                drop(compute);
                logits_bytes = self.copy_logits(&mut encoder, &run.logits);
                compute = encoder.begin_compute_pass(&Default::default());
            }
            self.sample.record(&mut compute, &run.call);
        }
        drop(compute);
        self.results(run, encoder, logits_bytes)
    }

    /// The results of a pass, whose copies come after what is recorded.
    pub(super) fn results(
        &self,
        run: &Run,
        encoder: wgpu::CommandEncoder,
        logits_bytes: u64,
    ) -> Recorded {
        let samples =
            (self.sample.results().clone(), self.sample.result_bytes(&run.call, run.repeat));
        let kernels = self.kernels_of(&run.shape).filter(|_| run.persists);
        let late = self.host.as_ref().filter(|_| run.waits).and_then(Host::late);
        let dead = kernels.map(PersistentPass::dead).or(late.map(|late| (late.clone(), 0)));
        self.device.persisted.fetch_add(u64::from(dead.is_some()), Ordering::Relaxed);
        let kept = self.plan.kept(run.shape.phase).iter().filter(|_| run.keeps_hidden);
        let hidden = kept.map(|&id| {
            let bytes = 4 * run.shape.rows * self.plan.buffer(id).width;
            (self.buffers[id.0].clone(), bytes as u64)
        });
        let hidden = hidden.collect();
        let drafted = self.drafted(&run.copies);
        Recorded { first: Vec::new(), encoder, samples, drafted, logits_bytes, hidden, dead }
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
            self.redo.given.iter_mut().for_each(|given| *given = None);
        }
        self.own.settle(self.in_flight.is_settled());
        Ok(())
    }

    fn run_again(&mut self) -> Result<(), Error> {
        self.persistent = None;
        if let Some(host) = &mut self.host {
            host.wait_no_more();
        }
        self.device.wait()?;
        let mut restored = HashSet::new();
        for index in 0..self.in_flight.len() {
            // every pass after a persistent one is kept
            let Some(given) = self.redo.given.get_mut(index).and_then(Option::take) else {
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
                let (from, to) = (&self.redo.copies[given.copy], &self.inputs.recent);
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
                self.redo.count += 1;
            }
        }
        self.own.settle(true);
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
        let Given { words: PassWords { rows, tiles, lives }, run, .. } = given;
        let selected = &run.shape.selected;
        let counts = [rows.len() as u32, selected.len() as u32];
        queue.write_buffer(&inputs.pass, 0, bytemuck::cast_slice(&counts));
        queue.write_buffer(&inputs.rows, 0, bytemuck::cast_slice(rows));
        queue.write_buffer(&inputs.selected, 0, bytemuck::cast_slice(selected));
        queue.write_buffer(&inputs.tiles, 0, bytemuck::cast_slice(tiles));
        queue.write_buffer(&inputs.lives, 0, bytemuck::cast_slice(lives));
        self.write_hidden(run.shape.phase, rows.len(), &given.hidden);
    }

    /// Writes the values that go into the first step, where the pass before has left its own. Values of another
    /// pass are copied instead, and `hidden` is empty.
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
