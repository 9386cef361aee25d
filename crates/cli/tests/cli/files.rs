//! `pelton inspect`, `tokenize` and `logits`.

use std::{fs, io::Read, process::Stdio};

use super::{fixture, json, pelton, refused, run, stdout, temporary};

#[test]
fn a_closed_pipe_ends_quietly() {
    let mut child = pelton()
        .args(["inspect", "built-in", "--tensors", "--plan"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn inspect() {
    let text = stdout(&run(&["inspect", &fixture("logits/llama.gguf"), "--tensors", "--plan"]));
    for part in ["llama.block_count", "blk.0.attn_q.weight", "F32", "norm_linear", "layer × 2"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let object =
        json(&["inspect", &fixture("models/qwen3/model.gguf"), "--tensors", "--plan", "--json"]);
    assert_eq!(object["metadata"]["general.architecture"], "qwen3");
    assert!(object["tensors"].as_array().unwrap().len() > 20);
    assert!(object["plan"][0].as_str().unwrap().starts_with("qwen3"));
}

/// A model of speech says what it is, in a directory and in the files that are made of it.
#[test]
fn files_of_whisper() {
    let folder = fixture("../../crates/weights/tests/fixtures/whisper/folder");
    let line = "speech recognition: 99 languages, windows of 1 s, 80 mels, encoder 1 × 32, decoder 2 × 32, \
                2120 tokens, 2 heads for the times of words\n";
    let text = stdout(&run(&["inspect", &folder]));
    assert!(text.contains(line), "{text}");
    let [whole, small] = ["whisper.gguf", "whisper-q8_0.gguf"].map(temporary);
    let [whole, small] = [&whole, &small].map(|path| path.to_str().unwrap());
    stdout(&run(&["convert", &folder, whole, "--force"]));
    stdout(&run(&["quantize", whole, small, "q8_0", "--force"]));
    for (file, matrix) in [(whole, "F16"), (small, "Q8_0")] {
        assert!(stdout(&run(&["inspect", file])).contains(line));
        let object = json(&["inspect", file, "--tensors", "--json"]);
        assert_eq!(
            (&object["speech"]["languages"], &object["speech"]["mels"]),
            (&99.into(), &80.into())
        );
        let tensors = object["tensors"].as_array().unwrap();
        let of = |name: &str| &tensors.iter().find(|t| t["name"] == name).unwrap()["type"];
        assert_eq!(of("decoder.blocks.1.mlp.0.weight"), matrix);
        assert_eq!(of("encoder.conv2.weight"), "F16");
    }
}

#[test]
fn tokenize() {
    let ids = stdout(&run(&["tokenize", "built-in", "Once upon a time", "--ids"]));
    let ids: Vec<u64> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
    let object = json(&["tokenize", "built-in", "Once upon a time", "--json"]);
    let same: Vec<u64> =
        object.as_array().unwrap().iter().map(|t| t["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, same);
    let special = stdout(&run(&["tokenize", "built-in", "Once upon a time", "--ids", "--special"]));
    assert_eq!(special.split_whitespace().count(), ids.len() + 1, "a token for the beginning");
}

/// A line has the text of a token, also where bytes of a character are tokens; the last line
/// counts.
#[test]
fn tokenize_shows_texts_and_their_number() {
    let text = stdout(&run(&["tokenize", "built-in", "Hi there \u{1f44d}"]));
    assert!(text.contains("\" there\"") && text.contains("Ġthere"), "{text}");
    let (tokens, last) = text.trim_end().rsplit_once('\n').unwrap();
    let bos = stdout(&run(&["tokenize", "built-in", "", "--special"]));
    let name = bos.split('"').nth(1).unwrap();
    let count = tokens.lines().count();
    assert_eq!(last, format!("{count} tokens; a prompt also has {name}"));
    let ids = stdout(&run(&["tokenize", "built-in", "Hi there \u{1f44d}", "--ids"]));
    assert_eq!(ids.split_whitespace().count(), count);
}

/// A folder that is called `.` has its name.
#[test]
fn the_folder_of_the_shell_has_its_name() {
    let output = pelton()
        .args(["inspect", ".", "--json"])
        .current_dir(fixture("models/qwen3"))
        .output()
        .unwrap();
    let object: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(object["metadata"]["general.name"], "qwen3");
}

#[test]
fn inspect_shows_the_template() {
    let shown = stdout(&run(&["inspect", "built-in", "--template"]));
    let whole = json(&["inspect", "built-in", "--json"]);
    let expected = whole["metadata"]["tokenizer.chat_template"].as_str().unwrap();
    assert_eq!(shown, format!("{expected}\n"));
    let said = refused(&["inspect", &fixture("models/bert"), "--template"], 1);
    assert!(said.contains("no chat template"), "{said}");
}

/// The file is what numpy's format says, and holds what transformers computes.
#[test]
fn logits() {
    let path = temporary("logits.npy");
    let expected = std::fs::read(fixture("models/qwen2/logits.npy")).unwrap();
    let ids = std::fs::read(fixture("models/qwen2/ids.npy")).unwrap();
    let ids: Vec<String> =
        ids[128..].as_chunks().0.iter().map(|id| u32::from_le_bytes(*id).to_string()).collect();
    let output = run(&[
        "logits",
        &fixture("models/qwen2/model.gguf"),
        "--kv",
        "f32",
        "--ids",
        &ids.join(","),
        "-o",
        path.to_str().unwrap(),
    ]);
    stdout(&output);
    let got = std::fs::read(path).unwrap();
    assert_eq!(got[..10], expected[..10], "magic, version and length of the header");
    let header = 10 + usize::from(u16::from_le_bytes([got[8], got[9]]));
    assert_eq!(got[..header], expected[..header]);
    let numbers = |bytes: &[u8]| -> Vec<f32> {
        bytes[header..].as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    };
    for (got, expected) in numbers(&got).iter().zip(numbers(&expected)) {
        assert!((got - expected).abs() < 1e-3);
    }
}

/// A placement predicts the speed from bytes and rates, which are measured once.
#[test]
fn a_predicted_speed() {
    let cache = temporary("inspect-rates");
    let _ = fs::remove_dir_all(&cache);
    let of = |more: &[&str]| {
        let mut command = pelton();
        command.args(["inspect", "built-in", "--placement", "--device", "cpu", "--context", "64"]);
        let output = command.args(more).env("XDG_CACHE_HOME", &cache).output().unwrap();
        (stdout(&output), String::from_utf8(output.stderr).unwrap())
    };
    let (text, said) = of(&[]);
    assert!(said.contains("measuring the speed of memory"), "{said}");
    assert!(text.contains("\n  decode ~") && text.contains(" ms RAM at "), "{text}");
    let (object, said) = of(&["--json"]);
    assert_eq!(said, "", "the rates are known");
    let object: serde_json::Value = serde_json::from_str(&object).unwrap();
    let (found, term) = (&object["prediction"], &object["prediction"]["terms"][0]);
    let seconds = term["seconds"].as_f64().unwrap();
    assert!((found["tokens_per_second"].as_f64().unwrap() * seconds - 1.0).abs() < 1e-6);
    // all tensors but the embedding, which is the output matrix too, and 33
    // positions of keys and values
    let file = json(&["inspect", "built-in", "--json", "--tensors"]);
    let tensors = file["tensors"].as_array().unwrap().iter();
    let weights: u64 = tensors.map(|tensor| tensor["bytes"].as_u64().unwrap()).sum();
    let caches = object["devices"][0]["kv_bytes"].as_u64().unwrap() * 33 / 64;
    let read = term["bytes"].as_u64().unwrap();
    assert!(read.abs_diff(weights + caches) < 1000, "{read}, expected {weights} + {caches}");
    // again if it is asked for
    assert!(of(&["--measure"]).1.contains("measuring"));
}

/// A driver in software has no rates, so no speed is made up.
#[cfg(feature = "gpu")]
#[test]
fn no_speed_of_software() {
    let list = json(&["devices", "--json"]);
    let is_software = |device: &&serde_json::Value| device["kind"] == "software";
    let Some(device) = list.as_array().unwrap().iter().find(is_software) else {
        return pelton_testing::skip(pelton_testing::Need::Gpu, "no driver in software");
    };
    let device = format!("{},cpu", device["device"].as_str().unwrap());
    let output = run(&["inspect", "built-in", "--placement", "--json", "--device", &device]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let object: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(object["prediction"].is_null() && object["devices"].is_array(), "{object}");
}
