//! The choice at load between dispatches and persistent kernels: whether they complete, whether
//! their data is right, and which are faster.

use std::cell::OnceCell;

use pelton_graph::{Error, Plan};

use crate::{
    device::{Device, KernelSource},
    kernels::{matvec::Stage, template},
    lower::{choices::Known, dispatch::Bound, loaded::Loaded},
    persist::{
        link::{Launch, Phase, link},
        segments::{BYTES, DEAD, PassRows, Persistent, PersistentPass},
        trial::{Trial, read},
    },
};

/// Maximum rows of a pass with persistent kernels: those of matrices that are multiplied in one
/// kernel with their norm.
const MOST_ROWS: usize = 4;

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

/// When persistent kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Never.
    Off,
    /// Where they are faster, on GPUs whose kernels are timed.
    #[default]
    Faster,
    /// Always, if their results are right, with this many workgroups and turns, for passes
    /// of up to so many rows: for tests. Kernels that wait for the host run on every GPU
    /// then, with as many turns.
    Forced { groups: usize, turns: u32, rows: usize },
}

/// The persistent kernels of a plan, if they are to run. The KV caches are written, as by a pass.
///
/// # Errors
///
/// If the GPU is lost. Kernels that fail are no error: then dispatches run.
pub(crate) fn choose(trial: &Trial<'_>, mode: Mode) -> Result<Option<Persistent>, Error> {
    let Loaded { device, plan, .. } = *trial.loaded;
    if !can_repeat(plan) || !device.coherent || mode == Mode::Off {
        return Ok(None);
    }
    let few = |most: usize| (2..=most).map(PassRows::full).filter(|rows| trial.allows(*rows));
    let below = [PassRows::BELOW].into_iter().filter(|rows| trial.allows(*rows));
    let mut passes = Vec::new();
    if let Mode::Forced { groups, turns, rows } = mode {
        let choice = LaunchChoice { groups, stage: Stage::Long, early: true, most: 0 };
        let launch = choice.launch(device, turns);
        for rows in [PassRows::ALONE].into_iter().chain(few(rows.min(MOST_ROWS))).chain(below) {
            passes.extend(trial.lowered(&launch, rows)?);
        }
        return Ok(Persistent::new(passes));
    }
    if !device.tunes || (device.capabilities.workgroup_threads as usize) < THREADS {
        return Ok(None);
    }
    let search = Search { trial, candidates: OnceCell::new() };
    if let Some((alone, choice)) = search.find(PassRows::ALONE, || search.alone())? {
        passes.push(alone);
        // each number of rows is compiled and timed, and none was 3 % faster in an 8B on an H100
        for rows in few(MOST_ROWS).filter(|_| feeds_head(plan)) {
            passes.extend(search.find(rows, || search.few(rows, choice))?.map(|(pass, _)| pass));
        }
    }
    for rows in below {
        passes.extend(search.find(rows, || search.below())?.map(|(pass, _)| pass));
    }
    Ok(Persistent::new(passes))
}

/// Whether a plan is one of a head, or of a model whose hidden states go to a head, whose
/// drafts its passes verify.
fn feeds_head(plan: &Plan) -> bool {
    plan.exit.first().is_some_and(|&first| first != plan.logits)
}

/// Whether a pass of a plan can run again from its inputs: caches keep every position, recurrent
/// states only the newest.
pub(crate) fn can_repeat(plan: &Plan) -> bool {
    plan.states.is_empty()
        && plan.adapters().is_none()
        && plan.encoder.is_none()
        && !plan.whole_sequences
}

/// The search for the fastest launch shape.
struct Search<'a> {
    trial: &'a Trial<'a>,
    /// Numbers of workgroups to try, once they are known.
    candidates: OnceCell<Vec<usize>>,
}

type Found = (PersistentPass, LaunchChoice);

impl Search<'_> {
    fn lowered(&self, choice: LaunchChoice, rows: PassRows) -> Result<Option<Found>, Error> {
        let pass = self.trial.lowered(&choice.launch(self.trial.loaded.device, TURNS), rows)?;
        Ok(pass.map(|pass| (pass, choice)))
    }

    /// The kernels of a pass of these rows, if they are faster: by the file, or those of `measure`.
    fn find(
        &self,
        rows: PassRows,
        measure: impl FnOnce() -> Result<Vec<Found>, Error>,
    ) -> Result<Option<Found>, Error> {
        let (choices, key) = (self.trial.choices, self.trial.key(rows));
        let known = choices.and_then(|choices| choices.get(&key));
        let best = match known.map(LaunchChoice::of) {
            Some(None) => None,
            Some(Some(choice)) if choice.groups <= MOST => self.lowered(choice, rows)?,
            _ => {
                let best = self.fastest(rows, measure()?)?;
                if let Some(choices) = choices {
                    let words = best.as_ref().map_or([0, 0], |(_, choice)| choice.words());
                    // without the file the next load measures again
                    let _ = choices.add(Known::from([(key, words)]));
                }
                best
            }
        };
        let found = best.map(|(pass, choice)| (pass.up_to(choice.most), choice));
        match &found {
            Some((pass, LaunchChoice { groups, most, .. })) => tracing::info!(
                ?rows,
                segments = pass.segments(),
                groups,
                positions = most,
                "persistent kernels"
            ),
            None => tracing::info!(?rows, "no persistent kernels"),
        }
        Ok(found)
    }

    /// Numbers of workgroups to try, the fewest first.
    fn candidates(&self) -> Result<&[usize], Error> {
        if let Some(known) = self.candidates.get() {
            return Ok(known);
        }
        self.trial.warm_up()?;
        let found = candidates(resident(self.trial.loaded.device)?);
        Ok(self.candidates.get_or_init(|| found))
    }

    /// The candidates of a pass of one full row.
    fn alone(&self) -> Result<Vec<Found>, Error> {
        let mut tried: Vec<Found> = Vec::new();
        let mut add = |groups, stage, early| {
            let choice = LaunchChoice { groups, stage, early, most: 0 };
            let found = self.lowered(choice, PassRows::ALONE)?;
            let fits = found.is_some();
            tried.extend(found);
            Ok::<bool, Error>(fits)
        };
        let candidates = self.candidates()?;
        let mut groups = Vec::new();
        for &count in candidates {
            if add(count, Stage::Long, false)? {
                groups.push(count);
            }
        }
        if groups.is_empty() {
            groups.extend(candidates.first());
        }
        for groups in groups {
            for (stage, early) in
                [(Stage::Long, true), (Stage::Narrow, false), (Stage::Narrow, true)]
            {
                add(groups, stage, early)?;
            }
        }
        Ok(tried)
    }

    /// The candidates of a pass of several rows: the choice for one row, and fewer workgroups,
    /// since such kernels have more registers.
    fn few(&self, rows: PassRows, alone: LaunchChoice) -> Result<Vec<Found>, Error> {
        let fewest = self.candidates()?.first().copied();
        let mut all = vec![alone];
        all.extend(fewest.map(|groups| LaunchChoice { groups, ..alone }));
        all.dedup();
        let mut tried = Vec::new();
        for choice in all {
            tried.extend(self.lowered(choice, rows)?);
        }
        Ok(tried)
    }

    /// The candidates of a pass of one row below 1. They are few: drivers take long to compile
    /// them, and their products have no stages.
    fn below(&self) -> Result<Vec<Found>, Error> {
        let mut tried = Vec::new();
        for &groups in self.candidates()?.iter().take(1) {
            for early in [false, true] {
                let choice = LaunchChoice { groups, stage: Stage::Long, early, most: 0 };
                tried.extend(self.lowered(choice, PassRows::BELOW)?);
            }
        }
        Ok(tried)
    }

    /// The fastest of some candidates, if it is faster than dispatches.
    fn fastest(&self, rows: PassRows, tried: Vec<Found>) -> Result<Option<Found>, Error> {
        let all = self.trial.times(rows, tried.iter().map(|(pass, _)| pass))?;
        let best = (tried.into_iter().zip(all))
            .filter_map(|((pass, choice), times)| {
                tracing::debug!(?rows, ?choice, ?times, "a candidate of persistent kernels");
                let times = times.filter(|times| times.most() > 0)?;
                Some((pass, LaunchChoice { most: times.most(), ..choice }, times.persistent[0]))
            })
            .min_by(|(.., a), (.., b)| a.total_cmp(b));
        Ok(best.map(|(pass, choice, _)| (pass, choice)))
    }
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
    fn launch(self, device: &Device, turns: u32) -> Launch {
        let Self { groups, stage, early, most: _ } = self;
        let threads = THREADS.min(device.capabilities.workgroup_threads as usize);
        Launch { threads, groups, turns, stage, early }
    }

    /// The choice as the file has it: four times the workgroups, plus 2 if keys are loaded early
    /// and 1 for [`Stage::Narrow`], and the bound.
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
    let dead = read(device, &words, DEAD + 1)?;
    let values = read(device, &bound[0].buffer, values)?;
    let expected = (PHASES * DISPATCHES) as f32;
    Ok(dead[DEAD].to_bits() == 0 && values.iter().all(|v| *v == expected))
}

#[cfg(test)]
mod tests {
    use super::*;

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
