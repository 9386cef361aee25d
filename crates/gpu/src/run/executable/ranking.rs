//! Passes whose results are rankings: the rules of speech choose tokens on the host.
//!
//! Only plans with an encoder have rankings, and such plans have no persistent kernels.

use pelton_graph::{Error, Pass, Phase, Ranking, Ticket};

use super::{
    GpuExecutable,
    guess::{Call, Guess},
    shape::PassShape,
};
use crate::{
    kernels::ranking::{RankingCall, RankingKernels},
    run::in_flight::Recorded,
};

impl GpuExecutable {
    /// Submits a pass of whose logits only a ranking is kept.
    pub(super) fn start_ranked(
        &mut self,
        pass: &Pass<'_>,
        ranking: &Ranking<'_>,
    ) -> Result<Ticket, Error> {
        self.in_flight.check_free(true)?;
        let (shape, _) = self.begin(pass)?;
        let (wants, rows) = (pass.wants.len(), shape.selected.len());
        if pass.logits() != wants || rows != wants || pass.repeat != 1 || pass.keeps_hidden {
            return Err(Error::Pass(format!(
                "a ranking of {rows} rows for {wants} results, repeated {}; expected the logits of as many rows once, and nothing else",
                pass.repeat
            )));
        }
        let call = self.ranks()?.prepare(&self.device, ranking, wants)?;
        let guess = self.guesses.take(&shape, Call::Rank(call), false);
        let commands = match guess.and_then(|guess| guess.commands) {
            Some(commands) => commands,
            None => self.ranked_commands(&shape, &call)?,
        };
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let (results, to) = (self.ranks()?.results(), self.in_flight.logits());
        encoder.copy_buffer_to_buffer(results, 0, to, 0, call.bytes());
        let recorded = Recorded {
            first: commands,
            encoder,
            samples: (self.sample.results().clone(), 0),
            drafted: Vec::new(),
            logits_bytes: call.bytes(),
            hidden: Vec::new(),
            dead: None,
        };
        let samples = self.sample.prepare(&self.device, pass);
        let ticket = self.in_flight.submit(&self.device, recorded, samples, 1)?;
        self.repeat.given.push_back(None);
        if shape.phase == Phase::Decode {
            let shape = shape.next();
            let commands = Some(self.ranked_commands(&shape, &call)?);
            self.guesses.push(Guess { shape, call: Call::Rank(call), persists: false, commands });
        }
        Ok(ticket)
    }

    fn ranks(&self) -> Result<&RankingKernels, Error> {
        self.ranks.as_ref().ok_or_else(|| {
            Error::Pass("a ranking of a plan without an encoder, expected none".to_owned())
        })
    }

    /// The commands of the steps and of the ranking of a pass.
    fn ranked_commands(
        &self,
        shape: &PassShape,
        call: &RankingCall,
    ) -> Result<Vec<wgpu::CommandBuffer>, Error> {
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let mut compute = encoder.begin_compute_pass(&Default::default());
        self.record(&mut compute, shape, (0, false));
        self.ranks()?.record(&mut compute, call);
        drop(compute);
        Ok(vec![encoder.finish()])
    }
}
