//! Decoding passes of a part of a model, recorded while the GPU runs a pass before.
//!
//! The next pass of a stream waits for the results of another device, so that its recording would delay all of them. Its
//! commands depend on its shape alone, mostly that of the stream's pass before, one position later. They are recorded if
//! that one was expected too. Values are written when they are known; commands of another shape are dropped.

use pelton_graph::Phase;

use super::{
    GpuExecutable,
    redo::Run,
    shape::{ExpectedPass, PassShape},
};
use crate::run::in_flight::Recorded;

/// Passes that are expected at most: one of each of several streams in turn.
const MOST: usize = 4;

impl GpuExecutable {
    /// Whether commands of a pass can be recorded before it comes: those of a part, as no other device waits for a whole
    /// model.
    fn can_expect(&self, run: &Run) -> bool {
        let is_part = self.host.is_none() && self.in_flight.hurries();
        is_part && run.shape.phase == Phase::Decode && run.repeat == 1 && run.logits.is_empty()
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
        let Some(commands) = came.and_then(|came| came.commands.take()) else {
            return self.recorded(run, encoder);
        };
        let after = self.device.device.create_command_encoder(&Default::default());
        let before = std::mem::replace(&mut encoder, after).finish();
        Recorded { first: vec![before, commands], ..self.results(run, encoder, 0) }
    }

    /// Expects the pass after one that was submitted, and records it if that one came as expected.
    pub(super) fn expect(&mut self, run: &Run, came: bool) {
        if !self.can_expect(run) {
            return;
        }
        let shape = PassShape { bound: run.shape.bound + 1, ..run.shape.clone() };
        let persists = run.persists
            && self.kernels_of(&shape).is_some_and(|kernels| kernels.covers(shape.bound));
        let commands = came.then(|| {
            let mut encoder = self.device.device.create_command_encoder(&Default::default());
            let mut compute = encoder.begin_compute_pass(&Default::default());
            self.record(&mut compute, &shape, (run.first, persists));
            self.sample.record(&mut compute, &run.call);
            drop(compute);
            encoder.finish()
        });
        if self.expected.len() == MOST {
            self.expected.pop_front();
        }
        self.expected.push_back(ExpectedPass { shape, call: run.call, persists, commands });
    }
}
