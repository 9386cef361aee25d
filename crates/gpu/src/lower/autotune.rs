//! Autotuning: the launch shapes of the products of one row, chosen by measurement.
//!
//! The best number of workgroups and threads of a product depends on the number of cores of the
//! GPU, on their registers and caches, and on the remainder of the rows. On an H200 the choice
//! changes the time of a token by up to a twelfth. So the first load of a model on a GPU runs some
//! passes with each candidate of [`Tuning`], with timestamps between the steps, if the rows of a
//! product do not divide evenly. They run over the model's weights, which are too large for the
//! GPU's caches. The candidates are kept, by the [`key`] of the kernels of each step ([`Choices`]).
//!
//! The order of sums does not depend on the launch shape, except that of the squares of a
//! norm, which follows the threads of a workgroup. All row classes of decoding then have the
//! same number of threads.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use pelton_graph::Error;

use crate::{
    device::Device,
    kernels::matvec::Tuning,
    lower::{
        choices::{Choices, Known},
        dispatch::{Dispatch, RowClass, StepDispatches, StepShape},
        kernel_cache::KernelCache,
        loaded::Loaded,
        lowering::Lowering,
        options::{Options, Tunings},
        timestamps::Stamps,
    },
};

/// Timed passes of each candidate.
const PASSES: usize = 3;
/// The least relative gain over the first candidate; a smaller one is noise.
const GAIN: f64 = 0.01;

impl Tunings {
    /// The best candidate of each step: read from the file of an earlier load, or measured.
    /// Measured kernels stay in `kernels`.
    ///
    /// # Errors
    ///
    /// If the GPU fails. A file that cannot be read or written is ignored: the next load measures
    /// again.
    pub(crate) fn find(
        loaded: &Loaded<'_>,
        kernels: &mut KernelCache,
        choices: Option<&Choices>,
    ) -> Result<Self, Error> {
        let Loaded { device, .. } = *loaded;
        if !device.tunes {
            return Ok(Self::Equal(Tuning::CANDIDATES[0]));
        }
        let mut known = choices.map_or_else(Known::new, Choices::all);
        let usual = calls(loaded, Tuning::CANDIDATES[0], kernels)?;
        let keys: Vec<String> = usual.iter().map(key).collect();
        if !keys.iter().all(|key| known.contains_key(key)) {
            let found = measured(loaded, usual, &keys, kernels)?;
            known.extend(found.clone());
            if let Some(choices) = choices {
                // without the file the next load measures again
                let _ = choices.add(found);
            }
        }
        Ok(Self::known(device, &known, keys))
    }

    /// The known configurations of steps with these keys.
    fn known(device: &Device, known: &Known, keys: impl IntoIterator<Item = String>) -> Self {
        let choice = |key: String| match candidate(known.get(&key)) {
            Tuning { threads, .. }
                if device.coherent && threads != Tuning::CANDIDATES[0].threads =>
            {
                Tuning::CANDIDATES[0]
            }
            choice => choice,
        };
        Self::OfSteps(keys.into_iter().map(choice).collect())
    }
}

/// The dispatches of each step of a decoding pass over one row.
fn calls(
    loaded: &Loaded<'_>,
    tuning: Tuning,
    kernels: &mut KernelCache,
) -> Result<Vec<Vec<Dispatch>>, Error> {
    let options = Options { tunings: Tunings::Equal(tuning), phases: None, dense: true };
    Lowering::new(loaded, options, kernels).steps(RowClass::One, true)
}

/// The best candidate of each step by measurement, by its key. `usual` are the dispatches of the
/// first candidate.
fn measured(
    loaded: &Loaded<'_>,
    usual: Vec<Vec<Dispatch>>,
    keys: &[String],
    kernels: &mut KernelCache,
) -> Result<Known, Error> {
    let mut all = vec![usual];
    // the threads decide the order of a norm's sum, which persistent kernels share
    let same_threads = |tuning: &&Tuning| tuning.threads == Tuning::CANDIDATES[0].threads;
    let coherent = loaded.device.coherent;
    for tuning in Tuning::CANDIDATES[1..].iter().filter(|t| same_threads(t) || !coherent) {
        all.push(calls(loaded, *tuning, kernels)?);
    }
    // most steps have the same kernels for every candidate
    let same = |i: usize| all.iter().all(|calls| key(&calls[i]) == keys[i]);
    let mut known = Known::new();
    if (0..keys.len()).all(same) {
        known.extend(keys.iter().map(|key| (key.clone(), words(Tuning::CANDIDATES[0]))));
    } else {
        let times = measure(loaded, kernels, &all)?;
        for (i, best) in best_of(keys, &times).into_iter().enumerate() {
            let best = if same(i) { Tuning::CANDIDATES[0] } else { best };
            known.insert(keys[i].clone(), words(best));
        }
    }
    Ok(known)
}

/// The seconds `[candidates, steps]` of each step.
fn measure(
    loaded: &Loaded<'_>,
    kernels: &KernelCache,
    all: &[Vec<Vec<Dispatch>>],
) -> Result<Vec<Vec<f64>>, Error> {
    let Loaded { device, plan, .. } = *loaded;
    kernels.compile(device)?;
    let stamps = Stamps::new(device, plan.steps.len() + 1)?;
    let shape = StepShape { rows: 1, bound: 1, tiles: 0, distinct: true, sequences: 1, below: 0 };
    all.iter()
        .map(|calls| {
            let steps: Vec<_> = calls.iter().map(|calls| StepDispatches { calls, shape }).collect();
            // a GPU that was idle needs some time to reach its clock rate
            stamps.run(device, &steps)?;
            let mut least = vec![f64::INFINITY; steps.len()];
            for _ in 0..PASSES {
                for (least, time) in least.iter_mut().zip(stamps.run(device, &steps)?) {
                    *least = least.min(time);
                }
            }
            Ok(least)
        })
        .collect()
}

/// The candidate of each step for which the sum over all steps of its key takes the least time.
fn best_of(keys: &[String], times: &[Vec<f64>]) -> Vec<Tuning> {
    let mut sums: HashMap<&str, [f64; Tuning::CANDIDATES.len()]> = HashMap::new();
    for (i, key) in keys.iter().enumerate() {
        let sums = sums.entry(key).or_default();
        sums.iter_mut().zip(times).for_each(|(sum, times)| *sum += times[i]);
    }
    let best = |sums: &[f64; Tuning::CANDIDATES.len()]| {
        let mut best = (Tuning::CANDIDATES[0], sums[0] * (1.0 - GAIN));
        for (tuning, time) in Tuning::CANDIDATES.iter().zip(sums).skip(1) {
            if *time < best.1 {
                best = (*tuning, *time);
            }
        }
        best.0
    };
    keys.iter().map(|key| best(&sums[key.as_str()])).collect()
}

/// The hash of the sources of a step's kernels: it differs by shape, format and version of Pelton.
pub(crate) fn key<'a>(calls: impl IntoIterator<Item = &'a Dispatch>) -> String {
    let mut hasher = DefaultHasher::new();
    for call in calls {
        call.kernel.source().text().hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// A candidate as it is kept.
fn words(tuning: Tuning) -> [usize; 2] {
    [tuning.threads, tuning.groups]
}

/// The candidate that was kept; the first if the numbers are no candidate.
fn candidate(found: Option<&[usize; 2]>) -> Tuning {
    let of =
        |found: &[usize; 2]| Tuning::CANDIDATES.into_iter().find(|known| words(*known) == *found);
    found.and_then(of).unwrap_or(Tuning::CANDIDATES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_total_time_wins() {
        let keys = ["a", "b", "a", "c"].map(str::to_owned);
        let mut times = vec![vec![1.0; 4]; Tuning::CANDIDATES.len()];
        // candidate 1 gains in one step of two, and less than the noise in the last
        times[1] = vec![0.2, 1.1, 1.9, 0.999];
        times[3] = vec![0.9, 0.7, 0.9, 1.0];
        let expected = [3, 3, 3, 0].map(|i| Tuning::CANDIDATES[i]);
        assert_eq!(best_of(&keys, &times), expected);
    }

    #[test]
    fn numbers_that_are_no_candidate() {
        let [first, .., last] = Tuning::CANDIDATES;
        assert_eq!(candidate(Some(&words(last))), last);
        for numbers in [None, Some(&[0, 99_999_999])] {
            assert_eq!(candidate(numbers), first);
        }
    }
}
