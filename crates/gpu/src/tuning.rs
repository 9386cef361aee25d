//! How the products of one row are shared out, found out by trying.
//!
//! How many workgroups of how many threads serve a product best depends on the number of a device's
//! multiprocessors, their registers and caches, and on how evenly the rows divide: on an H200 the
//! right choice is worth up to a twelfth of a token. So when a model is loaded for the first time on
//! a device, and has products whose rows do not divide evenly, each candidate runs some passes with
//! stamps of the device's clock between the steps, over the model's own weights, as only those are
//! not in the device's caches. What was found is kept in the user's cache directory.

use std::{
    collections::{BTreeMap, HashMap, hash_map::DefaultHasher},
    fs,
    hash::{Hash, Hasher},
    io::Read,
    path::{Path, PathBuf},
    process,
};

use pelton_graph::{Error, Plan};

use crate::{
    device::Device,
    executable::StepCalls,
    linear::Tuning,
    lower::{Call, Class, Extent, Lowering},
    profile::Stamps,
};

/// What is tried; the first is what is taken where nothing can be tried.
pub(crate) const CANDIDATES: [Tuning; 4] = [
    Tuning { threads: 512, groups: 264 },
    Tuning { threads: 512, groups: 132 },
    Tuning { threads: 512, groups: 528 },
    Tuning { threads: 256, groups: 264 },
];

/// Stamped passes for each candidate.
const PASSES: usize = 3;
/// How much better than the first another must be: less is noise.
const GAIN: f64 = 0.01;

/// What is known of a device: for each kernel, by the hash of its source, the candidate to take.
type Known = BTreeMap<String, [usize; 2]>;

/// The choices for the steps of a plan.
#[derive(Debug)]
pub(crate) struct Choices(Vec<Tuning>);

impl Choices {
    /// The best candidate for each step: known from an earlier load, or tried now.
    ///
    /// # Errors
    ///
    /// If the device fails. A cache that cannot be read or written only costs time.
    pub(crate) fn find(device: &Device, lowering: &mut Lowering<'_>) -> Result<Self, Error> {
        let plan = lowering.plan;
        if !device.tunes {
            return Ok(Self(vec![CANDIDATES[0]; plan.steps.len()]));
        }
        let usual = calls(lowering, plan, CANDIDATES[0])?;
        let keys: Vec<String> = usual.iter().map(|calls| key(calls)).collect();
        let file = device.tuning_file.as_deref();
        let maker = format!("{}, {}", device.name, device.driver);
        let mut known = file.map_or_else(Known::new, |file| read(file, &maker));
        if !keys.iter().all(|key| known.contains_key(key)) {
            let mut all = vec![usual];
            for tuning in &CANDIDATES[1..] {
                all.push(calls(lowering, plan, *tuning)?);
            }
            // most steps are the same whatever is chosen
            let same = |i: usize| all.iter().all(|calls| key(&calls[i]) == keys[i]);
            if (0..keys.len()).all(same) {
                known.extend(keys.iter().map(|key| (key.clone(), numbers(CANDIDATES[0]))));
            } else {
                let times = try_all(device, lowering, &all)?;
                for (i, best) in best_of(&keys, &times).into_iter().enumerate() {
                    let best = if same(i) { CANDIDATES[0] } else { best };
                    known.insert(keys[i].clone(), numbers(best));
                }
            }
            if let Some(file) = file {
                // the next load tries again if this one could not write
                let _ = write(file, &maker, &known);
            }
        }
        Ok(Self(keys.iter().map(|key| candidate(known.get(key))).collect()))
    }

    /// The choice for step `step`.
    pub(crate) fn of(&self, step: usize) -> Tuning {
        self.0.get(step).copied().unwrap_or(CANDIDATES[0])
    }
}

/// The calls of each step of a pass over one row.
fn calls(
    lowering: &mut Lowering<'_>,
    plan: &Plan,
    tuning: Tuning,
) -> Result<Vec<Vec<Call>>, Error> {
    lowering.tuning = tuning;
    plan.steps.iter().map(|step| lowering.step(step, Class::One, true)).collect()
}

/// The seconds of each step, for each candidate.
fn try_all(
    device: &Device,
    lowering: &Lowering<'_>,
    all: &[Vec<Vec<Call>>],
) -> Result<Vec<Vec<f64>>, Error> {
    let kernels: Vec<_> = lowering.kernels.values().cloned().collect();
    device.compile_all(&kernels)?;
    let stamps = Stamps::new(device, lowering.plan.steps.len() + 1)?;
    let extent = Extent { rows: 1, bound: 1, tiles: 0 };
    all.iter()
        .map(|calls| {
            let steps: Vec<_> = calls.iter().map(|calls| StepCalls { calls, extent }).collect();
            // a device that has idled takes a while to reach its speed
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

/// For each step the candidate with which all steps of its key together take least time.
fn best_of(keys: &[String], times: &[Vec<f64>]) -> Vec<Tuning> {
    let mut sums: HashMap<&str, [f64; CANDIDATES.len()]> = HashMap::new();
    for (i, key) in keys.iter().enumerate() {
        let sums = sums.entry(key).or_default();
        sums.iter_mut().zip(times).for_each(|(sum, times)| *sum += times[i]);
    }
    let best = |sums: &[f64; CANDIDATES.len()]| {
        let mut best = (CANDIDATES[0], sums[0] * (1.0 - GAIN));
        for (tuning, time) in CANDIDATES.iter().zip(sums).skip(1) {
            if *time < best.1 {
                best = (*tuning, *time);
            }
        }
        best.0
    };
    keys.iter().map(|key| best(&sums[key.as_str()])).collect()
}

/// What tells a step's kernels from those of other shapes, formats and versions of Pelton.
fn key(calls: &[Call]) -> String {
    let mut hasher = DefaultHasher::new();
    for call in calls {
        call.kernel.source().hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// A candidate as it is kept.
fn numbers(tuning: Tuning) -> [usize; 2] {
    [tuning.threads, tuning.groups]
}

/// A candidate, whatever a file says.
fn candidate(found: Option<&[usize; 2]>) -> Tuning {
    let of = |found: &[usize; 2]| CANDIDATES.into_iter().find(|known| numbers(*known) == *found);
    found.and_then(of).unwrap_or(CANDIDATES[0])
}

/// Where the user's programs keep what can be found out again.
pub(crate) fn cache_file() -> Option<PathBuf> {
    use etcetera::BaseStrategy;
    let directories = etcetera::choose_base_strategy().ok()?;
    Some(directories.cache_dir().join("pelton").join("gpu-tuning.json"))
}

/// All that is in the file, by device; nothing if it is not ours.
fn read_all(file: &Path) -> BTreeMap<String, Known> {
    /// Far above what many models on several devices leave.
    const MOST: u64 = 1 << 20;
    let mut text = Vec::new();
    let opened = fs::File::open(file).and_then(|file| file.take(MOST).read_to_end(&mut text));
    opened.ok().and_then(|_| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

fn read(file: &Path, maker: &str) -> Known {
    read_all(file).remove(maker).unwrap_or_default()
}

/// Adds what is known of a device. A file appears whole or not at all.
fn write(file: &Path, maker: &str, known: &Known) -> std::io::Result<()> {
    let mut all = read_all(file);
    all.entry(maker.to_owned()).or_default().extend(known.clone());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = file.with_extension(process::id().to_string());
    fs::write(&new, serde_json::to_vec_pretty(&all)?)?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_time_in_all_wins() {
        let keys = ["a", "b", "a", "c"].map(str::to_owned);
        let mut times = vec![vec![1.0; 4]; CANDIDATES.len()];
        // one step of two is no reason, and neither is noise
        times[1] = vec![0.2, 1.1, 1.9, 0.999];
        times[3] = vec![0.9, 0.7, 0.9, 1.0];
        let expected = [3, 3, 3, 0].map(|i| CANDIDATES[i]);
        assert_eq!(best_of(&keys, &times), expected);
    }

    #[test]
    fn what_was_found_is_kept_by_device() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deeper").join("tuning.json");
        assert!(read(&file, "x").is_empty());
        let known = Known::from([("k".to_owned(), [512, 132])]);
        write(&file, "x", &known).unwrap();
        write(&file, "y", &Known::from([("k".to_owned(), [256, 264])])).unwrap();
        assert_eq!(read(&file, "x"), known);
        assert_eq!(candidate(read(&file, "y").get("k")), CANDIDATES[3]);
        // a file that is not ours, and numbers that are not candidates
        for text in ["", "{", "[1]", r#"{"x": {"k": [1]}}"#] {
            fs::write(&file, text).unwrap();
            assert!(read(&file, "x").is_empty());
        }
        fs::write(&file, r#"{"x": {"k": [0, 99999999]}}"#).unwrap();
        assert_eq!(candidate(read(&file, "x").get("k")), CANDIDATES[0]);
    }
}
