//! Directories of AWQ and GPTQ: their types, and what is refused.
//! `crates/engine/tests/engine/models.rs` compares the weights with an expansion in numpy, by a
//! model's logits.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::path::{Path, PathBuf};

use pelton_quant::DType;
use pelton_weights::Checkpoint;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

const Q: &str = "model.layers.0.self_attn.q_proj";

fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models").join(name)
}

/// A copy with a changed `config.json`, header and bytes of tensors.
fn changed(name: &str, change: impl FnOnce(&mut Json, &mut Json, &mut [u8])) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let read = |file: &str| fs::read(model(name).join(file)).unwrap();
    let mut config: Json = serde_json::from_slice(&read("config.json")).unwrap();
    let weights = read("model.safetensors");
    let end = 8 + u64::from_le_bytes(*weights.first_chunk().unwrap()) as usize;
    let mut header: Json = serde_json::from_slice(&weights[8..end]).unwrap();
    let mut data = weights[end..].to_vec();
    change(&mut config, &mut header, &mut data);
    let header = header.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    folder
}

fn refused(folder: &TempDir) -> String {
    Checkpoint::open(folder.path()).map(|_| ()).unwrap_err().to_string()
}

/// No matrix is expanded to floats.
#[test]
fn types_without_loss() {
    for (name, types) in [
        ("llama-awq", &[DType::Q4_0, DType::Q5_0][..]),
        ("llama-gptq", &[DType::Q4_0, DType::Q5_0]),
        ("qwen2-gptq-int8", &[DType::Q8_0]),
    ] {
        let model = Checkpoint::open(model(name)).unwrap();
        let matrices = model.tensors().filter(|tensor| tensor.name.starts_with("blk."));
        let matrices: Vec<_> = matrices.filter(|tensor| tensor.shape.len() == 2).collect();
        assert_eq!(matrices.len(), 14, "{name}");
        for tensor in matrices {
            assert!(types.contains(&tensor.dtype), "{name} {}: {}", tensor.name, tensor.dtype);
        }
    }
}

#[test]
fn configurations() {
    let cases: [(&str, &str, Json, &str); 14] = [
        ("llama-awq", "bits", json!(3), "has 3 bits, expected 4 for AWQ"),
        ("llama-gptq", "bits", json!(3), "expected 4 for AWQ, and 2, 4 or 8 for GPTQ"),
        ("llama-gptq", "bits", json!(8), "which do not fit 8 bits in groups of 32"),
        ("llama-gptq", "bits", json!(u64::MAX), "bits"),
        ("llama-awq", "group_size", json!(33), "has groups of 33"),
        ("llama-awq", "group_size", json!(0), "group"),
        ("llama-awq", "group_size", json!(-1), "which do not fit 4 bits in groups of all inputs"),
        ("llama-awq", "group_size", json!(64), "which do not fit 4 bits in groups of 64"),
        ("llama-awq", "group_size", json!(1u64 << 62), "expected an integer from 0 to 2^31 - 1"),
        ("llama-awq", "group_size", json!("x"), "group_size"),
        ("llama-awq", "version", json!("gemv"), "AWQ version \"gemv\", expected gemm"),
        ("llama-gptq", "checkpoint_format", json!("marlin"), "expected gptq or gptq_v2"),
        (
            "llama-gptq",
            "quant_method",
            json!("hqq"),
            "quant_method \"hqq\", expected awq, gptq or compressed-tensors",
        ),
        ("llama-gptq", "quant_method", json!("awq"), "which do not fit"),
    ];
    for (name, key, value, expected) in cases {
        let folder =
            changed(name, |config, _, _| config["quantization_config"][key] = value.clone());
        let error = refused(&folder);
        assert!(error.contains(expected), "{key} {value}: {error}");
    }
    let folder = changed("llama-awq", |config, _, _| {
        config.as_object_mut().unwrap().remove("quantization_config");
    });
    assert!(refused(&folder).contains("config.json has no \"quantization_config\""));
}

#[test]
fn tensors() {
    // a part that is missing has the name of another, unknown tensor
    for part in ["qzeros", "scales"] {
        let folder = changed("llama-awq", |_, header, _| {
            header.as_object_mut().unwrap().remove(&format!("{Q}.{part}")).unwrap();
        });
        let error = refused(&folder);
        assert!(error.contains(&format!("lacks its {part}")), "{error}");
    }
    let folder = changed("llama-awq", |_, header, _| {
        header[format!("{Q}.scales")]["shape"] = json!([2, 32]);
    });
    assert!(refused(&folder).contains("which do not fit"));
    let folder = changed("llama-awq", |_, header, _| {
        header[format!("{Q}.qweight")]["dtype"] = json!("F32");
    });
    assert!(refused(&folder).contains("expected I32"));
    let folder = changed("llama-awq", |_, header, _| {
        header[format!("{Q}.scales")]["dtype"] = json!("I16");
    });
    assert!(refused(&folder).contains("expected F16, BF16 or F32"));
}

/// Inputs in another order than their groups ("act-order") are refused by name.
#[test]
fn reordered_inputs() {
    let place = format!("{Q}.g_idx");
    let folder = changed("llama-gptq", |_, header, data| {
        let at = header[&place]["data_offsets"][0].as_u64().unwrap() as usize;
        data[at] ^= 1;
    });
    assert!(refused(&folder).contains("reordered inputs (desc_act)"));
    let folder = changed("llama-gptq", |config, header, _| {
        config["quantization_config"]["desc_act"] = json!(true);
        header.as_object_mut().unwrap().remove(&place).unwrap();
    });
    assert!(refused(&folder).contains("reordered inputs (desc_act)"));
}

/// GPTQ's second format stores zeros as they are.
#[test]
fn zeros_of_the_second_format() {
    let open = |format: &str| {
        let folder = changed("llama-gptq", |config, _, _| {
            config["quantization_config"]["checkpoint_format"] = json!(format);
        });
        let model = Checkpoint::open(folder.path()).unwrap();
        model.tensor("blk.0.attn_q.weight").unwrap().decode()
    };
    let scales = |values: &[f32], other: &[f32]| {
        values.iter().zip(other).map(|(a, b)| b - a).collect::<Vec<_>>()
    };
    // w = scale (code - zero), so a zero that is one less adds the scale, and never 0
    let steps = scales(&open("gptq"), &open("gptq_v2"));
    let groups: Vec<_> = steps.chunks(32).collect();
    assert!(groups.iter().all(|group| group.iter().all(|step| (step - group[0]).abs() < 1e-6)));
    assert!(groups.iter().filter(|group| group[0] > 0.0).count() > groups.len() / 2);
}

/// The directory of GPTQ as compressed-tensors packs it
/// (`compressors/quantized_compressors/pack_quantized.py` of PyPI compressed-tensors 0.12.2): codes
/// along inputs, zeros along outputs, scales by outputs.
fn compressed(change: impl FnOnce(&mut Json)) -> TempDir {
    let nibble = |words: &[u8], at: usize| words[at / 2] >> (at % 2 * 4) & 15;
    changed_tensors("llama-gptq", |config, tensors| {
        config["quantization_config"] = json!({
            "quant_method": "compressed-tensors", "format": "pack-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                "num_bits": 4, "type": "int", "symmetric": false, "strategy": "group", "group_size": 32,
            }}},
        });
        change(&mut config["quantization_config"]);
        let modules: Vec<String> = tensors
            .keys()
            .filter_map(|name| Some(name.strip_suffix(".qweight")?.to_owned()))
            .collect();
        for module in modules {
            let mut take = |end: &str| tensors.remove(&format!("{module}.{end}")).unwrap();
            let ((_, words, codes), (_, _, zeros)) = (take("qweight"), take("qzeros"));
            let (dtype, shape, scales) = take("scales");
            take("g_idx");
            let (inputs, outputs, groups) = (8 * words[0], words[1], shape[0]);
            // the code of an input is in the word of its eight inputs and its output
            let code = |input: usize, output: usize| {
                nibble(&codes[4 * (input / 8 * outputs + output)..], input % 8)
            };
            let zero =
                |group: usize, output: usize| (nibble(&zeros, group * outputs + output) + 1) & 15;
            let pack = |all: Vec<u8>| all.chunks(2).map(|two| two[0] | two[1] << 4).collect();
            let rows =
                (0..outputs).flat_map(|output| (0..inputs).map(move |input| (input, output)));
            let packed: Vec<u8> = pack(rows.map(|(input, output)| code(input, output)).collect());
            let words =
                (0..outputs / 8).flat_map(|word| (0..groups).map(move |group| (word, group)));
            let zeros = words.flat_map(|(word, group)| (0..8).map(move |i| (group, 8 * word + i)));
            let zeros: Vec<u8> = pack(zeros.map(|(group, output)| zero(group, output)).collect());
            let size = scales.len() / (groups * outputs);
            let places =
                (0..outputs).flat_map(|output| (0..groups).map(move |g| g * outputs + output));
            let scales = places.flat_map(|at| scales[at * size..][..size].to_vec()).collect();
            let mut put = |end: &str, dtype: &str, shape: [usize; 2], bytes: Vec<u8>| {
                tensors
                    .insert(format!("{module}.{end}"), (dtype.to_owned(), shape.to_vec(), bytes));
            };
            put("weight_packed", "I32", [outputs, inputs / 8], packed);
            put("weight_zero_point", "I32", [outputs / 8, groups], zeros);
            put("weight_scale", &dtype, [outputs, groups], scales);
        }
    })
}

/// Tensors by name: type, shape, bytes.
type Tensors = std::collections::BTreeMap<String, (String, Vec<usize>, Vec<u8>)>;

/// A copy with a changed `config.json` and other tensors.
fn changed_tensors(name: &str, change: impl FnOnce(&mut Json, &mut Tensors)) -> TempDir {
    let mut tensors = Tensors::new();
    let mut config = Json::Null;
    let folder = changed(name, |own, header, data| {
        let (names, read) =
            (header.as_object().unwrap(), |value: &Json| value.as_u64().unwrap() as usize);
        for (name, tensor) in names.iter().filter(|(name, _)| *name != "__metadata__") {
            let shape = tensor["shape"].as_array().unwrap().iter().map(read).collect();
            let [from, to] = [0, 1].map(|end| read(&tensor["data_offsets"][end]));
            let dtype = tensor["dtype"].as_str().unwrap().to_owned();
            tensors.insert(name.clone(), (dtype, shape, data[from..to].to_vec()));
        }
        config = own.clone();
    });
    change(&mut config, &mut tensors);
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, (dtype, shape, bytes)) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert(name, json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}));
        data.extend(bytes);
    }
    let header = Json::from(header).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    folder
}

#[test]
fn compressed_tensors() {
    let expected = Checkpoint::open(model("llama-gptq")).unwrap();
    let found = Checkpoint::open(compressed(|_| ()).path()).unwrap();
    let mut matrices = 0;
    for tensor in expected.tensors() {
        let other = found.tensor(tensor.name).unwrap();
        assert_eq!((other.dtype, &other.shape), (tensor.dtype, &tensor.shape), "{}", tensor.name);
        assert_eq!(other.decode(), tensor.decode(), "{}", tensor.name);
        matrices += usize::from(tensor.shape.len() == 2);
    }
    assert!(matrices >= 14);
    let weights = ["config_groups", "group_0", "weights"];
    let cases = [
        (
            vec!["format"],
            json!("nvfp4-pack-quantized"),
            "compressed-tensors format \"nvfp4-pack-quantized\"",
        ),
        ([&weights[..], &["num_bits"]].concat(), json!(3), "has weights of 3 bits of type int"),
        ([&weights[..], &["type"]].concat(), json!("float"), "4 bits of type float"),
        ([&weights[..], &["group_size"]].concat(), json!(33), "by group of 33"),
        (
            [&weights[..], &["group_size"]].concat(),
            json!(64),
            "which do not fit 4 bits in groups of 64",
        ),
        ([&weights[..], &["strategy"]].concat(), json!("block"), "by block of 32"),
        (vec!["config_groups"], json!({}), "has no config_groups"),
    ];
    for (path, value, expected) in cases {
        let folder = compressed(|own| {
            let place = path.iter().fold(own, |place, key| &mut place[*key]);
            *place = value.clone();
        });
        let error = refused(&folder);
        assert!(error.contains(expected), "{path:?}: {error}");
    }
}

/// Weights of `int-quantized` and `float-quantized`, which have a scale for each row, or one.
#[test]
fn compressed_bytes() {
    for (dtype, of_scales, scales) in
        [("I8", "BF16", 32), ("I8", "F32", 1), ("F8_E4M3", "BF16", 32), ("F8_E4M3", "F32", 1)]
    {
        let mut expected = Vec::new();
        let folder = changed_tensors("llama-gptq", |config, tensors| {
            config.as_object_mut().unwrap().remove("quantization_config");
            let parts = ["qweight", "qzeros", "scales", "g_idx"];
            let modules: Vec<String> = tensors
                .keys()
                .filter_map(|n| Some(n.strip_suffix(".qweight")?.to_owned()))
                .collect();
            for module in modules {
                let [(_, words, _), ..] =
                    parts.map(|part| tensors.remove(&format!("{module}.{part}")).unwrap());
                let (inputs, outputs) = (8 * words[0], words[1]);
                let codes: Vec<u8> =
                    (0..inputs * outputs).map(|i| (i * 37 % 251) as u8 & 0xbf).collect();
                let count = if scales == 1 { 1 } else { outputs };
                let scale =
                    |row: usize| if scales == 1 { 1.0 / 3.0 } else { (row % 7 + 1) as f32 / 64.0 };
                let bytes = (0..count).flat_map(|row| match of_scales {
                    "F32" => scale(row).to_le_bytes().to_vec(),
                    _ => scale(row).to_le_bytes()[2..].to_vec(),
                });
                let shape = if scales == 1 { vec![1] } else { vec![outputs, 1] };
                let put = format!("{module}.weight_scale");
                tensors.insert(put, (of_scales.to_owned(), shape, bytes.collect()));
                tensors
                    .insert(format!("{module}.input_scale"), ("F32".into(), vec![1], vec![0; 4]));
                if module == Q {
                    let value = |(at, &code): (usize, &u8)| match dtype {
                        "I8" => scale(at / inputs) * f32::from(code.cast_signed()),
                        _ => scale(at / inputs) * e4m3(code),
                    };
                    expected = codes.iter().enumerate().map(value).collect();
                }
                let weight = (dtype.to_owned(), vec![outputs, inputs], codes);
                tensors.insert(format!("{module}.weight"), weight);
            }
        });
        let model = Checkpoint::open(folder.path()).unwrap();
        // rows of queries are in another order for GGUF, so the sums are compared
        let got = model.tensor("blk.0.attn_q.weight").unwrap();
        let exact = dtype == "I8" && scales > 1;
        assert_eq!(got.dtype == DType::Q8_0, exact, "{dtype} {of_scales}");
        let sorted = |mut values: Vec<f32>| {
            values.sort_by(f32::total_cmp);
            values
        };
        for (got, expected) in sorted(got.decode()).iter().zip(sorted(expected)) {
            assert!((got - expected).abs() <= expected.abs() / 256.0, "{got} {expected}");
        }
    }
}

/// The value of a finite float of 8 bits with 4 of exponent.
fn e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let magnitude = match exponent {
        0 => mantissa * 2f32.powi(-9),
        _ => (8.0 + mantissa) * 2f32.powi(exponent - 10),
    };
    if byte & 0x80 == 0 { magnitude } else { -magnitude }
}
