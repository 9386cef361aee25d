//! Calibrations: measured by a load, in files, and that of the built-in model.

use std::{fs, path::PathBuf, sync::Arc};

use pelton::{
    EffortFile, EffortOptions, EffortTables, Engine, LoadOptions, ModelSource,
    graph::{EffortGroup, EffortKind, EffortTable},
};
use pelton_cpu::Cpu;
use pelton_quant::DType::Q8_0;
use pelton_testing::ModelSpec;

use super::{by_hand, fixture, steps::logits};

/// The table with one group for each kind, with the same fraction at each effort or another for one kind.
fn with_fractions(table: &EffortTable, fractions: [&[f64]; 4]) -> EffortTable {
    let groups = EffortKind::ALL.into_iter().zip(fractions).map(|(kind, fractions)| EffortGroup {
        kind,
        layers: 0..=99,
        fractions: fractions.to_vec(),
    });
    table.clone().with_fractions(vec![0.3, 0.6], groups.collect()).unwrap()
}

#[test]
fn calibrations() {
    let load = |tables| {
        let effort = EffortOptions::default().tables(tables);
        let options = LoadOptions::default().context(64).effort(effort);
        Engine::with_backend(Cpu::new(2)).load(ModelSource::BuiltIn, &options)
    };
    let ids: Vec<u32> = (0..40).map(|i| 1 + i * 37 % 80).collect();
    let uniform = load(EffortTables::Uniform).unwrap();
    assert!(uniform.measured_effort() && uniform.effort_table().is_none());
    let measured = uniform.plan().effort.table.clone().unwrap();
    let same = with_fractions(&measured, [&[0.3, 0.6]; 4]);
    let other = [&[0.3, 0.6][..], &[0.3, 0.6], &[0.4, 0.5], &[0.3, 0.6]];
    let other = with_fractions(&measured, other);
    let [same_model, other_model] =
        [&same, &other].map(|table| load(EffortTables::Table(Arc::new(table.clone()))).unwrap());
    // files: only tables whose mean is the effort
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("effort-tables");
    let _ = fs::remove_dir_all(&folder);
    let checkpoint = pelton::built_in().unwrap();
    let path = EffortFile::path(&folder, same_model.plan(), &checkpoint);
    let error = EffortFile::write(&path, (other_model.plan(), &checkpoint), &other)
        .unwrap_err()
        .to_string();
    assert!(error.contains("of the bytes at the effort 0.3, expected 0.3"), "{error}");
    // the first load measures, later ones read its file
    for is_first in [true, false] {
        let found = load(EffortTables::Folder(folder.clone())).unwrap();
        assert_eq!(found.effort_table(), Some(&*path));
        assert_eq!(found.measured_effort(), is_first);
        assert_eq!(found.plan().effort.table, uniform.plan().effort.table);
    }
    EffortFile::write(&path, (same_model.plan(), &checkpoint), &same).unwrap();
    let found = load(EffortTables::Folder(folder.clone())).unwrap();
    assert_eq!(found.plan().effort.table.as_deref(), Some(&same));
    let [mut found, mut uniform, mut same_model, mut other_model] =
        [found, uniform, same_model, other_model].map(|model| by_hand(Ok(model)));
    assert_eq!(logits(&mut found, &ids, 30, 0.4), logits(&mut uniform, &ids, 30, 0.4));
    for effort in [0.6, 1.0, 0.3] {
        let expected = logits(&mut uniform, &ids, 30, effort);
        assert_eq!(logits(&mut same_model, &ids, 30, effort), expected, "{effort}");
        let found = logits(&mut other_model, &ids, 30, effort);
        assert_eq!(found == expected, effort == 1.0, "{effort}");
    }
    // a file that is no table of this model is refused
    let good = fs::read_to_string(&path).unwrap();
    let bad = folder.join("bad.json");
    let long = " ".repeat((1 << 24) + 1);
    let efforts = |new: &str| good.replace("\"efforts\":[0.3,0.6]", new);
    let scores = |new: &str| good.replacen("\"scores\":[", new, 1);
    for (text, what) in [
        (String::new(), "no JSON"),
        ("[".repeat(100_000), "no JSON"),
        ("[]".to_owned(), "expected the format"),
        (good.replace("table 2", "table 1"), "expected the format"),
        (good.replace("\"model\":\"", "\"model\":\"0"), "made for another model"),
        (good.replace("\"kind\":\"down\"", "\"kind\":\"up\""), "group 3 is not complete"),
        (good.replace(",99]", ",-1]"), "group 0 is not complete"),
        (good.replace(",99]", ",18446744073709551615]"), "group 0 is not complete"),
        (good.replace(",99]", ",0]"), "0 groups with the tensor 'blk.1."),
        (efforts("\"efforts\":[0.3,0.7]"), "of the bytes at the effort 0.7"),
        (efforts("\"efforts\":[1e999,0.6]"), "no JSON"),
        (efforts("\"efforts\":[-0.3,0.6]"), "expected one above 0"),
        (efforts("\"efforts\":[0.6,0.3]"), "ascend"),
        (scores("\"scores\":[1,"), "has 65 scores, expected 64"),
        (scores("\"scores\":null,\"x\":["), "has 0 scores, expected 64"),
        (good.replacen("\"first\":0", "\"first\":8", 1), "no scores of the tensor"),
        (long, "more than 16777216 bytes"),
    ] {
        fs::write(&bad, text).unwrap();
        let error = load(EffortTables::File(bad.clone())).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(what) && error.contains("bad.json"), "{what}: {error}");
    }
    assert!(load(EffortTables::File(folder.join("none.json"))).is_err());
}

/// The calibration of the built-in model that is part of the library is what a load measures; `PELTON_WRITE=1` writes it.
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
    if std::env::var_os("PELTON_WRITE").is_some() {
        let file = fixture("../../models/tiny/effort.json");
        fs::copy(measured.effort_table().unwrap(), file).unwrap();
    }
    let built_in = load(EffortTables::BuiltIn);
    assert!(!built_in.measured_effort() && built_in.effort_table().is_none());
    let [found, expected] =
        [&built_in, &measured].map(|model| model.plan().effort.table.clone().unwrap());
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
