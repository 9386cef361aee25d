//! Errors of the writer, and reading of written files by the Python package gguf.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::Command;

use pelton_quant::{DType, encode};
use pelton_testing::{Need, skip};
use pelton_weights::{Array, GgufWriter, Problem, ValueType};
use serde_json::{Value as Json, json};

#[test]
fn keys_are_checked() {
    let mut writer = GgufWriter::new();
    writer.set("k", 1u8).unwrap();
    assert!(matches!(writer.set("k", 2u8), Err(Problem::DuplicateKey { .. })));
    assert!(matches!(writer.set("", 1u8), Err(Problem::Name { .. })));
    assert!(matches!(writer.set("general.alignment", 64u64), Err(Problem::Alignment { .. })));
    assert!(matches!(writer.set("general.alignment", 3u32), Err(Problem::Alignment { .. })));
    writer.declare("t", DType::F32, &[1]).unwrap();
    let error = writer.set("general.alignment", 64u32).unwrap_err();
    assert_eq!(error.to_string(), "general.alignment was set after a tensor, expected it before");
}

#[test]
fn tensors_are_checked() {
    let mut writer = GgufWriter::new();
    let mut declare = |name: &str, dtype, shape: &[usize]| writer.declare(name, dtype, shape);
    declare("t", DType::F32, &[1]).unwrap();
    let rejected = declare("t", DType::F32, &[1]);
    assert!(matches!(rejected, Err(Problem::DuplicateTensor { .. })));
    assert!(matches!(declare("", DType::F32, &[1]), Err(Problem::Name { .. })));
    assert!(matches!(declare(&"x".repeat(65), DType::F32, &[1]), Err(Problem::Name { .. })));
    assert!(matches!(declare("a", DType::F32, &[]), Err(Problem::Dimensions { found: 0, .. })));
    let five = declare("a", DType::F32, &[1; 5]);
    assert!(matches!(five, Err(Problem::Dimensions { found: 5, .. })));
    assert!(matches!(declare("a", DType::F32, &[4, 0]), Err(Problem::Shape { .. })));
    let huge = declare("a", DType::F32, &[usize::MAX]);
    assert!(matches!(huge, Err(Problem::Shape { .. })));
    let row = declare("a", DType::Q4_K, &[128, 2]);
    assert!(matches!(row, Err(Problem::RowLength { row: 128, block: 256, .. })));
    // Two tensors whose sizes are valid, but whose sum overflows.
    declare("b", DType::F32, &[1 << 61]).unwrap();
    assert!(matches!(declare("c", DType::F32, &[1 << 61]), Err(Problem::Shape { .. })));
}

#[test]
fn bytes_are_checked() {
    let mut writer = GgufWriter::new();
    writer.declare("t", DType::F32, &[2]).unwrap();
    let mut body = writer.begin(Vec::new()).unwrap();
    let error = body.write(&[0; 4]).unwrap_err();
    assert_eq!(error.to_string(), "tensor \"t\" was written with 4 bytes, expected 8");
    // A rejected tensor may be written again.
    body.write(&[0; 8]).unwrap();
    assert!(matches!(body.write(&[0; 8]), Err(Problem::TensorBytes { expected: 0, .. })));
    body.finish().unwrap();

    let mut writer = GgufWriter::new();
    writer.declare("t", DType::F32, &[2]).unwrap();
    let unfinished = writer.begin(Vec::new()).unwrap().finish();
    assert!(matches!(unfinished, Err(Problem::TensorBytes { found: 0, expected: 8, .. })));
}

#[test]
fn mixed_arrays_are_rejected() {
    let mixed = Array::new(ValueType::U8, [pelton_weights::Value::from(1u8), 1u16.into()]);
    assert_eq!(
        mixed.unwrap_err().to_string(),
        "an array of u8 cannot contain an element of type u16"
    );
}

/// An output on a full disk.
#[derive(Debug)]
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn failing_outputs_are_reported() {
    let error = GgufWriter::new().begin(Full).unwrap_err();
    assert_eq!(error.to_string(), "cannot be written: no storage space");
    // A failure to flush buffered bytes is reported, too.
    let body = GgufWriter::new().begin(BufWriter::new(Full)).unwrap();
    assert!(matches!(body.finish(), Err(Problem::Write(_))));
}

/// The Python of `check`'s environment in `PELTON_PYTHON`, or that of the system, if it has the
/// package gguf.
fn python_with_gguf() -> Option<OsString> {
    let python = env::var_os("PELTON_PYTHON").unwrap_or_else(|| "python3".into());
    let import = Command::new(&python).args(["-c", "import gguf"]).output();
    if import.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    skip(Need::Python, format_args!("{} has no package gguf", python.display()));
    None
}

#[test]
fn python_reads_written_files() {
    let Some(python) = python_with_gguf() else { return };
    let mut keys: Vec<(&str, pelton_weights::Value, Json)> = vec![
        ("general.architecture", "test".into(), json!("test")),
        ("general.alignment", 128u32.into(), json!(128)),
        ("u8", u8::MAX.into(), json!(u8::MAX)),
        ("i8", i8::MIN.into(), json!(i8::MIN)),
        ("u16", u16::MAX.into(), json!(u16::MAX)),
        ("i16", i16::MIN.into(), json!(i16::MIN)),
        ("u32", u32::MAX.into(), json!(u32::MAX)),
        ("i32", i32::MIN.into(), json!(i32::MIN)),
        ("u64", u64::MAX.into(), json!(u64::MAX)),
        ("i64", i64::MIN.into(), json!(i64::MIN)),
        ("f32", 1.5f32.into(), json!(1.5)),
        ("f64", 0.1f64.into(), json!(0.1)),
        ("bool", true.into(), json!(true)),
        ("string", "grüße 🌍".into(), json!("grüße 🌍")),
    ];
    let arrays = [
        ("bools", Array::new(ValueType::Bool, [true, false]), json!([true, false])),
        ("f32s", Array::new(ValueType::F32, [0.5f32, -2.0]), json!([0.5, -2.0])),
        ("i32s", Array::new(ValueType::I32, [i32::MIN, 7]), json!([i32::MIN, 7])),
        ("strings", Array::new(ValueType::String, ["a", "", "ü"]), json!(["a", "", "ü"])),
    ];
    keys.extend(arrays.map(|(key, array, json)| (key, array.unwrap().into(), json)));

    let numbers: Vec<f32> = (0..96).map(|i| i as f32 / 4.0 - 12.0).collect();
    let tensors = [
        ("f32", DType::F32, vec![3, 32]),
        ("f16", DType::F16, vec![96]),
        ("q8_0", DType::Q8_0, vec![32, 3]),
        ("q4_0", DType::Q4_0, vec![32, 1, 3]),
    ];
    let mut writer = GgufWriter::new();
    for (key, value, _) in &keys {
        writer.set(key, value.clone()).unwrap();
    }
    for (name, dtype, shape) in &tensors {
        writer.declare(name, *dtype, shape).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.gguf");
    let mut body = writer.begin(BufWriter::new(File::create(&path).unwrap())).unwrap();
    let mut expected = Vec::new();
    for (name, dtype, shape) in &tensors {
        let mut bytes = Vec::new();
        encode(*dtype, &numbers, &mut bytes).unwrap();
        body.write(&bytes).unwrap();
        let mut decoded = vec![0.0; numbers.len()];
        pelton_quant::decode(*dtype, &bytes, &mut decoded).unwrap();
        let decoded: Vec<_> = decoded.iter().map(|number| f64::from(*number)).collect();
        expected.push(json!([name, dtype.name(), shape, decoded]));
    }
    body.finish().unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/read_gguf.py");
    let output = Command::new(python).arg(script).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Json = serde_json::from_slice(&output.stdout).unwrap();
    for (key, _, expected) in &keys {
        assert_eq!(&found["metadata"][*key], expected, "{key}");
    }
    assert_eq!(found["metadata"].as_object().unwrap().len(), keys.len());
    assert_eq!(found["tensors"], Json::from(expected));
}
