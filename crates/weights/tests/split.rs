//! Models split into several files.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::path::{Path, PathBuf};

use pelton_quant::DType;
use pelton_weights::{Checkpoint, GgufWriter, Problem, Value};

/// Written by the Python package gguf; see `fixtures/make_gguf.py`.
#[test]
fn shards_by_another_writer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gguf");
    let shard = |number| folder.join(format!("split-{number:05}-of-00003.gguf"));
    let model = Checkpoint::open(shard(1)).unwrap();
    assert_eq!(model.metadata().string("general.name").unwrap(), "in three parts");
    assert_eq!(
        model.file_bytes(),
        (1..=3).map(|number| fs::metadata(shard(number)).unwrap().len()).sum::<u64>()
    );
    let names: Vec<_> = model.tensors().map(|tensor| tensor.name).collect();
    assert_eq!(names, ["tensor.0", "tensor.1", "tensor.2", "tensor.3", "tensor.4"]);
    for (number, tensor) in model.tensors().enumerate() {
        let expected = [-4.0, -3.875, -3.75, -3.625].map(|value| value + number as f32);
        assert_eq!(tensor.decode(), expected, "{}", tensor.name);
    }
}

/// A shard with one tensor and possibly invalid keys.
struct Shard {
    name: &'static str,
    keys: Vec<(&'static str, Value)>,
    tensor: &'static str,
}

/// The first or second shard of a valid model in two shards.
fn valid(number: u16) -> Shard {
    let (name, tensor) = match number {
        0 => ("m-00001-of-00002.gguf", "a"),
        _ => ("m-00002-of-00002.gguf", "b"),
    };
    let keys = vec![
        ("split.no", number.into()),
        ("split.count", 2u16.into()),
        ("split.tensors.count", 2i32.into()),
    ];
    Shard { name, keys, tensor }
}

fn with_key(mut shard: Shard, key: &str, value: impl Into<Value>) -> Shard {
    let value = value.into();
    shard.keys.iter_mut().find(|(name, _)| *name == key).unwrap().1 = value;
    shard
}

fn bytes(shard: &Shard) -> Vec<u8> {
    let mut writer = GgufWriter::new();
    for (key, value) in &shard.keys {
        writer.set(key, value.clone()).unwrap();
    }
    writer.declare(shard.tensor, DType::F32, &[1]).unwrap();
    let mut body = writer.begin(Vec::new()).unwrap();
    body.write(&[0; 4]).unwrap();
    body.finish().unwrap()
}

/// Writes the shards and opens the one named `name`.
fn open(shards: &[Shard], name: &str) -> (Result<Checkpoint, pelton_weights::Error>, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for shard in shards {
        fs::write(folder.path().join(shard.name), bytes(shard)).unwrap();
    }
    (Checkpoint::open(folder.path().join(name)), folder.path().to_owned())
}

macro_rules! assert_rejected {
    ($shards:expr, $open:expr, $variant:pat, $file:expr, $message:expr) => {{
        let (result, folder) = open(&$shards, $open);
        let error = result.map(|_| ()).unwrap_err();
        assert!(matches!(error.problem(), $variant), "{error:?}");
        assert_eq!(error.to_string(), format!("{}: {}", folder.join($file).display(), $message));
    }};
}

const FIRST: &str = "m-00001-of-00002.gguf";
const SECOND: &str = "m-00002-of-00002.gguf";

#[test]
fn both_shards_are_found() {
    let model = open(&[valid(0), valid(1)], FIRST).0.unwrap();
    assert_eq!(model.tensors().len(), 2);
    assert!(model.tensor("a").is_some() && model.tensor("b").is_some());
}

#[test]
fn a_split_into_one_shard_is_a_model() {
    let shard = with_key(with_key(valid(0), "split.count", 1u16), "split.tensors.count", 1);
    let shard = Shard { name: "any.gguf", ..shard };
    assert!(open(&[shard], "any.gguf").0.is_ok());
}

#[test]
fn only_the_first_shard_opens() {
    assert_rejected!(
        [valid(0), valid(1)],
        SECOND,
        Problem::NotFirstShard { number: 2, count: 2, .. },
        SECOND,
        "shard 2 of a split model of 2, expected the first shard, m-00001-of-00002.gguf"
    );
    let renamed = Shard { name: "other.gguf", ..valid(1) };
    assert_rejected!(
        [renamed],
        "other.gguf",
        Problem::NotFirstShard { .. },
        "other.gguf",
        "shard 2 of a split model of 2, expected the first shard"
    );
}

#[test]
fn the_name_must_determine_the_others() {
    let renamed = Shard { name: "other.gguf", ..valid(0) };
    assert_rejected!(
        [renamed],
        "other.gguf",
        Problem::ShardName { count: 2 },
        "other.gguf",
        "the first of 2 shards has no name of the form NAME-00001-of-00002.gguf, so the others cannot be located"
    );
    // An implausible count is rejected without opening shards.
    let many = with_key(valid(0), "split.count", u64::MAX);
    assert!(matches!(open(&[many], FIRST).0.unwrap_err().problem(), Problem::ShardName { .. }));
}

#[test]
fn a_missing_shard_is_named() {
    let (result, folder) = open(&[valid(0)], FIRST);
    let error = result.unwrap_err();
    assert_eq!(error.file(), folder.join(FIRST).display().to_string());
    assert!(
        matches!(error.problem(), Problem::MissingShards { missing: 1, count: 2, .. })
            && error.to_string().contains(&format!("1 of 2 shards is missing: download {SECOND}")),
        "{error}"
    );
}

#[test]
fn shards_must_agree() {
    let second = |key, value: Value| [valid(0), with_key(valid(1), key, value)];
    let rejected = |key, value: Value, message| {
        assert_rejected!(second(key, value), FIRST, Problem::Shard { .. }, SECOND, message);
    };
    rejected("split.no", 0u16.into(), "split.no is 0, expected 1");
    rejected("split.count", 3u16.into(), "split.count is 3, expected 2");
    rejected("split.tensors.count", 3i32.into(), "split.tensors.count is 3, expected 2");
    rejected("split.count", 1u16.into(), "split.count is 1, expected 2");

    let whole = Shard { keys: Vec::new(), ..valid(1) };
    assert_rejected!(
        [valid(0), whole],
        FIRST,
        Problem::Shard { .. },
        SECOND,
        "split.count is missing, expected 2"
    );
    assert_rejected!(
        second("split.no", (-1i32).into()),
        FIRST,
        Problem::KeyType { .. },
        SECOND,
        "metadata key \"split.no\" is the i32 -1, expected an integer of 0 or more"
    );
    let mut keys = valid(0).keys;
    keys.remove(0);
    assert_rejected!(
        [Shard { keys, ..valid(0) }],
        FIRST,
        Problem::MissingKey { .. },
        FIRST,
        "metadata key \"split.no\" is missing, expected an integer of 0 or more"
    );
}

#[test]
fn tensors_must_be_complete_and_unique() {
    let counting = |number| with_key(valid(number), "split.tensors.count", 3);
    assert_rejected!(
        [counting(0), counting(1)],
        FIRST,
        Problem::SplitTensors { found: 2, expected: 3 },
        FIRST,
        "the shards have 2 tensors in total, expected 3 (split.tensors.count)"
    );
    assert_rejected!(
        [valid(0), Shard { tensor: "a", ..valid(1) }],
        FIRST,
        Problem::DuplicateTensor { .. },
        FIRST,
        "tensor \"a\" occurs twice, expected once"
    );
}

#[test]
fn a_shard_in_memory_is_incomplete() {
    let error = Checkpoint::from_bytes("built-in", bytes(&valid(0))).unwrap_err();
    assert!(matches!(error.problem(), Problem::ShardInMemory { count: 2 }));
    assert_eq!(error.to_string(), "built-in: one of 2 shards, expected a complete model in memory");
}

#[test]
fn paths_without_a_regular_file_are_rejected() {
    // A folder is a Hugging Face directory, which has a configuration.
    let folder = tempfile::tempdir().unwrap();
    let error = Checkpoint::open(folder.path()).unwrap_err();
    assert_eq!(Path::new(error.file()), folder.path().join("config.json"));
    assert!(matches!(error.problem(), Problem::Read(_)), "{error}");
    // An empty file cannot be mapped, but its error differs from that of a missing file.
    let empty = tempfile::NamedTempFile::new().unwrap();
    let error = Checkpoint::open(empty.path()).unwrap_err();
    assert!(matches!(error.problem(), Problem::Empty), "{error}");
}
