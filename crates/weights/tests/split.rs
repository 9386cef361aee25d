//! Models in several files.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pelton_quant::DType;
use pelton_weights::{Checkpoint, GgufWriter, Problem, Value};

/// Written by the Python package gguf; see `fixtures/make_gguf.py`.
#[test]
fn parts_by_another_writer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gguf");
    let part = |number| folder.join(format!("split-{number:05}-of-00003.gguf"));
    let model = Checkpoint::open(part(1)).unwrap();
    assert_eq!(model.metadata().string("general.name").unwrap(), "in three parts");
    assert_eq!(
        model.file_bytes(),
        (1..=3).map(|number| fs::metadata(part(number)).unwrap().len()).sum::<u64>()
    );
    let names: Vec<_> = model.tensors().map(|tensor| tensor.name).collect();
    assert_eq!(names, ["tensor.0", "tensor.1", "tensor.2", "tensor.3", "tensor.4"]);
    for (number, tensor) in model.tensors().enumerate() {
        let expected = [-4.0, -3.875, -3.75, -3.625].map(|value| value + number as f32);
        assert_eq!(tensor.decode(), expected, "{}", tensor.name);
    }
}

/// A part with one tensor, with keys that may be wrong.
struct Part {
    name: &'static str,
    keys: Vec<(&'static str, Value)>,
    tensor: &'static str,
}

/// The first or second part of a sound model in two.
fn sound(number: u16) -> Part {
    let (name, tensor) = match number {
        0 => ("m-00001-of-00002.gguf", "a"),
        _ => ("m-00002-of-00002.gguf", "b"),
    };
    let keys = vec![
        ("split.no", number.into()),
        ("split.count", 2u16.into()),
        ("split.tensors.count", 2i32.into()),
    ];
    Part { name, keys, tensor }
}

fn with_key(mut part: Part, key: &str, value: impl Into<Value>) -> Part {
    let value = value.into();
    part.keys.iter_mut().find(|(name, _)| *name == key).unwrap().1 = value;
    part
}

fn bytes(part: &Part) -> Vec<u8> {
    let mut writer = GgufWriter::new();
    for (key, value) in &part.keys {
        writer.set(key, value.clone()).unwrap();
    }
    writer.declare(part.tensor, DType::F32, &[1]).unwrap();
    let mut body = writer.begin(Vec::new()).unwrap();
    body.write(&[0; 4]).unwrap();
    body.finish().unwrap()
}

/// Writes the parts and opens the one of that name.
fn open(parts: &[Part], name: &str) -> (Result<Checkpoint, pelton_weights::Error>, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for part in parts {
        fs::write(folder.path().join(part.name), bytes(part)).unwrap();
    }
    (Checkpoint::open(folder.path().join(name)), folder.path().to_owned())
}

macro_rules! assert_refused {
    ($parts:expr, $open:expr, $variant:pat, $file:expr, $message:expr) => {{
        let (result, folder) = open(&$parts, $open);
        let error = result.map(|_| ()).unwrap_err();
        assert!(matches!(error.problem(), $variant), "{error:?}");
        assert_eq!(error.to_string(), format!("{}: {}", folder.join($file).display(), $message));
    }};
}

const FIRST: &str = "m-00001-of-00002.gguf";
const SECOND: &str = "m-00002-of-00002.gguf";

#[test]
fn both_parts_are_found() {
    let model = open(&[sound(0), sound(1)], FIRST).0.unwrap();
    assert_eq!(model.tensors().len(), 2);
    assert!(model.tensor("a").is_some() && model.tensor("b").is_some());
}

#[test]
fn one_part_of_one_is_a_whole_model() {
    let part = with_key(with_key(sound(0), "split.count", 1u16), "split.tensors.count", 1);
    let part = Part { name: "any.gguf", ..part };
    assert!(open(&[part], "any.gguf").0.is_ok());
}

#[test]
fn only_the_first_part_opens() {
    assert_refused!(
        [sound(0), sound(1)],
        SECOND,
        Problem::NotFirstPart { number: 2, count: 2, .. },
        SECOND,
        "part 2 of a split model of 2, expected the first part, m-00001-of-00002.gguf"
    );
    let renamed = Part { name: "other.gguf", ..sound(1) };
    assert_refused!(
        [renamed],
        "other.gguf",
        Problem::NotFirstPart { .. },
        "other.gguf",
        "part 2 of a split model of 2, expected the first part"
    );
}

#[test]
fn the_name_must_lead_to_the_others() {
    let renamed = Part { name: "other.gguf", ..sound(0) };
    assert_refused!(
        [renamed],
        "other.gguf",
        Problem::PartName { count: 2 },
        "other.gguf",
        "the first of 2 parts, but not named NAME-00001-of-00002.gguf, so the others cannot be found"
    );
    // A count out of all proportion is not tried.
    let many = with_key(sound(0), "split.count", u64::MAX);
    assert!(matches!(open(&[many], FIRST).0.unwrap_err().problem(), Problem::PartName { .. }));
}

#[test]
fn a_missing_part_is_named() {
    let (result, folder) = open(&[sound(0)], FIRST);
    let error = result.unwrap_err();
    assert_eq!(error.file(), folder.join(SECOND).display().to_string());
    assert!(
        matches!(error.problem(), Problem::Read(cause) if cause.kind() == ErrorKind::NotFound),
        "{error}"
    );
}

#[test]
fn parts_must_agree() {
    let second = |key, value: Value| [sound(0), with_key(sound(1), key, value)];
    let refused = |key, value: Value, message| {
        assert_refused!(second(key, value), FIRST, Problem::Part { .. }, SECOND, message);
    };
    refused("split.no", 0u16.into(), "split.no is 0, expected 1");
    refused("split.count", 3u16.into(), "split.count is 3, expected 2");
    refused("split.tensors.count", 3i32.into(), "split.tensors.count is 3, expected 2");
    refused("split.count", 1u16.into(), "split.count is 1, expected 2");

    let whole = Part { keys: Vec::new(), ..sound(1) };
    assert_refused!(
        [sound(0), whole],
        FIRST,
        Problem::Part { .. },
        SECOND,
        "split.count is missing, expected 2"
    );
    assert_refused!(
        second("split.no", (-1i32).into()),
        FIRST,
        Problem::KeyType { .. },
        SECOND,
        "metadata key \"split.no\" is the i32 -1, expected a number of 0 or more"
    );
    let mut keys = sound(0).keys;
    keys.remove(0);
    assert_refused!(
        [Part { keys, ..sound(0) }],
        FIRST,
        Problem::MissingKey { .. },
        FIRST,
        "metadata key \"split.no\" is missing, expected a number of 0 or more"
    );
}

#[test]
fn tensors_must_be_all_there_and_once() {
    let counting = |number| with_key(sound(number), "split.tensors.count", 3);
    assert_refused!(
        [counting(0), counting(1)],
        FIRST,
        Problem::SplitTensors { found: 2, expected: 3 },
        FIRST,
        "the parts hold 2 tensors together, expected 3 (split.tensors.count)"
    );
    assert_refused!(
        [sound(0), Part { tensor: "a", ..sound(1) }],
        FIRST,
        Problem::DuplicateTensor { .. },
        FIRST,
        "tensor \"a\" occurs twice, expected once"
    );
}

#[test]
fn a_part_in_memory_has_no_others() {
    let error = Checkpoint::from_bytes("built-in", bytes(&sound(0))).unwrap_err();
    assert!(matches!(error.problem(), Problem::EmbeddedPart { count: 2 }));
    assert_eq!(error.to_string(), "built-in: one of 2 parts, expected a model in one part");
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Checkpoint::open(folder.path()).unwrap_err();
    let folder = folder.path().display();
    assert_eq!(error.to_string(), format!("{folder}: cannot be read: not a regular file"));
    // An empty file cannot be mapped, and still is told apart from a missing one.
    let empty = tempfile::NamedTempFile::new().unwrap();
    let error = Checkpoint::open(empty.path()).unwrap_err();
    assert!(matches!(error.problem(), Problem::Magic { .. }), "{error}");
}
