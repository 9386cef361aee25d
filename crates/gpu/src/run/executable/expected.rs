//! Decoding passes of a part of a model, or of one with parts of the host, recorded while the GPU runs a pass before.
//!
//! The next pass of a stream waits for the results of another device, so that its recording would delay all of them. Its
//! commands depend on its shape alone, mostly that of the stream's pass before, one position later. Those of a part are
//! recorded if that one was expected too, and those next to the host while it waits for the GPU. Values are written when
//! they are known; commands of another shape are dropped.

use pelton_graph::Phase;

use super::{GpuExecutable, redo::Run, shape::ExpectedPass};
use crate::run::in_flight::Recorded;

/// Passes that are expected at most: one of each of several streams in turn.
const MOST: usize = 4;

impl GpuExecutable {
    /// Whether commands of a pass can be recorded before it comes: those of a part, as no other device waits for a whole
    /// model, and those that wait for the host.
    fn can_expect(&self, run: &Run) -> bool {
        let is_part = self.host.is_none() && self.in_flight.hurries();
        (is_part || run.waits)
            && run.shape.phase == Phase::Decode
            && run.repeat == 1
            && run.logits.is_empty()
    }

    /// The expected pass that has come, if it was one.
    pub(super) fn came(&mut self, run: &Run) -> Option<ExpectedPass> {
        let at = self.expected.iter().position(|expected| {
            let ExpectedPass { shape, call, persists, .. } = expected;
            (shape, call, *persists) == (&run.shape, &run.call, run.persists)
        });
        self.expected.remove(at.filter(|_| self.can_expect(run))?)
    }

    /// Records a pass after commands that it begins with. Its own may have been recorded before.
    pub(super) fn recorded_of(
        &self,
        run: &Run,
        mut encoder: wgpu::CommandEncoder,
        came: Option<&mut ExpectedPass>,
    ) -> Recorded {
        let commands = came.and_then(|came| came.commands.take());
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

    /// The commands of the pass after one that was submitted, if that one came as expected.
    pub(super) fn recorded_next(&self, run: &Run, came: bool) -> Option<Vec<wgpu::CommandBuffer>> {
        if !came || !self.can_expect(run) {
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

    /// Expects the pass after one that was submitted, and keeps its commands if they are recorded.
    pub(super) fn expect(&mut self, run: &Run, commands: Option<Vec<wgpu::CommandBuffer>>) {
        if !self.can_expect(run) {
            return;
        }
        let (shape, persists) = (run.shape.next(), self.next_persists(run));
        if self.expected.len() == MOST {
            self.expected.pop_front();
        }
        self.expected.push_back(ExpectedPass { shape, call: run.call, persists, commands });
    }
}
