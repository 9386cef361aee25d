//! The profile of a plan, and of the parts that the host has.

use std::time::{Duration, Instant};

use pelton_graph::{Error, Pass, Phase, Profile};

use super::{GpuExecutable, host::Spent, shape::PassShape};
use crate::{lower::dispatch::StepDispatches, run::profile};

impl GpuExecutable {
    pub(super) fn profile_pass(
        &mut self,
        pass: &Pass<'_>,
        passes: usize,
    ) -> Result<Profile, Error> {
        if !self.in_flight.is_empty() {
            return Err(Error::Pass("a pass is not taken, expected none".to_owned()));
        }
        let (shape, _) = self.begin(pass)?;
        let of_host = |i: usize| self.plan.host.iter().any(|part| part.steps.contains(&i));
        let decodes = shape.phase == Phase::Decode;
        let steps = self.dispatches(&shape, 0..self.plan.steps.len()).enumerate();
        let steps = steps.map(|(i, step)| match decodes && of_host(i) {
            true => StepDispatches { calls: &[], ..step },
            false => step,
        });
        let steps: Vec<StepDispatches<'_>> = steps.collect();
        let mut profile = profile::measure(&self.device, &self.plan, &steps, passes)?;
        for part in &mut profile.parts {
            for (measured, step) in part.steps.iter_mut().zip(&self.plan.steps) {
                measured.live = self.plan.live_share(step, pass.efforts);
            }
        }
        if self.host.is_some() {
            self.profile_host(&shape, passes.max(1), &mut profile)?;
        }
        Ok(profile)
    }

    /// Replaces the time of a pass by that of whole passes with the host, and adds the
    /// parts that it computes.
    fn profile_host(
        &mut self,
        shape: &PassShape,
        passes: usize,
        profile: &mut Profile,
    ) -> Result<(), Error> {
        // the first two wake the threads, and record a pass
        let mut ahead = None;
        self.run_with_host(shape, &mut ahead)?;
        self.run_with_host(shape, &mut ahead)?;
        let (mut whole, mut spent) = (Duration::ZERO, Spent::default());
        for _ in 0..passes {
            let begun = Instant::now();
            spent.add(self.run_with_host(shape, &mut ahead)?);
            whole += begun.elapsed();
        }
        let count = u32::try_from(passes).unwrap_or(u32::MAX);
        (profile.pass, profile.ways) = (whole / count, spent.ways.mean(count));
        if let Some(part) = profile.parts.first_mut() {
            part.recording = spent.recording / count;
        }
        if let (Phase::Decode, Some(host)) = (shape.phase, &mut self.host) {
            profile.parts.extend(host.profile(&self.plan, shape.rows, passes)?);
        }
        Ok(())
    }

    /// Runs the steps of a pass and waits for their end. Returns where the CPU's time
    /// went. Commands `ahead` are those of a pass that waits for the host, recorded
    /// during the one before.
    fn run_with_host(
        &mut self,
        shape: &PassShape,
        ahead: &mut Option<Vec<wgpu::CommandBuffer>>,
    ) -> Result<Spent, Error> {
        if self.waits(shape) {
            return self.run_with_waits(shape, ahead);
        }
        let first = self.run_host(shape)?;
        let begun = Instant::now();
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        self.enter_last(&mut encoder, shape);
        self.record_steps(&mut encoder, shape, first..self.plan.steps.len());
        let commands = encoder.finish();
        let recording = begun.elapsed();
        self.finish_host()?;
        let begun = Instant::now();
        self.device.queue.submit([commands]);
        self.release_host()?;
        let submitted = begun.elapsed();
        self.device.wait()?;
        let mut spent = self.host.as_ref().map(|host| host.spent).unwrap_or_default();
        spent.recording += recording;
        spent.ways.hop += submitted;
        spent.ways.wait += begun.elapsed() - submitted;
        Ok(spent)
    }

    fn run_with_waits(
        &mut self,
        shape: &PassShape,
        ahead: &mut Option<Vec<wgpu::CommandBuffer>>,
    ) -> Result<Spent, Error> {
        let commands = ahead.take().unwrap_or_else(|| self.record_pass(shape));
        let begun = Instant::now();
        let submission = self.device.submission(self.device.queue.submit(commands));
        let submitted = begun.elapsed();
        *ahead = Some(self.compute_waits([shape; 2], &submission, None)?);
        let begun = Instant::now();
        self.device.wait()?;
        let mut spent = self.host.as_ref().map(|host| host.spent).unwrap_or_default();
        spent.ways.hop += submitted;
        spent.ways.wait += begun.elapsed();
        Ok(spent)
    }
}
