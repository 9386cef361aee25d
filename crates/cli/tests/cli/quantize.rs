//! `pelton convert` and `pelton quantize`.

use std::{fs, path::Path};

use super::{fixture, refused, run, stdout, temporary};

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
