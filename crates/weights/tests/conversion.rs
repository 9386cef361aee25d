//! GGUF files that [`Conversion`] writes, compared with quantization at load, and with the values
//! before.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::path::Path;

use pelton_quant::{DType, encode, encode_weighted};
use pelton_weights::{Checkpoint, Conversion, GgufWriter, Importance, Keys, Quantize, Value};

const NAMES: [&str; 8] = [
    "token_embd.weight",
    "blk.0.attn_norm.weight",
    "blk.0.attn_q.weight",
    "blk.0.attn_v.weight",
    "blk.0.ffn_down_exps.weight",
    "blk.1.attn_v.weight",
    "blk.1.ffn_gate_inp.weight",
    "output.weight",
];

/// Columns, rows and matrices.
fn shape(name: &str) -> Vec<usize> {
    match name {
        "blk.0.attn_norm.weight" => vec![512],
        "blk.0.ffn_down_exps.weight" => vec![512, 3, 2],
        // not a whole number of super-blocks
        "blk.0.attn_q.weight" => vec![96, 4],
        _ => vec![512, 4],
    }
}

fn values(name: &str) -> Vec<f32> {
    let len: usize = shape(name).iter().product();
    (0..len).map(|i| ((i * i + name.len()) as f32 * 0.37).sin()).collect()
}

/// A model of these tensors in `dtype`, with `bad` at the third value of the matrix of values.
fn model(dtype: DType, bad: Option<f32>) -> Checkpoint {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", "llama").unwrap();
    writer.set("llama.block_count", 2u32).unwrap();
    writer.set("llama.expert_count", 2u32).unwrap();
    writer.set("general.file_type", 99u32).unwrap();
    writer.set("split.no", 0u16).unwrap();
    writer.set("general.name", "a model").unwrap();
    let of = |name: &str| if shape(name).len() > 1 { dtype } else { DType::F32 };
    for name in NAMES {
        writer.declare(name, of(name), &shape(name)).unwrap();
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    for name in NAMES {
        let mut values = values(name);
        if let (Some(bad), "blk.0.attn_v.weight") = (bad, name) {
            values[2] = bad;
        }
        let mut bytes = Vec::new();
        encode(of(name), &values, &mut bytes).unwrap();
        body.write(&bytes).unwrap();
    }
    Checkpoint::from_bytes("model", body.finish().unwrap()).unwrap()
}

fn written(conversion: &Conversion<'_>) -> Checkpoint {
    let mut steps = Vec::new();
    let file = conversion.write(Vec::new(), |done, all| steps.push((done, all))).unwrap();
    let bytes: u64 = conversion.tensors().map(|(tensor, _)| tensor.bytes.len() as u64).sum();
    assert!(steps.is_sorted() && steps.last() == Some(&(bytes, bytes)), "{steps:?}");
    Checkpoint::from_bytes("written", file).unwrap()
}

#[test]
fn a_file_has_the_tensors_of_a_load() {
    for mix in Quantize::all() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let plain = model(dtype, None);
            let conversion = Conversion::quantize(&plain, mix, None).unwrap().threads(3);
            let file = written(&conversion);
            let loaded = model(dtype, None).quantized(mix, |_, _| {}).unwrap();
            for (found, expected) in file.tensors().zip(loaded.tensors()) {
                let what = format!("{mix:?} {dtype} {}", expected.name);
                assert_eq!((found.name, found.dtype), (expected.name, expected.dtype), "{what}");
                assert!(found.shape == expected.shape && found.bytes == expected.bytes, "{what}");
            }
            assert_eq!(file.metadata().u32("general.file_type").unwrap(), mix.file_type());
            assert_eq!(file.metadata().u32("general.quantization_version").unwrap(), 2);
            assert_eq!(file.metadata().string("general.name").unwrap(), "a model");
            assert_eq!(file.metadata().get("split.no"), None);
        }
    }
}

#[test]
fn types_by_name() {
    let plain = model(DType::F16, None);
    let mut conversion = Conversion::quantize(&plain, Quantize::Q4_K_M, None).unwrap();
    assert_eq!(conversion.set_type("blk.*.attn_v.*", DType::Q8_0).unwrap(), 2);
    let file = written(&conversion);
    assert_eq!(file.tensor("blk.1.attn_v.weight").unwrap().dtype, DType::Q8_0);
    assert_eq!(file.tensor("blk.1.ffn_gate_inp.weight").unwrap().dtype, DType::F16);
    // neither norms and routers nor rows that blocks do not divide
    for (pattern, dtype, part) in [
        ("*norm*", DType::Q8_0, "no matrix of F32, F16 or BF16 has this name"),
        ("*gate_inp*", DType::Q8_0, "no matrix of F32, F16 or BF16 has this name"),
        ("blk.0.attn_q.weight", DType::Q4_K, "its rows have 96 elements"),
        ("output.weight", DType::IQ2_S, "expected a type with an encoder"),
    ] {
        let error = conversion.set_type(pattern, dtype).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(&dtype.to_string()), "{error}");
    }
}

#[test]
fn values_without_a_code_are_refused_by_name() {
    for (mix, bad) in [
        (Quantize::Q4_K_M, f32::NAN),
        (Quantize::F16, f32::NAN),
        (Quantize::F16, f32::INFINITY),
        (Quantize::F16, 70_000.0),
        (Quantize::BF16, f32::NEG_INFINITY),
    ] {
        let plain = model(DType::F32, Some(bad));
        let conversion = Conversion::quantize(&plain, mix, None).unwrap();
        let error = conversion.write(Vec::new(), |_, _| {}).unwrap_err().to_string();
        let parts = ["blk.0.attn_v.weight", "row 0"];
        assert!(parts.iter().all(|part| error.contains(part)), "{mix:?} {bad}: {error}");
    }
}

/// The importance of two matrices: of values, and of two experts of which one was never used.
fn importance() -> [(&'static str, Vec<f32>, Vec<f32>); 2] {
    let sums = |n: usize| (0..n).map(|i| if i % 5 == 0 { 700.0 } else { 3.5 }).collect();
    [
        ("blk.0.attn_v.weight", sums(512), vec![7.0]),
        ("blk.0.ffn_down_exps.weight", sums(1024), vec![2.0, 0.0]),
    ]
}

fn gguf_of_importance(folder: &Path) -> Importance {
    let mut writer = GgufWriter::new();
    writer.set("general.type", "imatrix").unwrap();
    writer.set("imatrix.chunk_count", 7u32).unwrap();
    for (name, sums, counts) in importance() {
        writer.declare(&format!("{name}.in_sum2"), DType::F32, &[512, sums.len() / 512]).unwrap();
        writer.declare(&format!("{name}.counts"), DType::F32, &[1, counts.len()]).unwrap();
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    for values in importance().into_iter().flat_map(|(_, sums, counts)| [sums, counts]) {
        body.write(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    }
    let path = folder.join("importance.gguf");
    std::fs::write(&path, body.finish().unwrap()).unwrap();
    Importance::open(path).unwrap()
}

#[test]
fn importance_reaches_the_encoder() {
    let folder = tempfile::tempdir().unwrap();
    let importance_file = gguf_of_importance(folder.path());
    assert_eq!(importance_file.len(), 2);
    let plain = model(DType::F32, None);
    let conversion =
        Conversion::quantize(&plain, Quantize::Q4_K_S, Some(&importance_file)).unwrap();
    let file = written(&conversion);
    for (name, sums, counts) in importance() {
        let found = file.tensor(name).unwrap();
        let (mut expected, values) = (Vec::new(), values(name));
        let matrices = sums.chunks(512).zip(&counts);
        for ((sums, count), values) in matrices.zip(values.chunks(values.len() / counts.len())) {
            let mean = |sum: &f32| if *count > 0.0 { sum / count } else { 1.0 };
            let importance: Vec<_> = sums.iter().map(mean).collect();
            encode_weighted(found.dtype, values, &importance, &mut expected).unwrap();
        }
        assert!(found.bytes == expected, "{name}");
        let mut without = Vec::new();
        encode(found.dtype, &values, &mut without).unwrap();
        assert!(found.bytes != without, "{name}: the importance has an effect");
    }
    assert!(file.metadata().string("quantize.imatrix.file").unwrap().ends_with("importance.gguf"));
}

/// The older form has the same importance.
#[test]
fn the_older_form_of_importance() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::from(1i32.to_le_bytes());
    let (name, sums, counts) = &importance()[0];
    bytes.extend((name.len() as i32).to_le_bytes());
    bytes.extend(name.as_bytes());
    bytes.extend((counts[0] as i32).to_le_bytes());
    bytes.extend((sums.len() as i32).to_le_bytes());
    bytes.extend(sums.iter().flat_map(|v| v.to_le_bytes()));
    let path = folder.path().join("importance.dat");
    std::fs::write(&path, &bytes).unwrap();
    let (old, new) = (Importance::open(&path).unwrap(), gguf_of_importance(folder.path()));
    let plain = model(DType::F32, None);
    let bytes_of = |importance: &Importance| {
        let conversion = Conversion::quantize(&plain, Quantize::Q6_K, Some(importance)).unwrap();
        written(&conversion).tensor(name).unwrap().bytes.to_vec()
    };
    assert!(bytes_of(&old) == bytes_of(&new));
    // any part of it is refused, and never read past its end
    for length in 0..bytes.len() {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert!(Importance::open(&path).is_err(), "{length}");
    }
    // lengths that no file has
    for at in [0, 4, 8 + name.len(), 12 + name.len()] {
        for value in [-1, i32::MAX] {
            let mut bytes = bytes.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            std::fs::write(&path, &bytes).unwrap();
            let calls = at == 8 + name.len() && value > 0;
            assert_eq!(Importance::open(&path).is_ok(), calls, "{at} {value}");
        }
    }
}

#[test]
fn importance_of_another_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = GgufWriter::new();
    for (name, shape) in [("in_sum2", [256, 1]), ("counts", [1, 1])] {
        let name = format!("blk.0.attn_v.weight.{name}");
        writer.declare(&name, DType::F32, &shape).unwrap();
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    body.write(&[0; 1024]).unwrap();
    body.write(&1f32.to_le_bytes()).unwrap();
    let path = folder.path().join("other.gguf");
    std::fs::write(&path, body.finish().unwrap()).unwrap();
    let importance = Importance::open(&path).unwrap();
    let plain = model(DType::F32, None);
    let error = Conversion::quantize(&plain, Quantize::Q6_K, Some(&importance)).unwrap_err();
    assert!(error.to_string().contains("it belongs to another model"), "{error}");
}

#[test]
fn tensors_in_parts() {
    let mut writer = GgufWriter::new();
    writer.declare("a", DType::F32, &[3]).unwrap();
    writer.declare("b", DType::F32, &[1]).unwrap();
    let mut body = writer.clone().begin(Vec::new()).unwrap();
    body.write_part(&[1; 5]).unwrap();
    let error = body.write(&[1; 12]).unwrap_err().to_string();
    assert!(error.contains("\"a\" was written with 12 bytes"), "{error}");
    let error = body.write_part(&[1; 8]).unwrap_err().to_string();
    assert!(error.contains("\"a\" was written with 13 bytes, expected 12"), "{error}");
    body.write_part(&[1; 7]).unwrap();
    body.write(&[2; 4]).unwrap();
    let parts = body.finish().unwrap();
    let mut body = writer.clone().begin(Vec::new()).unwrap();
    body.write(&[1; 12]).unwrap();
    body.write(&[2; 4]).unwrap();
    assert!(parts == body.finish().unwrap());
    let mut body = writer.begin(Vec::new()).unwrap();
    body.write_part(&[1; 5]).unwrap();
    let error = body.finish().unwrap_err().to_string();
    assert!(error.contains("\"a\" was written with 5 bytes"), "{error}");
}

/// A key is replaced where the model has it.
#[test]
fn keys() {
    let plain = model(DType::F32, None);
    let conversion = Conversion::convert(&plain, None).unwrap().key("general.name", "another");
    let file = written(&conversion);
    assert_eq!(file.metadata().string("general.name").unwrap(), "another");
    assert_eq!(Keys::new(file.metadata()).unwrap().architecture(), "llama");
    assert_eq!(file.metadata().get("general.file_type"), Some(&Value::from(0u32)));
}
