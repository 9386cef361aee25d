//! The choice at load between dispatches and persistent kernels: whether they complete, whether
//! their data is right, and which are faster.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use pelton_graph::{Effort, Error, pages_for};

use crate::{
    device::{Device, KernelSource},
    kernels::{matvec::Stage, template},
    lower::{
        autotune,
        dispatch::{Bound, Dispatch, StepDispatches},
        loaded::Loaded,
    },
    persist::{
        link::{Launch, Phase, link},
        segments::{BYTES, DEAD, Lowered, Persistent, alone},
    },
    weights::has_buckets,
};

/// Threads of a workgroup: those of most products, which decide the order of a norm's sum.
const THREADS: usize = 512;
/// Turns of a spin at most: 40 ms on an H200, far below any watchdog.
const TURNS: u32 = 300_000;
/// Turns of a spin while the number of workgroups is tried.
const TURNS_OF_PROBE: u32 = 20_000;
/// Maximum workgroups that are tried.
const MOST: usize = 2048;
/// Phases of the probe's kernel, and its dispatches: some 2,000 barriers.
const PHASES: usize = 16;
const DISPATCHES: usize = 133;
/// Failures of the probe after which so many workgroups are not resident.
const FAILURES: usize = 3;
/// Passes of a timed submission, and timed submissions of each kind.
const PASSES: usize = 16;
const RUNS: usize = 9;
/// Time of untimed passes before the measurement: a GPU that was idle needs some to reach its clock
/// rate.
const WARM_UP: Duration = Duration::from_millis(150);
/// A near and a far position at which passes are timed.
const POSITIONS: [usize; 2] = [128, 4096];
/// The least relative gain over dispatches: the noise of a measurement is 2 %.
const GAIN: f64 = 0.03;
/// Tokens that fill a page before logits are compared.
const FILL: u32 = 64;
/// The effort of the rows below 1 that are compared and timed.
const BELOW: f64 = 0.5;

/// When persistent kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Never.
    Off,
    /// Where they are faster, on GPUs whose kernels are timed.
    #[default]
    Faster,
    /// Always, if their logits are right, with this many workgroups and turns: for tests.
    Forced { groups: usize, turns: u32 },
}

/// A loaded plan to try persistent kernels on.
#[derive(Clone, Copy)]
pub(crate) struct Trial<'a> {
    pub(crate) loaded: &'a Loaded<'a>,
    /// The dispatches of each step of a pass of one row.
    pub(crate) alone: &'a [Vec<Dispatch>],
    /// Rows of the pass whose effort is below 1.
    pub(crate) below: usize,
    pub(crate) logits: &'a wgpu::Buffer,
    /// Positions of a sequence, for which there are pages.
    pub(crate) context: usize,
    /// The file of choices of earlier loads.
    pub(crate) tuning: Option<&'a Path>,
}

/// The persistent kernels of a plan, if they are to run: for rows of effort 1, and for rows below it. The KV caches
/// are written, as by a pass.
///
/// # Errors
///
/// If the GPU is lost. Kernels that fail are no error: then dispatches run.
pub(crate) fn choose(trial: &Trial<'_>, mode: Mode) -> Result<[Option<Persistent>; 2], Error> {
    let Loaded { device, plan, inputs, .. } = *trial.loaded;
    // the states of a model with a head are read by its pass before anybody knows of a failure
    let keeps_states = plan.exit.first().is_some_and(|&first| first != plan.logits);
    let plain = plan.states.is_empty()
        && plan.adapters().is_none()
        && !keeps_states
        && plan.encoder.is_none()
        && !plan.whole_sequences;
    if !plain || !device.coherent || mode == Mode::Off {
        return Ok([None, None]);
    }
    let full = of_rows(trial, mode)?;
    if std::env::var_os("PELTON_EFFORT_DISPATCHES").is_some() {
        return Ok([full, None]);
    }
    let effort = Effort::new(BELOW).filter(|effort| inputs.is_below(*effort));
    let Some(effort) = effort.filter(|_| plan.has_effort() && !has_buckets(plan)) else {
        return Ok([full, None]);
    };
    let words = inputs.live_words(&[effort], &[effort]);
    device.queue.write_buffer(&inputs.lives, 0, bytemuck::cast_slice(&words));
    Ok([full, of_rows(&Trial { below: 1, ..*trial }, mode)?])
}

/// The persistent kernels for the rows of a trial.
fn of_rows(trial: &Trial<'_>, mode: Mode) -> Result<Option<Persistent>, Error> {
    let device = trial.loaded.device;
    let fits = |groups, stage, early| {
        let turns = if let Mode::Forced { turns, .. } = mode { turns } else { TURNS };
        let threads = THREADS.min(device.capabilities.workgroup_threads as usize);
        trial.lowered(&Launch { threads, groups, turns, stage, early })
    };
    if let Mode::Forced { groups, turns: _ } = mode {
        return fits(groups, Stage::Long, true);
    }
    if !device.tunes || (device.capabilities.workgroup_threads as usize) < THREADS {
        return Ok(None);
    }
    let owner = autotune::owner(device);
    let key = trial.key();
    let known = trial.tuning.and_then(|file| autotune::remembered(file, &owner, &key));
    match known.map(LaunchChoice::of) {
        Some(None) => return Ok(None),
        Some(Some(LaunchChoice { groups, stage, early, most })) if groups <= MOST => {
            return Ok(fits(groups, stage, early)?.map(|persistent| persistent.up_to(most)));
        }
        _ => {}
    }
    trial.warm_up()?;
    let mut tried: Vec<(Persistent, LaunchChoice)> = Vec::new();
    let add = |groups, stage, early, tried: &mut Vec<(Persistent, LaunchChoice)>| {
        let choice = LaunchChoice { groups, stage, early, most: 0 };
        let fits = fits(groups, stage, early)?;
        tried.extend(fits.map(|persistent| (persistent, choice)));
        Ok::<(), Error>(())
    };
    let mut candidates = candidates(resident(device)?);
    // drivers take long to compile the kernels of an effort, whose products have no stages
    let others = match trial.below {
        0 => &[(Stage::Long, true), (Stage::Narrow, false), (Stage::Narrow, true)][..],
        _ => {
            candidates.truncate(1);
            &[(Stage::Long, true)]
        }
    };
    for &groups in &candidates {
        add(groups, Stage::Long, false, &mut tried)?;
    }
    let mut groups: Vec<usize> = tried.iter().map(|(_, choice)| choice.groups).collect();
    if groups.is_empty() {
        groups.extend(candidates.first());
    }
    for groups in groups {
        for &(stage, early) in others {
            add(groups, stage, early, &mut tried)?;
        }
    }
    let all = trial.times(tried.iter().map(|(persistent, _)| persistent))?;
    let best = (tried.into_iter().zip(all))
        .filter_map(|((persistent, choice), times)| {
            tracing::info!(below = trial.below, ?choice, ?times, "persistent kernels");
            let times = times.filter(|times| times.most() > 0)?;
            Some((persistent, LaunchChoice { most: times.most(), ..choice }, times.persistent[0]))
        })
        .min_by(|(.., a), (.., b)| a.total_cmp(b))
        .map(|(persistent, choice, _)| (persistent, choice));
    if let Some(file) = trial.tuning {
        let words = best.as_ref().map_or([0, 0], |(_, choice)| choice.words());
        // without the file the next load measures again
        let _ = autotune::remember(file, &owner, &key, words);
    }
    Ok(best.map(|(persistent, choice)| persistent.up_to(choice.most)))
}

/// A launch shape of persistent kernels, and the upper bound of positions at which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LaunchChoice {
    groups: usize,
    stage: Stage,
    early: bool,
    most: usize,
}

impl LaunchChoice {
    /// The choice as the file has it: four times the workgroups, plus 2 if keys are loaded early and 1
    /// for [`Stage::Narrow`], and the bound.
    fn words(self) -> [usize; 2] {
        let Self { groups, stage, early, most } = self;
        [4 * groups + 2 * usize::from(early) + usize::from(stage == Stage::Narrow), most]
    }

    /// The choice of [`words`](Self::words); `None` if dispatches run.
    fn of([launch, most]: [usize; 2]) -> Option<Self> {
        let stage = if launch % 2 == 1 { Stage::Narrow } else { Stage::Long };
        let (groups, early) = (launch / 4, launch / 2 % 2 == 1);
        (groups > 0).then_some(Self { groups, stage, early, most })
    }
}

/// The seconds of a pass at [`POSITIONS`], by dispatches and by persistent kernels.
#[derive(Clone, Copy, Debug)]
struct Times {
    positions: [usize; 2],
    dispatches: [f64; 2],
    persistent: [f64; 2],
}

impl Times {
    /// The upper bound of positions at which persistent kernels are faster, where the times of both
    /// grow in proportion to the position; 0 if they are not.
    fn most(&self) -> usize {
        /// For every position, as a number that the file can hold.
        const ALL: usize = u32::MAX as usize;
        let gain = |i: usize| self.dispatches[i] * (1.0 - GAIN) - self.persistent[i];
        let [near, far] = self.positions;
        match (gain(0) > 0.0, gain(1) > 0.0) {
            (false, _) => 0,
            (true, true) => ALL,
            (true, false) => {
                let share = gain(0) / (gain(0) - gain(1));
                near + ((far - near) as f64 * share) as usize
            }
        }
    }
}

/// Numbers of workgroups to try, for a GPU on which so many of a small kernel are resident. Kernels
/// with many registers have one workgroup on each multiprocessor, small ones two to four.
fn candidates(resident: usize) -> Vec<usize> {
    let mut all: Vec<usize> = [4, 3, 2].map(|of| resident / of).into();
    all.retain(|groups| *groups > 0);
    all.dedup();
    all
}

/// The greatest number of workgroups of a small kernel that are resident at once.
fn resident(device: &Device) -> Result<usize, Error> {
    // a GPU that was idle may fail once
    let fits = |groups: usize| -> Result<bool, Error> {
        for _ in 0..FAILURES {
            if probe(device, groups)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let mut least = 0;
    let mut most = 1;
    while most <= MOST && fits(most)? {
        (least, most) = (most, 2 * most);
    }
    while most - least > 1 {
        let middle = usize::midpoint(least, most);
        match fits(middle)? {
            true => least = middle,
            false => most = middle,
        }
    }
    Ok(least)
}

/// The WGSL of a phase of the probe.
pub(super) fn probe_phase(threads: usize, groups: usize) -> Result<KernelSource, Error> {
    template::render("grid_probe.wgsl", minijinja::context! { threads, groups })
}

/// Whether so many workgroups pass some 2,000 barriers, and read what others wrote before them.
fn probe(device: &Device, groups: usize) -> Result<bool, Error> {
    let launch = Launch {
        threads: THREADS,
        groups,
        turns: TURNS_OF_PROBE,
        stage: Stage::Long,
        early: false,
    };
    let (values, source) = (4 * THREADS * groups, probe_phase(THREADS, groups)?);
    let buffers = [(); 2].map(|()| device.buffer("probe", 4 * values as u64));
    let [a, b] = buffers.map(|buffer| buffer.map(|buffer| Bound::whole(&buffer)));
    let bound = [a?, b?];
    let turned = [bound[1].clone(), bound[0].clone()];
    let phase = |i: usize| {
        let buffers = if i.is_multiple_of(2) { &bound } else { &turned };
        Phase { source: source.text(), buffers, groups: [groups as u32, 1, 1] }
    };
    let phases: Vec<Phase<'_>> = (0..PHASES).map(phase).collect();
    let Ok(linked) = link(&phases, &launch) else { return Ok(false) };
    let kernel = device.kernel("probe of the grid barrier", &linked.source)?;
    let words = device.buffer("words of the grid barrier", BYTES)?;
    let mut bindings: Vec<_> = linked.buffers.iter().map(Bound::binding).collect();
    bindings.push(words.as_entire_buffer_binding());
    let group = device.bind("probe", &kernel, &bindings)?;
    let mut encoder = device.device.create_command_encoder(&Default::default());
    let mut pass = encoder.begin_compute_pass(&Default::default());
    for _ in 0..DISPATCHES {
        kernel.record(&mut pass, &group, [groups as u32, 1, 1]);
    }
    drop(pass);
    device.queue.submit([encoder.finish()]);
    let dead: Vec<f32> = read(device, &words)?;
    let values: Vec<f32> = read(device, &bound[0].buffer)?;
    let expected = (PHASES * DISPATCHES) as f32;
    Ok(dead[DEAD].to_bits() == 0 && values.iter().all(|v| *v == expected))
}

/// The floats of a buffer.
fn read(device: &Device, buffer: &wgpu::Buffer) -> Result<Vec<f32>, Error> {
    let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
    let copy = device.buffer_for("readback", buffer.size(), usage)?;
    let mut encoder = device.device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(buffer, 0, &copy, 0, buffer.size());
    device.queue.submit([encoder.finish()]);
    let mut values = vec![0.0; buffer.size() as usize / 4];
    device.read(&copy, bytemuck::cast_slice_mut(&mut values))?;
    Ok(values)
}

impl Trial<'_> {
    /// The persistent kernels of a launch, if they compile, complete and have the logits of the
    /// dispatches.
    fn lowered(&self, launch: &Launch) -> Result<Option<Persistent>, Error> {
        let lowered = Persistent::lower(self.loaded, launch, self.context, self.below)?;
        let Some(Lowered { persistent, kernels }) = lowered else { return Ok(None) };
        // a driver may refuse a large kernel
        if self.loaded.device.compile_all(&kernels).is_err() {
            return self.loaded.device.check().map(|()| None);
        }
        let right = self.right(&persistent)?;
        tracing::info!(below = self.below, ?launch, right, "persistent kernels were compared");
        Ok(right.then_some(persistent))
    }

    /// Whether the logits are those of the dispatches, bit for bit, with one KV split and with
    /// several.
    fn right(&self, persistent: &Persistent) -> Result<bool, Error> {
        persistent.reset(self.loaded.device);
        // a page for each range of positions, which no other sequence has yet
        let pages: Vec<u32> = (0..pages_for(self.context) as u32).collect();
        for group in 0..self.loaded.plan.groups.len() {
            self.loaded.inputs.write_table(self.loaded.device, group, 0, 0, &pages);
        }
        for position in 0..FILL.min(self.context as u32) {
            self.pass(None, 1 + position, position)?;
        }
        let last = self.context as u32 - 1;
        for (token, position) in [(3, 7), (5, 3 * FILL - 1), (7, 11 * FILL + 5), (9, last)] {
            let position = position.min(last);
            let expected = self.logits_of(None, token, position)?;
            let got = self.logits_of(Some(persistent), token, position)?;
            let same = expected.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits());
            if !same || self.died(persistent)? {
                persistent.reset(self.loaded.device);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn died(&self, persistent: &Persistent) -> Result<bool, Error> {
        let (words, offset) = persistent.dead();
        Ok(read(self.loaded.device, &words)?[offset as usize / 4].to_bits() != 0)
    }

    fn logits_of(
        &self,
        persistent: Option<&Persistent>,
        token: u32,
        position: u32,
    ) -> Result<Vec<f32>, Error> {
        self.pass(persistent, token, position)?;
        let mut logits = read(self.loaded.device, self.logits)?;
        logits.truncate(self.loaded.plan.output_width());
        Ok(logits)
    }

    /// Submits a pass over one token, by dispatches or by persistent kernels.
    fn pass(
        &self,
        persistent: Option<&Persistent>,
        token: u32,
        position: u32,
    ) -> Result<(), Error> {
        self.write(token, position);
        let mut encoder = self.loaded.device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        self.record(&mut pass, persistent, position as usize + 1);
        drop(pass);
        self.loaded.device.queue.submit([encoder.finish()]);
        self.loaded.device.check()
    }

    fn write(&self, token: u32, position: u32) {
        let queue = &self.loaded.device.queue;
        let token = token % self.loaded.plan.vocab as u32;
        queue.write_buffer(
            &self.loaded.inputs.rows,
            0,
            bytemuck::cast_slice(&[token, position, 0, 0]),
        );
        queue.write_buffer(&self.loaded.inputs.pass, 0, bytemuck::cast_slice(&[1u32, 1]));
        queue.write_buffer(&self.loaded.inputs.selected, 0, &[0; 4]);
        for &given in &self.loaded.plan.entry {
            let width = self.loaded.plan.buffer(given).width as u32;
            let values: Vec<f32> = (0..width).map(|i| value_of(token, i)).collect();
            let buffer = &self.loaded.buffers[given.0];
            queue.write_buffer(buffer, 0, bytemuck::cast_slice(&values));
        }
    }

    fn record(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        persistent: Option<&Persistent>,
        bound: usize,
    ) {
        let shape = alone(bound, self.below);
        match persistent {
            Some(persistent) => persistent.record(pass, bound, self.alone),
            None => {
                self.alone.iter().for_each(|calls| StepDispatches { calls, shape }.record(pass))
            }
        }
    }

    /// The times of passes by dispatches and by persistent kernels; `None` where a spin runs out. All
    /// are timed in turns, so that no one has the better clock rate, and the median counts.
    fn times<'p>(
        &self,
        tried: impl Iterator<Item = &'p Persistent>,
    ) -> Result<Vec<Option<Times>>, Error> {
        let positions = POSITIONS.map(|position| position.min(self.context - 1));
        let kinds: Vec<Option<&Persistent>> = [None].into_iter().chain(tried.map(Some)).collect();
        let mut all = vec![[const { Vec::new() }; 2]; kinds.len()];
        self.warm_up()?;
        for _ in 0..RUNS {
            for (i, position) in positions.into_iter().enumerate() {
                for (kind, all) in kinds.iter().zip(&mut all) {
                    all[i].push(self.time(*kind, position)?);
                }
            }
        }
        let mut medians = all.into_iter().map(|of| of.map(median));
        let dispatches = medians.next().unwrap_or_default();
        let times = |(persistent, kind): ([f64; 2], &Option<&Persistent>)| {
            let died = kind.map_or(Ok(false), |kind| self.died(kind))?;
            Ok((!died).then_some(Times { positions, dispatches, persistent }))
        };
        medians.zip(&kinds[1..]).map(times).collect()
    }

    /// Runs passes by dispatches until the GPU has its clock rate.
    fn warm_up(&self) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < WARM_UP {
            self.time(None, 0)?;
        }
        Ok(())
    }

    /// The seconds of a pass, of several in one submission.
    fn time(&self, persistent: Option<&Persistent>, position: usize) -> Result<f64, Error> {
        self.write(1, position as u32);
        let mut encoder = self.loaded.device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for _ in 0..PASSES {
            self.record(&mut pass, persistent, position + 1);
        }
        drop(pass);
        let commands = encoder.finish();
        let begun = Instant::now();
        self.loaded.device.queue.submit([commands]);
        self.loaded.device.wait()?;
        Ok(begun.elapsed().as_secs_f64() / PASSES as f64)
    }

    /// The key of the choice: it differs by model shape, formats and version of Pelton.
    fn key(&self) -> String {
        let of = if self.below > 0 { " of an effort" } else { "" };
        format!("persistent layers{of} {}", autotune::key(self.alone.iter().flatten()))
    }
}

/// A value between -1 and 1 that goes into the first step of a part, in place of what the part before it has left.
fn value_of(token: u32, i: u32) -> f32 {
    let word = (token.wrapping_mul(40_503) ^ i).wrapping_mul(2_654_435_761);
    (word >> 8) as f32 / (1 << 23) as f32 - 1.0
}

/// The median of some times.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_where_faster() {
        let times =
            |dispatches, persistent| Times { positions: [100, 1100], dispatches, persistent };
        assert_eq!(times([1.0, 2.0], [1.0, 1.0]).most(), 0);
        assert_eq!(times([1.0, 2.0], [0.8, 1.9]).most(), u32::MAX as usize);
        // a gain of 2 % may be noise
        assert_eq!(times([1.0, 2.0], [0.98, 1.0]).most(), 0);
        // gains of 0.17 and -0.17 meet in the middle
        let most = times([1.0, 1.0], [0.8, 1.14]).most();
        assert!((599..=601).contains(&most), "{most}");
    }

    #[test]
    fn choices_are_remembered() {
        for stage in [Stage::Long, Stage::Narrow] {
            for early in [false, true] {
                let choice = LaunchChoice { groups: 132, stage, early, most: 5000 };
                assert_eq!(LaunchChoice::of(choice.words()), Some(choice));
            }
        }
        assert_eq!(LaunchChoice::of([0, 0]), None);
    }

    #[test]
    fn fewer_workgroups_than_a_small_kernel_has() {
        assert_eq!(candidates(528), [132, 176, 264]);
        assert!(candidates(1).is_empty());
    }
}
