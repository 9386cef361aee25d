//! Metadata and tensors of a file of all types written by the Python package gguf
//! (see `fixtures/make_gguf.py`), and the errors of invalid lookups.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::path::Path;

use pelton_quant::DType;
use pelton_weights::{Array, Checkpoint, Error, GgufWriter, Problem, Value, ValueType};

fn every_type() -> Checkpoint {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gguf/every-type.gguf");
    Checkpoint::open(path).unwrap()
}

#[test]
fn scalars() {
    let model = every_type();
    let expected: [(&str, Value); 16] = [
        ("general.architecture", "test".into()),
        ("general.alignment", 64u32.into()),
        ("scalar.u8", u8::MAX.into()),
        ("scalar.i8", i8::MIN.into()),
        ("scalar.u16", u16::MAX.into()),
        ("scalar.i16", i16::MIN.into()),
        ("scalar.u32", u32::MAX.into()),
        ("scalar.i32", i32::MIN.into()),
        ("scalar.u64", u64::MAX.into()),
        ("scalar.i64", i64::MIN.into()),
        ("scalar.f32", 1.5f32.into()),
        ("scalar.f64", 0.1f64.into()),
        ("scalar.true", true.into()),
        ("scalar.false", false.into()),
        ("scalar.string", "grüße 🌍".into()),
        ("scalar.empty", "".into()),
    ];
    let found: Vec<_> = model.metadata().iter().take(16).collect();
    assert_eq!(found, expected.iter().map(|(key, value)| (*key, value)).collect::<Vec<_>>());
}

#[test]
fn arrays() {
    fn check<T: Into<Value> + Copy>(key: &str, items: &[T]) {
        let model = every_type();
        let Some(Value::Array(array)) = model.metadata().get(key) else { panic!("no {key}") };
        let expected: Vec<Value> = items.iter().map(|item| (*item).into()).collect();
        assert_eq!(array.values().collect::<Vec<_>>(), expected, "{key}");
        assert_eq!((array.len(), array.is_empty()), (items.len(), false), "{key}");
        assert_eq!(array.item_type(), expected[0].value_type(), "{key}");
    }
    check("array.u8", &[0, u8::MAX]);
    check("array.i8", &[i8::MIN, i8::MAX]);
    check("array.u16", &[0, u16::MAX]);
    check("array.i16", &[i16::MIN, i16::MAX]);
    check("array.u32", &[0, u32::MAX]);
    check("array.i32", &[i32::MIN, i32::MAX]);
    check("array.u64", &[0, u64::MAX]);
    check("array.i64", &[i64::MIN, i64::MAX]);
    check("array.f32", &[-0.5f32, 2.25]);
    check("array.f64", &[0.1f64, -1e300]);
    check("array.bool", &[true, false, true]);
    check("array.string", &["a", "", "ü"]);
}

#[test]
fn nested_arrays() {
    let model = every_type();
    let strings = |items: &[&'static str]| {
        Value::Array(Array::new(ValueType::String, items.iter().copied()).unwrap())
    };
    let Some(Value::Array(nested)) = model.metadata().get("array.nested") else { panic!() };
    assert_eq!(nested.item_type(), ValueType::Array);
    assert_eq!(nested.values().collect::<Vec<_>>(), [strings(&["a"]), strings(&["b", "c"])]);
    assert_eq!(model.metadata().iter().len(), 30);
}

#[test]
fn tensors() {
    let model = every_type();
    let numbers = |count: usize| -> Vec<f32> { (0..count).map(|i| i as f32 / 8.0 - 4.0).collect() };
    let names: Vec<_> = model.tensors().map(|tensor| tensor.name).collect();
    assert_eq!(names, ["vector.f32", "matrix.f16", "matrix.q8_0", "four.f32"]);

    let vector = model.require("vector.f32", &[5]).unwrap();
    assert_eq!((vector.dtype, vector.decode()), (DType::F32, numbers(5)));
    let matrix = model.require("matrix.f16", &[2, 3]).unwrap();
    assert_eq!((matrix.dtype, matrix.decode()), (DType::F16, numbers(6)));
    assert_eq!((matrix.row_len(), matrix.rows()), (2, 3));
    let four = model.require("four.f32", &[4, 3, 1, 2]).unwrap();
    assert_eq!((four.row_len(), four.rows(), four.decode()), (4, 6, numbers(24)));
    let quantized = model.require("matrix.q8_0", &[32, 2]).unwrap();
    assert_eq!(quantized.dtype, DType::Q8_0);
    for (found, expected) in quantized.decode().iter().zip(numbers(64)) {
        assert!((found - expected).abs() <= 4.0 / 127.0, "{found} {expected}");
    }
}

#[test]
fn required_tensors() {
    let model = every_type();
    // Trailing dimensions of 1 are ignored, inner ones are not.
    assert!(model.require("vector.f32", &[5, 1, 1]).is_ok());
    let error = |name, shape: &[usize]| model.require(name, shape).unwrap_err().to_string();
    let file = model.name();
    assert_eq!(
        error("nothing", &[5]),
        format!("{file}: tensor \"nothing\" is missing, expected one of shape [5]")
    );
    assert_eq!(
        error("four.f32", &[4, 3, 2]),
        format!("{file}: tensor \"four.f32\" has shape [4, 3, 1, 2], expected [4, 3, 2]")
    );
    assert_eq!(
        error("matrix.f16", &[3, 2]),
        format!("{file}: tensor \"matrix.f16\" has shape [2, 3], expected [3, 2]")
    );
    assert!(model.tensor("nothing").is_none());
}

/// Integers convert between integer types, binary64 converts to binary32; nothing else converts.
#[test]
fn conversions() {
    let model = every_type();
    let metadata = model.metadata();
    assert_eq!(metadata.u32("scalar.u8").unwrap(), 255);
    assert_eq!(metadata.u32("scalar.u32").unwrap(), u32::MAX);
    assert_eq!(metadata.u64("scalar.u64").unwrap(), u64::MAX);
    assert_eq!(metadata.usize("scalar.u16").unwrap(), 65535);
    assert_eq!(metadata.f32("scalar.f32").unwrap(), 1.5);
    assert_eq!(metadata.f32("scalar.f64").unwrap(), 0.1);
    assert!(metadata.bool("scalar.true").unwrap());
    assert_eq!(metadata.string("scalar.empty").unwrap(), "");
    assert_eq!(metadata.opt_f32_array("array.f32").unwrap().unwrap(), [-0.5, 2.25]);
    assert_eq!(metadata.opt_i32_array("array.i32").unwrap().unwrap(), [i32::MIN, i32::MAX]);
    assert_eq!(metadata.opt_i32_array("array.u16").unwrap().unwrap(), [0, 65535]);
    let strings = metadata.string_array("array.string").unwrap();
    assert_eq!(strings.len(), 3);
    assert_eq!(strings.collect::<Result<Vec<_>, _>>().unwrap(), ["a", "", "ü"]);
    let bytes = metadata.opt_bytes_array("array.bytes").unwrap().unwrap();
    assert_eq!(bytes.collect::<Vec<_>>(), [&b"\xff"[..], b"ok"]);
}

#[test]
fn absent_keys() {
    let model = every_type();
    let metadata = model.metadata();
    assert_eq!(metadata.get("none"), None);
    assert_eq!(metadata.opt_string("none").unwrap(), None);
    assert_eq!(metadata.opt_u32("none").unwrap(), None);
    assert_eq!(metadata.opt_usize("none").unwrap(), None);
    assert_eq!(metadata.opt_f32("none").unwrap(), None);
    assert_eq!(metadata.opt_bool("none").unwrap(), None);
    assert!(metadata.opt_string_array("none").unwrap().is_none());
    assert!(metadata.opt_bytes_array("none").unwrap().is_none());
    assert_eq!(metadata.opt_f32_array("none").unwrap(), None);
    assert_eq!(metadata.opt_i32_array("none").unwrap(), None);

    let missing = |result: Result<(), Error>, expected: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error.problem(), Problem::MissingKey { .. }));
        let file = model.name();
        assert_eq!(
            error.to_string(),
            format!("{file}: metadata key \"none\" is missing, expected {expected}")
        );
    };
    missing(metadata.string("none").map(drop), "a string");
    missing(metadata.u32("none").map(drop), "an integer from 0 to 2^32 - 1");
    missing(metadata.u64("none").map(drop), "an integer from 0 to 2^64 - 1");
    missing(
        metadata.usize("none").map(drop),
        "an integer of 0 or more that fits in a machine word",
    );
    missing(metadata.f32("none").map(drop), "a floating-point number");
    missing(metadata.bool("none").map(drop), "a bool");
    missing(metadata.string_array("none").map(drop), "an array of strings");
}

#[test]
fn wrong_types() {
    let model = every_type();
    let metadata = model.metadata();
    let wrong = |result: Result<(), Error>, message: &str| {
        let error = result.unwrap_err();
        assert!(matches!(error.problem(), Problem::KeyType { .. }));
        assert_eq!(error.to_string(), format!("{}: metadata key {message}", model.name()));
    };
    wrong(metadata.string("scalar.u8").map(drop), "\"scalar.u8\" is the u8 255, expected a string");
    wrong(
        metadata.u32("scalar.i32").map(drop),
        "\"scalar.i32\" is the i32 -2147483648, expected an integer from 0 to 2^32 - 1",
    );
    wrong(
        metadata.u32("scalar.u64").map(drop),
        "\"scalar.u64\" is the u64 18446744073709551615, expected an integer from 0 to 2^32 - 1",
    );
    wrong(
        metadata.u64("scalar.f32").map(drop),
        "\"scalar.f32\" is the f32 1.5, expected an integer from 0 to 2^64 - 1",
    );
    wrong(
        metadata.f32("scalar.u32").map(drop),
        "\"scalar.u32\" is the u32 4294967295, expected a floating-point number",
    );
    wrong(metadata.bool("scalar.u8").map(drop), "\"scalar.u8\" is the u8 255, expected a bool");
    wrong(
        metadata.opt_usize("scalar.string").map(drop),
        "\"scalar.string\" is a string, expected an integer of 0 or more that fits in a machine \
         word",
    );
    wrong(
        metadata.u32("scalar.true").map(drop),
        "\"scalar.true\" is the bool true, expected an integer from 0 to 2^32 - 1",
    );
    wrong(
        metadata.string_array("array.u8").map(drop),
        "\"array.u8\" is an array of 2 u8, expected an array of strings",
    );
    wrong(
        metadata.opt_f32_array("array.f64").map(drop),
        "\"array.f64\" is an array of 2 f64, expected an array of f32",
    );
    for key in ["array.u32", "array.f32", "array.string"] {
        let error = metadata.opt_i32_array(key).unwrap_err().to_string();
        assert!(error.ends_with("expected an array of integers from -2^31 to 2^31 - 1"), "{error}");
    }
}

#[test]
fn strings_that_are_not_utf8() {
    let model = every_type();
    let mut strings = model.metadata().string_array("array.bytes").unwrap();
    let error = strings.next().unwrap().unwrap_err();
    assert!(matches!(error.problem(), Problem::Utf8 { .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "{}: metadata key \"array.bytes\" has a string at index 0 that is not UTF-8",
            model.name()
        )
    );
    assert_eq!(strings.next().unwrap().unwrap(), "ok");

    let mut writer = GgufWriter::new();
    writer.set("x", Value::String(b"\xff".as_slice().into())).unwrap();
    let bytes = writer.begin(Vec::new()).unwrap().finish().unwrap();
    let model = Checkpoint::from_bytes("m", bytes).unwrap();
    assert_eq!(
        model.metadata().string("x").unwrap_err().to_string(),
        "m: metadata key \"x\" has a string that is not UTF-8"
    );
}
