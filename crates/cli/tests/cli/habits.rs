//! Command lines with the habits of llama.cpp, vLLM and Ollama.

use super::{json, refused, run, stdout};

const PROMPT: &str = "Once upon a time";

/// llama.cpp's spellings give the text of Pelton's own.
#[test]
fn options_of_llama_cpp() {
    let own =
        ["--tokens", "12", "--temperature", "0", "--context", "64", "--device", "cpu", "--json"];
    let own = json(&[&["run", "built-in", PROMPT], &own[..]].concat());
    for theirs in [
        &["--n-predict", "12", "--temp", "0", "--ctx-size", "64", "-ngl", "0"][..],
        &["-n", "12", "--temp=0", "-c", "64", "--n-gpu-layers=0", "-s", "7", "-ncmoe", "3"],
        &[
            "--max-tokens",
            "12",
            "--temp",
            "0",
            "-c",
            "64",
            "-ngl",
            "0",
            "-ctk",
            "f16",
            "-ctv",
            "f16",
        ],
        &[
            "--predict",
            "12",
            "--temp",
            "0",
            "-c",
            "64",
            "-ngl",
            "0",
            "-np",
            "2",
            "--repeat-penalty",
            "1",
        ],
    ] {
        let words = [&["run", "-m", "built-in", "-p", PROMPT, "--json"], theirs].concat();
        assert_eq!(json(&words)["text"], own["text"], "{theirs:?}");
    }
    // no limit: the context ends the text, or its own end
    let words =
        ["run", "-m", "built-in", "-p", PROMPT, "-n", "-1", "-c", "40", "--temp", "0", "--json"];
    let all = json(&words);
    assert!(all["generated_tokens"].as_u64().unwrap() > 12, "{all}");
    let words = ["inspect", "-m", "built-in"];
    assert_eq!(stdout(&run(&words)), stdout(&run(&["inspect", "built-in"])));
}

/// A wrong option or command names the one that is meant.
#[test]
fn wrong_words_name_the_right_ones() {
    for (words, expected) in [
        (&["run", "x", "--temprature", "1"][..], "--temperature is similar"),
        (&["run", "x", "--mlock"], "leave the option out"),
        (&["run", "x", "-fa", "on"], "leave the option out"),
        (&["run", "x", "-cnv"], "`pelton chat MODEL`"),
        (&["run", "x", "-mg", "1"], "--device gpu:N"),
        (&["run", "-hff", "x.gguf"], "/blob/main/FILE"),
        (&["run", "-hft", "hf_x"], "HF_TOKEN"),
        (&["run", "x", "-ctk", "f16", "-ctv", "q8_0"], "--kv TYPE"),
        (&["run", "x", "-ngl", "many"], "0 for the CPU"),
        (&["run", "- an item"], "-p gives a prompt that begins with -"),
        (&["search", "qwen3"], "https://huggingface.co/models"),
        (&["serve", "--tensor-parallel-size", "2"], "gpu:N"),
    ] {
        let said = refused(words, 2);
        assert!(said.starts_with("error: ") && said.contains(expected), "{words:?}: {said}");
        assert!(said.lines().count() <= 2, "{said}");
    }
    let text = refused(&["serve", "--host", "0.0.0.0", "--port", "0", "--api-key", ""], 1);
    assert!(text.contains("key"), "{text}");
}

/// An error names an option as the user wrote it, and not its translation.
#[test]
fn options_are_named_as_typed() {
    for (words, typed) in [
        (&["-ctk", "f16"][..], "-ctk is no option"),
        (&["tokenize", "built-in", "x", "--cache-type-v=f16"], "--cache-type-v is no option"),
        (&["tokenize", "built-in", "x", "-ngl", "0"], "-ngl is no option"),
    ] {
        let said = refused(words, 2);
        assert!(said.contains(typed), "{words:?}: {said}");
        assert!(!said.contains("--kv") && !said.contains("--device"), "{words:?}: {said}");
    }
    let said = refused(&["run", "-ctk", "f17", "built-in", "x"], 2);
    assert!(said.contains("-ctk is \"f17\", expected one of f16, f32, q8_0"), "{said}");
}

/// llama.cpp ignores experts on the CPU of a model without experts; Pelton's own option is an error where it can do
/// nothing.
#[test]
fn experts_of_a_model_without_experts() {
    for theirs in [&["-ncmoe", "3"][..], &["--n-cpu-moe=3"], &["--cpu-moe"], &["-cmoe"]] {
        let words =
            [&["run", "built-in", PROMPT, "--tokens", "2", "--device", "cpu"], theirs].concat();
        let output = run(&words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        stdout(&output);
        assert!(
            said.contains("--n-cpu-moe changes nothing: the model has no experts"),
            "{theirs:?}: {said}"
        );
    }
    let both = refused(&["run", "built-in", PROMPT, "-ncmoe", "3", "--host-experts", "2"], 2);
    assert!(both.contains("--host-experts"), "{both}");
}
