//! Recording of passes: of one that is submitted, and of the next one before it comes.

use std::sync::atomic::Ordering;

use pelton_graph::{Hidden, Pass, Phase};

use super::{
    GpuExecutable,
    guess::{Call, Guess},
    host::Host,
    repeat_data::Run,
    shape::PassShape,
};
use crate::{
    persist::{PassRows, PersistentPass},
    run::in_flight::Recorded,
};

impl GpuExecutable {
    /// The persistent kernels of a pass, if it has some: of a decoding pass of one row that is
    /// alone, or of a few of one slot.
    pub(super) fn kernels_of(&self, shape: &PassShape) -> Option<&PersistentPass> {
        let few = shape.phase == Phase::Decode && shape.rows > 1 && shape.slots == 1;
        let rows = PassRows { count: shape.rows, below: shape.below[0] };
        self.steps.persistent.as_ref().filter(|_| shape.alone || few).and_then(|all| all.of(rows))
    }

    /// Whether a pass begins with hidden states of another one, of this executable or of its
    /// partner.
    pub(super) fn finds_states(&self, pass: &Pass<'_>) -> bool {
        !matches!(pass.hidden, Hidden::Given(_)) && !self.plan.given(pass.phase).is_empty()
    }

    /// Records the steps of one pass from the first one on that did not run yet, by persistent
    /// kernels if it `persists`.
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

    /// Whether commands of a pass can be recorded before it comes: those of a part, as no other
    /// device waits for a whole model, and those that wait for the host.
    fn can_guess(&self, run: &Run) -> bool {
        let is_part = self.host.is_none() && self.in_flight.hurries();
        (is_part || run.waits)
            && run.shape.phase == Phase::Decode
            && run.repeat == 1
            && run.logits.is_empty()
    }

    /// The guess of a pass that has come, if it was one.
    pub(super) fn guessed(&mut self, run: &Run) -> Option<Guess> {
        match self.can_guess(run) {
            true => self.guesses.take(&run.shape, Call::Sample(run.call), run.persists),
            false => None,
        }
    }

    /// Records a pass after commands that it begins with. Its own may have been recorded before.
    pub(super) fn recorded_of(
        &self,
        run: &Run,
        mut encoder: wgpu::CommandEncoder,
        guess: Option<&mut Guess>,
    ) -> Recorded {
        let commands = guess.and_then(|guess| guess.commands.take());
        if commands.is_none() && !run.waits {
            return self.recorded(run, encoder);
        }
        let after = self.device.device.create_command_encoder(&Default::default());
        let before = std::mem::replace(&mut encoder, after).finish();
        let (commands, rest) = match commands {
            Some(commands) => (commands, self.results(run, encoder, 0)),
            None => (self.record_waits(&run.shape), self.recorded(run, encoder)),
        };
        Recorded { first: [before].into_iter().chain(commands).collect(), ..rest }
    }

    /// The commands of the pass after one that was submitted, if that one was guessed too.
    pub(super) fn recorded_next(
        &self,
        run: &Run,
        was_guessed: bool,
    ) -> Option<Vec<wgpu::CommandBuffer>> {
        if !was_guessed || !self.can_guess(run) {
            return None;
        }
        let shape = run.shape.next();
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let mut compute = encoder.begin_compute_pass(&Default::default());
        self.record(&mut compute, &shape, (run.first, self.next_persists(run)));
        self.sample.record(&mut compute, &run.call);
        drop(compute);
        Some(vec![encoder.finish()])
    }

    fn next_persists(&self, run: &Run) -> bool {
        let shape = run.shape.next();
        run.persists && self.kernels_of(&shape).is_some_and(|kernels| kernels.covers(shape.bound))
    }

    /// Guesses the pass after one that was submitted, and keeps its commands if they are recorded.
    pub(super) fn guess(&mut self, run: &Run, commands: Option<Vec<wgpu::CommandBuffer>>) {
        if !self.can_guess(run) {
            return;
        }
        let (shape, persists) = (run.shape.next(), self.next_persists(run));
        self.guesses.push(Guess { shape, call: Call::Sample(run.call), persists, commands });
    }
}
