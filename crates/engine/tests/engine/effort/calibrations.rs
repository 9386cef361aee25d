//! Calibrations: measured by a load, in files, and that of the built-in model.

use std::{fs, path::PathBuf};

use pelton::{EffortOptions, EffortTables, EffortUse, Engine, LoadOptions, ModelSource};
use pelton_cpu::Cpu;
use pelton_quant::DType::Q8_0;
use pelton_testing::ModelSpec;

use super::fixture;

/// The first load measures, later ones read its file; a file that is no table of
/// this model is refused.
#[test]
fn calibrations() {
    let load = |tables| {
        let effort = EffortOptions::default().tables(tables);
        let options = LoadOptions::default().context(64).effort(effort);
        Engine::with_backend(Cpu::new(2)).load(ModelSource::BuiltIn, &options)
    };
    let plain = load(EffortTables::Measured).unwrap();
    let runs = |thresholds, measured| EffortUse::Runs { thresholds, measured };
    assert_eq!(plain.effort_use(), Some(&runs(None, true)));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("effort-tables");
    let _ = fs::remove_dir_all(&folder);
    let mut path = None;
    for is_first in [true, false] {
        let found = load(EffortTables::Folder(folder.clone())).unwrap();
        path = fs::read_dir(&folder).unwrap().next().map(|file| file.unwrap().path());
        assert_eq!(found.effort_use(), Some(&runs(path.clone(), is_first)));
        assert_eq!(found.plan().marks.table, plain.plan().marks.table);
    }
    let path = path.unwrap();
    let good = fs::read_to_string(&path).unwrap();
    let scores = |new: &str| good.replacen("\"scores\":[", new, 1);
    for (text, what) in [
        (String::new(), "no JSON"),
        ("[".repeat(100_000), "no JSON"),
        ("[]".to_owned(), "expected the format"),
        (good.replace("table 3", "table 1"), "expected the format"),
        (good.replace("\"model\":\"", "\"model\":\"0"), "made for another model"),
        (scores("\"scores\":[1,"), "has 65 scores, expected 64"),
        (scores("\"scores\":[1e999,"), "no JSON"),
        (scores("\"scores\":null,\"x\":["), "has 0 scores, expected 64"),
        (good.replacen("\"first\":0", "\"first\":8", 1), "no scores of the tensor"),
        (" ".repeat((1 << 24) + 1), "more than 16777216 bytes"),
    ] {
        fs::write(&path, text).unwrap();
        let error = load(EffortTables::Folder(folder.clone())).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(what) && error.contains(path.to_str().unwrap()), "{what}: {error}");
    }
}

/// The calibration of the built-in model that is part of the library is what a load measures;
/// `PELTON_WRITE=1` writes it.
#[test]
fn the_built_in_calibration() {
    let load = |tables| {
        let effort = EffortOptions::default().tables(tables);
        let options = LoadOptions::default().context(64).effort(effort);
        Engine::with_backend(Cpu::new(2)).load(ModelSource::BuiltIn, &options).unwrap()
    };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("built-in-calibration");
    let _ = fs::remove_dir_all(&folder);
    let measured = load(EffortTables::Folder(folder));
    let Some(EffortUse::Runs { thresholds: Some(file), .. }) = measured.effort_use() else {
        panic!("{:?}", measured.effort_use());
    };
    if std::env::var_os("PELTON_WRITE").is_some() {
        fs::copy(file, fixture("../../models/tiny/thresholds.json")).unwrap();
    }
    let built_in = load(EffortTables::BuiltIn);
    let runs = EffortUse::Runs { thresholds: None, measured: false };
    assert_eq!(built_in.effort_use(), Some(&runs));
    let [found, expected] =
        [&built_in, &measured].map(|model| model.plan().marks.table.clone().unwrap());
    assert_eq!(found.matrices().len(), expected.matrices().len());
    for (found, expected) in found.matrices().iter().zip(expected.matrices()) {
        assert_eq!(found.tensor, expected.tensor);
        let pairs = found.scores.quantiles().iter().zip(expected.scores.quantiles());
        for (found, expected) in pairs {
            // sums of another CPU may have another order
            assert!((found - expected).abs() <= 1e-3 * expected, "{found} for {expected}");
        }
    }
    // no other model has it
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("no-built-in.gguf");
    fs::write(&path, ModelSpec::wide(Q8_0).file(&[])).unwrap();
    let options = LoadOptions::default()
        .context(64)
        .effort(EffortOptions::default().tables(EffortTables::BuiltIn));
    let error = Engine::with_backend(Cpu::new(2)).load(path, &options).err().unwrap();
    assert!(error.to_string().contains("made for another model"), "{error}");
}
