//! Autotuning: the launch shapes of the products of one row, chosen by measurement.
//!
//! The best number of workgroups and threads of a product depends on the number of cores of the
//! GPU, on their registers and caches, and on the remainder of the rows. On an H200 the choice
//! changes the time of a token by up to a twelfth. So the first load of a model on a GPU runs some
//! passes with each candidate of [`Tuning`], with timestamps between the steps, if the rows of a
//! product do not divide evenly. They run over the model's weights, which are too large for the
//! GPU's caches. The choices are written to a file in the user's cache directory.
//!
//! The order of sums does not depend on the launch shape, except that of the squares of a norm,
//! which follows the threads of a workgroup. All row classes of decoding then have the same number of
//! threads.

use std::{
    collections::{BTreeMap, HashMap, hash_map::DefaultHasher},
    fs,
    hash::{Hash, Hasher},
    io::Read,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

use pelton_graph::Error;

use crate::{
    device::Device,
    kernels::matvec::Tuning,
    lower::{
        dispatch::{Dispatch, RowClass, StepDispatches, StepShape},
        kernel_cache::KernelCache,
        loaded::Loaded,
        lowering::Lowering,
        options::{Options, Tunings},
        timestamps::Stamps,
    },
    weights::is_partial,
};

/// Timed passes of each candidate.
const PASSES: usize = 3;
/// The least relative gain over the first candidate; a smaller one is noise.
const GAIN: f64 = 0.01;

/// The choices of a GPU: the candidate of each step, by the [`key`] of its kernels.
type Known = BTreeMap<String, [usize; 2]>;

impl Tunings {
    /// The best candidate of each step: read from the file of an earlier load, or measured. Measured
    /// kernels stay in `kernels`.
    ///
    /// # Errors
    ///
    /// If the GPU fails. A file that cannot be read or written is ignored: the next load measures
    /// again.
    pub(crate) fn find(
        loaded: &Loaded<'_>,
        kernels: &mut KernelCache,
        file: Option<&Path>,
    ) -> Result<Self, Error> {
        let Loaded { device, plan, .. } = *loaded;
        // without the matrices of the file there is nothing to time
        if !device.tunes || is_partial(plan) {
            return Ok(Self::Equal(Tuning::CANDIDATES[0]));
        }
        let owner = owner(device);
        let mut known = file.map_or_else(Known::new, |file| read(file, &owner));
        let usual = calls(loaded, Tuning::CANDIDATES[0], kernels)?;
        let keys: Vec<String> = usual.iter().map(key).collect();
        if !keys.iter().all(|key| known.contains_key(key)) {
            known.extend(measured(loaded, usual, &keys, kernels)?);
            if let Some(file) = file {
                // without the file the next load measures again
                let _ = write(file, &owner, &known);
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

/// A candidate as it is written to the file.
fn words(tuning: Tuning) -> [usize; 2] {
    [tuning.threads, tuning.groups]
}

/// The candidate of an entry of the file; the first if the entry is no candidate.
fn candidate(found: Option<&[usize; 2]>) -> Tuning {
    let of =
        |found: &[usize; 2]| Tuning::CANDIDATES.into_iter().find(|known| words(*known) == *found);
    found.and_then(of).unwrap_or(Tuning::CANDIDATES[0])
}

/// A GPU in the file.
pub(crate) fn owner(device: &Device) -> String {
    format!("{}, {}", device.name, device.driver)
}

/// The numbers of an earlier choice.
pub(crate) fn remembered(file: &Path, owner: &str, key: &str) -> Option<[usize; 2]> {
    read(file, owner).get(key).copied()
}

/// Adds the numbers of a choice to the file.
pub(crate) fn remember(
    file: &Path,
    owner: &str,
    key: &str,
    numbers: [usize; 2],
) -> std::io::Result<()> {
    write(file, owner, &Known::from([(key.to_owned(), numbers)]))
}

/// The file of choices in the user's cache directory, if there is one.
pub(crate) fn cache_file() -> Option<PathBuf> {
    use etcetera::BaseStrategy;
    let directories = etcetera::choose_base_strategy().ok()?;
    Some(directories.cache_dir().join("pelton").join("gpu-tuning.json"))
}

/// The content of the file, by GPU and driver; `None` if it cannot be parsed.
fn read_all(file: &Path) -> std::io::Result<Option<BTreeMap<String, Known>>> {
    /// Far more than the choices for many models on several GPUs.
    const MOST: u64 = 1 << 20;
    let mut text = Vec::new();
    fs::File::open(file)?.take(MOST).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).ok())
}

fn read(file: &Path, owner: &str) -> Known {
    let all = read_all(file).ok().flatten();
    all.and_then(|mut all| all.remove(owner)).unwrap_or_default()
}

/// Adds the choices of a GPU. Loads that write at the same time take turns by a lock. The file is
/// replaced by a rename, so it is never read half written; one that cannot be parsed is kept under
/// another name.
fn write(file: &Path, owner: &str, known: &Known) -> std::io::Result<()> {
    static WRITES: AtomicUsize = AtomicUsize::new(0);
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let turn = fs::File::create(file.with_extension("lock"))?;
    // a file system without locks loses choices of loads at the same time, which are measured again
    let _ = turn.lock();
    let mut all = match read_all(file) {
        Ok(Some(all)) => all,
        Ok(None) => {
            fs::rename(file, file.with_extension("unreadable"))?;
            BTreeMap::new()
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => return Err(error),
    };
    all.entry(owner.to_owned()).or_default().extend(known.clone());
    let write = WRITES.fetch_add(1, Ordering::Relaxed);
    let new = file.with_extension(format!("{}-{write}", process::id()));
    fs::write(&new, serde_json::to_vec_pretty(&all)?)?;
    fs::rename(&new, file)
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

    /// Loads at the same time lose no choice of each other, and leave no files behind.
    #[test]
    fn writers_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tuning.json");
        let known = |i: usize| Known::from([("k".to_owned(), [i, i])]);
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    for i in 0..20 {
                        write(file, &format!("{writer}-{i}"), &known(i)).unwrap();
                    }
                });
            }
        });
        for (writer, i) in (0..8).flat_map(|writer| (0..20).map(move |i| (writer, i))) {
            assert_eq!(read(&file, &format!("{writer}-{i}")), known(i), "{writer}-{i}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    /// A file that cannot be parsed may be of a later version: it is not overwritten.
    #[test]
    fn unreadable_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tuning.json");
        fs::write(&file, "{\"version\": 9}").unwrap();
        let known = Known::from([("k".to_owned(), [512, 132])]);
        write(&file, "x", &known).unwrap();
        assert_eq!(read(&file, "x"), known);
        let kept = fs::read_to_string(folder.path().join("tuning.unreadable")).unwrap();
        assert_eq!(kept, "{\"version\": 9}");
    }

    #[test]
    fn choices_are_stored_by_gpu() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deeper").join("tuning.json");
        assert!(read(&file, "x").is_empty());
        let known = Known::from([("k".to_owned(), [512, 132])]);
        write(&file, "x", &known).unwrap();
        write(&file, "y", &Known::from([("k".to_owned(), [256, 264])])).unwrap();
        assert_eq!(read(&file, "x"), known);
        assert_eq!(candidate(read(&file, "y").get("k")), Tuning::CANDIDATES[3]);
        // files that cannot be parsed, and entries that are no candidates
        for text in ["", "{", "[1]", r#"{"x": {"k": [1]}}"#] {
            fs::write(&file, text).unwrap();
            assert!(read(&file, "x").is_empty());
        }
        fs::write(&file, r#"{"x": {"k": [0, 99999999]}}"#).unwrap();
        assert_eq!(candidate(read(&file, "x").get("k")), Tuning::CANDIDATES[0]);
    }
}
