//! A trial of persistent kernels at load: whether their results are those of the dispatches,
//! and the times of both.

use std::time::{Duration, Instant};

use pelton_graph::{Effort, Error, Phase, pages_for};

use crate::{
    device::Device,
    lower::{
        autotune,
        choices::Choices,
        dispatch::{Dispatch, RowClass, StepDispatches},
        loaded::Loaded,
    },
    persist::{
        link::Launch,
        segments::{Lowered, PassRows, PersistentPass},
    },
};

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
/// Tokens that fill a page before results are compared.
const FILL: u32 = 64;
/// How much rows below 1 multiply when they are compared and timed.
const BELOW: f64 = 0.5;

/// A loaded plan to try persistent kernels on.
pub(crate) struct Trial<'a> {
    pub(crate) loaded: &'a Loaded<'a>,
    /// The dispatches of each step of a pass of one row.
    pub(crate) alone: &'a [Vec<Dispatch>],
    /// The dispatches `[classes, steps]` of each step, in the order of [`RowClass::ALL`].
    pub(crate) classes: &'a [Vec<Vec<Dispatch>>],
    /// Maximum rows of a decoding pass whose rows are all selected.
    pub(crate) rows: usize,
    /// Positions of a sequence, for which there are pages.
    pub(crate) context: usize,
    /// The choices of earlier loads.
    pub(crate) choices: Option<&'a Choices>,
}

/// The seconds of a pass at [`POSITIONS`], by dispatches and by persistent kernels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    positions: [usize; 2],
    dispatches: [f64; 2],
    pub(super) persistent: [f64; 2],
}

impl Times {
    /// The upper bound of positions at which persistent kernels are faster, where the times of both
    /// grow in proportion to the position; 0 if they are not.
    pub(super) fn most(&self) -> usize {
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

impl Trial<'_> {
    /// Whether passes of these rows can have persistent kernels. Several rows have none in a
    /// load of marked matrices.
    pub(super) fn allows(&self, rows: PassRows) -> bool {
        let Loaded { plan, inputs, .. } = *self.loaded;
        match rows {
            PassRows::ALONE => true,
            PassRows::BELOW => {
                let is_below = Effort::new(BELOW).is_some_and(|one| inputs.is_below(one));
                plan.has_effort() && is_below
            }
            _ => rows.count <= self.rows.min(self.context) && !plan.has_effort(),
        }
    }

    /// The persistent kernels of a launch for passes of these rows, if they compile, complete and
    /// have the results of the dispatches.
    pub(super) fn lowered(
        &self,
        launch: &Launch,
        rows: PassRows,
    ) -> Result<Option<PersistentPass>, Error> {
        let lowered = PersistentPass::lower(self.loaded, launch, rows, self.context)?;
        let Some(Lowered { pass, kernels }) = lowered else { return Ok(None) };
        // a driver may refuse a large kernel
        if self.loaded.device.compile_all(&kernels).is_err() {
            return self.loaded.device.check().map(|()| None);
        }
        let right = self.right(&pass)?;
        Ok(right.then_some(pass))
    }

    /// Whether the results are those of the dispatches, bit for bit, with one KV split and with
    /// several.
    fn right(&self, pass: &PersistentPass) -> Result<bool, Error> {
        pass.reset(self.loaded.device);
        // a page for each range of positions, which no other sequence has yet
        let pages: Vec<u32> = (0..pages_for(self.context) as u32).collect();
        for group in 0..self.loaded.plan.groups.len() {
            self.loaded.inputs.write_table(self.loaded.device, group, 0, 0, &pages);
        }
        for position in 0..FILL.min(self.context as u32) {
            self.pass((PassRows::ALONE, None), 1 + position, position)?;
        }
        let rows = pass.rows;
        let last = (self.context - rows.count) as u32;
        for (token, position) in [(3, 7), (5, 3 * FILL - 1), (7, 11 * FILL + 5), (9, last)] {
            let position = position.min(last);
            let expected = self.results((rows, None), token, position)?;
            let got = self.results((rows, Some(pass)), token, position)?;
            let same = expected.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits());
            if !same || self.died(pass)? {
                pass.reset(self.loaded.device);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn died(&self, pass: &PersistentPass) -> Result<bool, Error> {
        let (words, offset) = pass.dead();
        let at = offset as usize / 4;
        Ok(read(self.loaded.device, &words, at + 1)?[at].to_bits() != 0)
    }

    /// The logits of all rows of a pass, and the hidden states that it can keep.
    fn results(
        &self,
        (rows, kernels): (PassRows, Option<&PersistentPass>),
        token: u32,
        position: u32,
    ) -> Result<Vec<f32>, Error> {
        let Loaded { device, plan, buffers, .. } = *self.loaded;
        self.pass((rows, kernels), token, position)?;
        let mut all = Vec::new();
        for id in [plan.logits].iter().chain(&plan.exit) {
            all.extend(read(device, &buffers[id.0], rows.count * plan.buffer(*id).width)?);
        }
        Ok(all)
    }

    /// Submits a pass over tokens of one sequence, the first at `position`, by dispatches or by
    /// persistent kernels.
    fn pass(
        &self,
        (rows, kernels): (PassRows, Option<&PersistentPass>),
        token: u32,
        position: u32,
    ) -> Result<(), Error> {
        self.write(rows, token, position);
        let mut encoder = self.loaded.device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        self.record(&mut pass, (rows, kernels), position as usize + rows.count);
        drop(pass);
        self.loaded.device.queue.submit([encoder.finish()]);
        self.loaded.device.check()
    }

    fn write(&self, rows: PassRows, token: u32, position: u32) {
        let Loaded { device, plan, inputs, buffers, .. } = *self.loaded;
        let write = |buffer: &wgpu::Buffer, words: &[u32]| {
            device.queue.write_buffer(buffer, 0, bytemuck::cast_slice(words));
        };
        let all = 0..rows.count as u32;
        let token = |row: u32| (token + row) % plan.vocab as u32;
        let words: Vec<[u32; 4]> =
            all.clone().map(|row| [token(row), position + row, 0, 0]).collect();
        write(&inputs.rows, words.as_flattened());
        write(&inputs.pass, &[rows.count as u32; 2]);
        write(&inputs.selected, &all.clone().collect::<Vec<u32>>());
        let efforts: Vec<Effort> = Effort::new(BELOW).into_iter().take(rows.below).collect();
        write(&inputs.lives, &inputs.live_words(&efforts, &efforts));
        for &given in &plan.entry {
            let width = plan.buffer(given).width as u32;
            let values = |row: u32| (0..width).map(move |i| value_of(token(row), i));
            let values: Vec<f32> = all.clone().flat_map(values).collect();
            device.queue.write_buffer(&buffers[given.0], 0, bytemuck::cast_slice(&values));
        }
    }

    /// The dispatches of each step of a pass of these rows.
    fn calls(&self, rows: PassRows) -> &[Vec<Dispatch>] {
        match rows.count {
            1 => self.alone,
            count => &self.classes[RowClass::of(Phase::Decode, count, false) as usize],
        }
    }

    fn record(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        (rows, kernels): (PassRows, Option<&PersistentPass>),
        bound: usize,
    ) {
        let all = self.calls(rows);
        let step = |i: usize| StepDispatches { calls: &all[i], shape: rows.shape(bound) };
        match kernels {
            Some(kernels) => kernels.record(pass, bound, |i| Some(step(i))),
            None => (0..all.len()).for_each(|i| step(i).record(pass)),
        }
    }

    /// The times of passes of these rows by dispatches and by persistent kernels; `None`
    /// where a spin runs out. All are timed in turns, so that no one has the better clock
    /// rate, and the median counts.
    pub(super) fn times<'p>(
        &self,
        rows: PassRows,
        tried: impl Iterator<Item = &'p PersistentPass>,
    ) -> Result<Vec<Option<Times>>, Error> {
        let positions = POSITIONS.map(|position| position.min(self.context - rows.count));
        let kinds: Vec<Option<&PersistentPass>> =
            [None].into_iter().chain(tried.map(Some)).collect();
        if kinds.len() == 1 {
            return Ok(Vec::new());
        }
        let mut all = vec![[const { Vec::new() }; 2]; kinds.len()];
        self.warm_up()?;
        for _ in 0..RUNS {
            for (i, position) in positions.into_iter().enumerate() {
                for (kind, all) in kinds.iter().zip(&mut all) {
                    all[i].push(self.time((rows, *kind), position)?);
                }
            }
        }
        let mut medians = all.into_iter().map(|of| of.map(median));
        let dispatches = medians.next().unwrap_or_default();
        let times = |(persistent, kind): ([f64; 2], &Option<&PersistentPass>)| {
            let died = kind.map_or(Ok(false), |kind| self.died(kind))?;
            Ok((!died).then_some(Times { positions, dispatches, persistent }))
        };
        medians.zip(&kinds[1..]).map(times).collect()
    }

    /// Runs passes by dispatches until the GPU has its clock rate.
    pub(super) fn warm_up(&self) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < WARM_UP {
            self.time((PassRows::ALONE, None), 0)?;
        }
        Ok(())
    }

    /// The seconds of a pass, of several in one submission.
    fn time(
        &self,
        (rows, kernels): (PassRows, Option<&PersistentPass>),
        position: usize,
    ) -> Result<f64, Error> {
        self.write(rows, 1, position as u32);
        let mut encoder = self.loaded.device.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        for _ in 0..PASSES {
            self.record(&mut pass, (rows, kernels), position + rows.count);
        }
        drop(pass);
        let commands = encoder.finish();
        let begun = Instant::now();
        self.loaded.device.queue.submit([commands]);
        self.loaded.device.wait()?;
        Ok(begun.elapsed().as_secs_f64() / PASSES as f64)
    }

    /// The key of the choice: it differs by model shape, formats, rows, their efforts
    /// and version of Pelton.
    pub(super) fn key(&self, rows: PassRows) -> String {
        let key = autotune::key(self.calls(rows).iter().flatten());
        match rows {
            PassRows::ALONE => format!("persistent layers {key}"),
            PassRows::BELOW => format!("persistent layers of rows below 1 {key}"),
            _ => format!("persistent layers {} rows {key}", rows.count),
        }
    }
}

/// A value between -1 and 1 that goes into the first step of a part, in place of what the
/// part before it has left.
fn value_of(token: u32, i: u32) -> f32 {
    let word = (token.wrapping_mul(40_503) ^ i).wrapping_mul(2_654_435_761);
    (word >> 8) as f32 / (1 << 23) as f32 - 1.0
}

/// The median of some times.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The first floats of a buffer.
pub(super) fn read(
    device: &Device,
    buffer: &wgpu::Buffer,
    count: usize,
) -> Result<Vec<f32>, Error> {
    let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
    let copy = device.buffer_for("readback", 4 * count as u64, usage)?;
    let mut encoder = device.device.create_command_encoder(&Default::default());
    encoder.copy_buffer_to_buffer(buffer, 0, &copy, 0, 4 * count as u64);
    device.queue.submit([encoder.finish()]);
    let mut values = vec![0.0; count];
    device.read(&copy, bytemuck::cast_slice_mut(&mut values))?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::Times;

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
}
