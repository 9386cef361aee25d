//! `pelton convert` and `pelton quantize`.

use std::{fs, path::Path};

use super::{fixture, json, refused, run, stdout, temporary};

/// The logits of a model for the ids of a fixture.
fn logits(model: &str, more: &[&str]) -> Vec<f32> {
    let path = temporary(&format!("{}-{}.npy", std::process::id(), model.replace('/', "_")));
    let ids = "1,5,9,2,7,3,11,4";
    let mut args = vec!["logits", model, "--kv", "f32", "--ids", ids, "-o", path.to_str().unwrap()];
    args.extend(more);
    stdout(&run(&args));
    let bytes = fs::read(path).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[header..].as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn new_file(name: &str) -> String {
    let path = temporary(name);
    let _ = fs::remove_file(&path);
    path.to_str().unwrap().to_owned()
}

/// A converted directory has its logits, and its tokens.
#[test]
fn convert_keeps_logits_and_tokens() {
    for name in ["llama3", "qwen3", "gemma3", "granite", "phi3", "mixtral"] {
        let (directory, file) =
            (fixture(&format!("models/{name}")), new_file(&format!("{name}.gguf")));
        // a file of the same model is in the folder, next to config.json
        let said = run(&["convert", &directory, &file]);
        assert!(said.status.success() && said.stdout.is_empty(), "{said:?}");
        assert!(String::from_utf8_lossy(&said.stderr).contains("bits a weight"), "{said:?}");
        let (found, expected) = (logits(&file, &[]), logits(&directory, &[]));
        assert!(found.len() == expected.len() && !found.is_empty());
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-4, "{name}: {a}, expected {b}");
        }
        for text in ["Once upon a time", " x\n\n  y = 12345;", "déjà vu 你好 🙂"] {
            let ids = |model: &str| stdout(&run(&["tokenize", model, text, "--ids"]));
            assert_eq!(ids(&file), ids(&directory), "{name}: {text:?}");
        }
    }
}

/// A quantized file and quantization at load are the same model.
#[test]
fn quantize_is_the_option_of_a_load() {
    let directory = fixture("models/llama-wide");
    let converted = new_file("wide.gguf");
    stdout(&run(&["convert", &directory, &converted, "--type", "f32"]));
    for to in ["q4_k_m", "q2_k", "iq4_xs", "q5_1"] {
        let file = new_file(&format!("wide-{to}.gguf"));
        stdout(&run(&["quantize", &converted, &file, to, "-t", "2"]));
        assert_eq!(logits(&file, &[]), logits(&converted, &["--quantize", to]), "{to}");
        let text = |args: &[&str]| stdout(&run(args));
        let greedy = ["--temperature", "0", "-n", "8"];
        let of = |words: &[&str]| text(&[&["run"][..], words, &["Once upon"], &greedy].concat());
        assert_eq!(of(&[&file]), of(&[&converted, "--quantize", to]), "{to}");
    }
}

/// Nothing is replaced without --force, and nothing is left of a file that failed.
#[test]
fn files_are_whole_or_not_there() {
    let folder = temporary("quantize");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let file = folder.join("out.gguf");
    let (model, out) = (fixture("models/llama-wide"), file.to_str().unwrap());
    fs::write(&file, "mine").unwrap();
    let said = refused(&["quantize", &model, out, "q8_0"], 1);
    assert!(said.contains("exists already, expected another name or --force"), "{said}");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    stdout(&run(&["quantize", &model, out, "q8_0", "--force"]));
    assert!(fs::read(&file).unwrap().starts_with(b"GGUF"));
    // a file of quantized matrices has nothing to quantize
    let said = refused(&["quantize", out, &format!("{out}.2"), "q4_0"], 1);
    assert!(said.contains("no matrix whose type would change"), "{said}");
    let said =
        refused(&["quantize", &model, &format!("{out}.2"), "q4_0", "--override", "x=q8_0"], 1);
    assert!(said.contains("no matrix of F32, F16 or BF16 has this name"), "{said}");
    let said = refused(&["quantize", &model, &format!("{out}.2"), "q9"], 2);
    assert!(said.contains("expected one of F32, F16"), "{said}");
    let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["out.gguf"]);
    assert!(Path::new(&model).exists());
}

/// The words of llama.cpp's programs: no output, types by name or number, --outfile and --outtype.
#[test]
fn as_the_programs_of_llama_cpp() {
    let folder = temporary("as-llama-cpp");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (directory, model) = (fixture("models/llama-wide"), path("in.gguf"));
    stdout(&run(&["convert", &directory, "--outfile", &model, "--outtype", "F16"]));
    let types = |file: &str| stdout(&run(&["inspect", file]));
    assert!(types(&model).contains("F16"));
    for (word, name) in [("q4_k_m", "Q4_K_M"), ("7", "Q8_0")] {
        stdout(&run(&["quantize", &model, word]));
        let beside = path(&format!("ggml-model-{name}.gguf"));
        let named = path("out.gguf");
        stdout(&run(&["quantize", &model, &named, name, "--force"]));
        assert_eq!(fs::read(&beside).unwrap(), fs::read(&named).unwrap(), "{word}");
    }
    let said = refused(&["quantize", &model, "q9"], 1);
    assert!(said.contains("q9 is no type") && said.contains("Q4_K_M"), "{said}");
    refused(&["convert", &directory], 2);
    refused(&["convert", &directory, &model, "--outfile", &model], 2);
    // a directory without a tokenizer
    for name in ["config.json", "model.safetensors"] {
        fs::copy(Path::new(&directory).join(name), folder.join(name)).unwrap();
    }
    let said = run(&["convert", folder.to_str().unwrap(), &path("silent.gguf")]);
    assert!(said.status.success(), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stderr).contains("has no tokenizer.json"), "{said:?}");
}

/// An adapter of PEFT as a GGUF file.
#[test]
fn adapters() {
    let folder = temporary("adapter-to-convert");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let base = fixture("models/llama3");
    let config = fs::read_to_string(Path::new(&base).join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    let size = |key: &str| config[key].as_u64().unwrap() as usize;
    let hidden = size("hidden_size");
    let inputs = size("num_attention_heads") * size("head_dim");
    let (a, b) = (vec![0.25f32; 2 * inputs], vec![0.5f32; 2 * hidden]);
    let data: Vec<u8> = a.iter().chain(&b).flat_map(|value| value.to_le_bytes()).collect();
    let module = "base_model.model.model.layers.0.self_attn.o_proj";
    let half = 4 * a.len();
    let header = serde_json::json!({
        format!("{module}.lora_A.weight"): {"dtype": "F32", "shape": [2, inputs], "data_offsets": [0, half]},
        format!("{module}.lora_B.weight"): {"dtype": "F32", "shape": [hidden, 2], "data_offsets": [half, data.len()]},
    });
    let header = header.to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    fs::write(folder.join("adapter_model.safetensors"), file).unwrap();
    let settings = r#"{"peft_type": "LORA", "r": 2, "lora_alpha": 4}"#;
    fs::write(folder.join("adapter_config.json"), settings).unwrap();
    let (adapter, out) = (folder.to_str().unwrap(), new_file("adapter.gguf"));
    let said = refused(&["convert", adapter, &out], 1);
    assert!(said.contains("--base MODEL"), "{said}");
    let said = refused(&["convert", adapter, &out, "--base", &base, "--type", "q8_0"], 1);
    assert!(said.contains("f32, f16 or bf16"), "{said}");
    stdout(&run(&["convert", adapter, &out, "--base", &base]));
    let gguf = format!("{base}/model.gguf");
    let (found, expected) = (logits(&gguf, &["--lora", &out]), logits(&gguf, &["--lora", adapter]));
    assert_eq!(found, expected);
    assert_ne!(found, logits(&gguf, &[]));
}

/// A directory with a vision tower becomes two files, of which both or none are written.
#[test]
fn models_that_see_become_two_files() {
    let folder = temporary("models-that-see");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let left = || {
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let (directory, out, tower) = (fixture("vision/gemma3"), path("a.gguf"), path("mmproj-a.gguf"));
    fs::write(&tower, "mine").unwrap();
    let said = refused(&["convert", &directory, &out], 1);
    assert!(said.contains("mmproj-a.gguf exists already"), "{said}");
    assert_eq!(
        (fs::read(&tower).unwrap(), left()),
        (b"mine".to_vec(), vec!["mmproj-a.gguf".into()])
    );
    let said = run(&["convert", &directory, &out, "--force"]);
    let notes = String::from_utf8(said.stderr.clone()).unwrap();
    assert!(said.status.success(), "{notes}");
    assert!(
        notes.contains(&format!("{out}: ")) && notes.contains(&format!("{tower}: ")),
        "{notes}"
    );
    let shown = |model: &str| json(&["inspect", model, "--json"])["tower"].take();
    let (found, expected) = (shown(&out), shown(&directory));
    assert!(found["file"].as_str().unwrap().ends_with("mmproj-a.gguf"), "{found}");
    for key in ["projector", "parameters", "picture_tokens", "embedding_width"] {
        assert_eq!(found[key], expected[key], "{key}");
    }

    // a file of a tower alone
    stdout(&run(&["quantize", &tower, &path("b.gguf"), "f16"]));
    stdout(&run(&["quantize", &directory, &path("c.gguf"), "q4_k_m", "--pictures", "off"]));
    assert_eq!(left(), ["a.gguf", "b.gguf", "c.gguf", "mmproj-a.gguf"]);
    stdout(&run(&["quantize", &directory, &path("c.gguf"), "q8_0", "--force"]));
    assert_eq!(left(), ["a.gguf", "b.gguf", "c.gguf", "mmproj-a.gguf", "mmproj-c.gguf"]);

    // towers that no file can have, and no file
    let unknown = path("unknown");
    fs::create_dir(&unknown).unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(Path::new(&directory).join(name), Path::new(&unknown).join(name)).unwrap();
    }
    let config = Path::new(&unknown).join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    let said = refused(&["convert", &unknown, &path("d.gguf")], 1);
    assert!(said.contains("lacks preprocessor_config.json"), "{said}");
    fs::write(&config, text.replace("siglip_vision_model", "mystery")).unwrap();
    let said = refused(&["convert", &unknown, &path("d.gguf")], 1);
    assert!(said.contains("the vision tower 'mystery of gemma3' is not supported"), "{said}");
    assert!(said.contains("--pictures off"), "{said}");
    assert!(!left().contains(&"d.gguf".into()));
    #[cfg(unix)]
    {
        let said = refused(&["convert", &directory, "/dev/null"], 1);
        assert!(said.contains("/dev/null is no file"), "{said}");
    }
}
