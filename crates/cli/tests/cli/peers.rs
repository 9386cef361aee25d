//! Command lines of llama.cpp, vLLM and Ollama.

#[cfg(unix)]
use super::serve::Server;
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

/// Options without effect are named in one line, and the answer is the same.
#[test]
fn options_without_effect() {
    let own =
        ["run", "built-in", PROMPT, "--tokens", "8", "--device", "cpu", "--seed", "7", "--json"];
    let theirs =
        [&own[..], &["-fa", "on", "--mlock", "-b", "512", "--no-mmap", "-tb", "2", "-lv", "1"]]
            .concat();
    let output = run(&theirs);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let text: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(text["text"], json(&own)["text"]);
    let notes: Vec<&str> = said.lines().filter(|line| line.contains("no effect")).collect();
    assert_eq!(notes.len(), 1, "{said}");
    assert!(notes[0].starts_with("-fa, --mlock, -b, --no-mmap, -tb, -lv: no effect"), "{said}");
}

/// A wrong option or command names the one that is meant.
#[test]
fn wrong_words_name_the_right_ones() {
    for (words, expected) in [
        (&["run", "x", "--temprature", "1"][..], "--temperature is similar"),
        (&["run", "x", "-cnv"], "`pelton chat MODEL`"),
        (&["run", "-hff", "x.gguf"], "-hf OWNER/NAME"),
        (&["run", "x", "-ngl", "many"], "0 for the CPU"),
        (&["run", "- an item"], "-p gives a prompt that begins with -"),
        (&["search", "qwen3"], "https://huggingface.co/models"),
        (&["stop", "qwen3"], "--idle-timeout"),
        (&["serve", "--ts"], "is no option of `pelton serve`"),
    ] {
        let said = refused(words, 2);
        assert!(said.starts_with("error: ") && said.contains(expected), "{words:?}: {said}");
        assert!(said.lines().count() <= 2, "{said}");
    }
    let several = refused(&["serve", "--mmproj-url", "a", "--rpc", "b", "--frob"], 2);
    assert_eq!(several.matches("error: ").count(), 3, "{several}");
    assert_eq!(several.matches("hint: ").count(), 3, "{several}");
    let text = refused(&["serve", "--host", "0.0.0.0", "--port", "0", "--api-key", ""], 2);
    assert!(text.contains("--api-key is \"\", expected a key"), "{text}");
}

/// An error names an option as the user wrote it, and not its translation.
#[test]
fn options_are_named_as_typed() {
    for (words, typed) in [
        (&["tokenize", "built-in", "x", "--cache-type-v=f16"][..], "--cache-type-v is no option"),
        (&["tokenize", "built-in", "x", "-ngl", "0"], "-ngl is no option"),
    ] {
        let said = refused(words, 2);
        assert!(said.contains(typed), "{words:?}: {said}");
        assert!(!said.contains("--kv") && !said.contains("--device"), "{words:?}: {said}");
    }
    let said = refused(&["run", "-ctk", "f17", "built-in", "x"], 2);
    assert!(said.contains("-ctk is \"f17\", expected one of f16, f32, bf16, q8_0"), "{said}");
    let said = refused(&["run", "built-in", "x", "--top-p", "2", "--repeat-last-n", "many"], 2);
    assert!(said.contains("top_p is 2") || said.contains("(here --repeat-last-n)"), "{said}");
}

/// Variables of other programs set options; the command line wins, and a wrong value names its
/// variable.
#[test]
fn variables_of_other_programs() {
    let with = |variables: &[(&str, &str)], words: &[&str]| {
        let mut command = super::pelton();
        command.args(words).envs(variables.iter().copied());
        command.output().unwrap()
    };
    let words = ["run", "built-in", "--raw", PROMPT, "--device", "cpu", "--json"];
    let count = |output: &std::process::Output| {
        let value: serde_json::Value = serde_json::from_str(&stdout(output)).unwrap();
        value["generated_tokens"].as_u64().unwrap()
    };
    let output = with(&[("LLAMA_ARG_N_PREDICT", "5")], &words);
    assert_eq!(count(&output), 5);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the environment sets options: LLAMA_ARG_N_PREDICT"), "{said}");
    let typed = [&words[..], &["-n", "3"]].concat();
    assert_eq!(count(&with(&[("LLAMA_ARG_N_PREDICT", "5")], &typed)), 3);
    for (name, value, expected) in [
        ("LLAMA_ARG_CTX_SIZE", "many", "LLAMA_ARG_CTX_SIZE is \"many\", expected"),
        ("LLAMA_ARG_PORT", "99999", "LLAMA_ARG_PORT"),
        ("OLLAMA_HOST", "localhost:x", "OLLAMA_HOST is \"localhost:x\", expected"),
        ("OLLAMA_KEEP_ALIVE", "soon", "OLLAMA_KEEP_ALIVE is \"soon\", expected"),
        ("LLAMA_ARG_OFFLINE", "perhaps", "LLAMA_ARG_OFFLINE is \"perhaps\", expected 1 or 0"),
    ] {
        let output = with(&[(name, value)], &["serve", "built-in"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

/// llama.cpp ignores experts on the CPU of a model without experts; Pelton's own option is an error
/// where it can do nothing.
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

/// A published line of llama-server sets defaults, which a request wins over.
#[cfg(unix)]
#[test]
fn defaults_of_requests() {
    use serde_json::json;

    let server = Server::start(&[
        "-m",
        "built-in",
        "-ngl",
        "0",
        "-c",
        "0",
        "-n",
        "3",
        "--temp",
        "0",
        "--top-k",
        "1",
        "-a",
        "tiny,small",
        "--jinja",
        "-fa",
        "on",
        "--metrics",
        "--no-webui",
        "--slots",
        "-lv",
        "1",
    ]);
    let ask = |more: serde_json::Value| {
        let mut body = json!({"model": "small", "messages": [{"role": "user", "content": "What is 7 plus 5?"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("/v1/chat/completions", &body)
    };
    let count = |answer: &serde_json::Value| answer["usage"]["completion_tokens"].as_u64().unwrap();
    let short = ask(json!({}));
    assert_eq!(count(&short), 3, "{short}");
    assert!(count(&ask(json!({"max_tokens": 7}))) > 3);
    // the likeliest text is the same each time
    let text = |answer: serde_json::Value| answer["choices"][0]["message"]["content"].to_string();
    assert_eq!(text(ask(json!({}))), text(short));
    let props = server.get("/props");
    let sampling = props["default_generation_settings"].to_string();
    assert!(
        sampling.contains("\"temperature\":0") && sampling.contains("\"top_k\":1"),
        "{sampling}"
    );
    assert_eq!(server.request("GET", "/", "", "").0, 404);
    let models = server.get("/v1/models");
    assert_eq!(models["data"][0]["aliases"], json!(["tiny", "small"]), "{models}");
    let said = server.stop();
    assert!(!said.contains("error"), "{said}");

    // a grammar of the command line holds for requests without one
    let grammar = "root ::= \"yes\" | \"no\"";
    let server = Server::start(&["built-in", "--device", "cpu", "--grammar", grammar]);
    let body = json!({"messages": [{"role": "user", "content": "Is it?"}]});
    let answer = server.post("/v1/chat/completions", &body);
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(["yes", "no"].contains(&text), "{answer}");
    let body = json!({"messages": body["messages"], "response_format": {"type": "json_object"}});
    let answer = server.post("/v1/chat/completions", &body);
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.trim_start().starts_with('{'), "{answer}");
    server.stop();
}
