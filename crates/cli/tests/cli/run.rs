//! `pelton run`.

use std::{
    io::{ErrorKind, Write},
    process::{Output, Stdio},
};

use super::{json, pelton, refused, run, stdout, temporary};

const STORY: [&str; 7] = ["run", "Once upon a time", "-n", "30", "--seed", "5", "--echo"];

#[test]
fn run_streams_text_to_stdout_and_statistics_to_stderr() {
    let output = run(&STORY);
    let text = stdout(&output);
    assert!(text.starts_with("Once upon a time") && text.len() > 60, "{text}");
    let statistics = String::from_utf8(output.stderr).unwrap();
    for part in ["prompt tokens", "tokens/s", "first token after", "seed 5"] {
        assert!(statistics.contains(part), "{statistics}");
    }
}

/// Nothing is answered as if a picture were not there.
#[test]
fn pictures_need_a_model_that_sees() {
    let picture = concat!(env!("CARGO_MANIFEST_DIR"), "/../image/tests/fixtures/pictures/rgb.png");
    for command in ["run", "chat"] {
        let with = |image: &str| {
            let words = [command, "built-in", "What is it?", "--image", image];
            refused(&[&words[..], &["--system", "Be kind."]].concat(), 1)
        };
        let said = with(picture);
        assert!(said.contains("mmproj"), "{said}");
        let said = with("no/such.png");
        assert!(said.contains("no/such.png"), "{said}");
        let said = with(&vec![picture; 17].join(","));
        assert!(said.contains("at most 16"), "{said}");
    }
    let said = refused(&["run", "built-in", "What is it?", "--raw", "--image", picture], 1);
    assert!(said.contains("chat template"), "{said}");
    // in a chat, too
    let said = fed(&["chat"], &format!("/image {picture}\n/image no/such.png\n"));
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("mmproj") && said.contains("no/such.png"), "{said}");
}

#[test]
fn run_says_the_same_in_json() {
    let text = stdout(&run(&STORY));
    let object = json(&[&STORY[..], &["--json"]].concat());
    let said =
        format!("{}{}\n", object["prompt"].as_str().unwrap(), object["text"].as_str().unwrap());
    assert_eq!(said, text);
    assert_eq!(object["generated_tokens"], 30);
    assert_eq!(object["finish_reason"], "length");
    assert_eq!(object["seed"], 5);
}

/// The output of a command whose standard input is a text.
fn fed(args: &[&str], input: &str) -> Output {
    let mut child = pelton()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // a command that refuses its arguments may end before it reads the text
    match child.stdin.take().unwrap().write_all(input.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.unwrap(),
    }
    child.wait_with_output().unwrap()
}

/// One final line break, as `echo` writes it, is no part of the prompt; a second one is.
#[test]
fn run_reads_a_prompt_from_stdin() {
    let flags = ["-n", "5", "--seed", "1", "--json"];
    let prompt = |args: &[&str], input: &str| {
        let text = stdout(&fed(&[&["run"], args, &flags[..]].concat(), input));
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        object["prompt"].as_str().unwrap().to_owned()
    };
    let file = temporary("run-prompt.txt");
    std::fs::write(&file, "The little fox\r\n").unwrap();
    assert_eq!(prompt(&["-"], "The little fox"), "The little fox");
    assert_eq!(prompt(&["-"], "The little fox\n"), "The little fox");
    assert_eq!(prompt(&["built-in"], "The little fox\n\n"), "The little fox\n");
    assert_eq!(prompt(&[], "The little fox\n"), "The little fox");
    assert_eq!(prompt(&["-m", "built-in"], "The little fox\n"), "The little fox");
    assert_eq!(prompt(&["-f", file.to_str().unwrap()], ""), "The little fox");
    assert_eq!(prompt(&["built-in", "-p", "- one item\n"], ""), "- one item\n");
    assert_eq!(prompt(&["-p", "qwen3"], ""), "qwen3");
}

/// One argument that names a model is never a prompt of the built-in one.
#[test]
fn run_never_answers_as_another_model() {
    for (model, words) in [
        ("nothing.gguf", "there is no such file or folder"),
        ("Qwen/Qwen3-0.6B", "/api/models/Qwen/Qwen3-0.6B/revision/main could not be read"),
        ("hf.co/Qwen/Qwen3-0.6B-GGUF:Q8_0", "/api/models/Qwen/Qwen3-0.6B-GGUF/"),
        ("https://huggingface.co/Qwen/Qwen3-0.6B", "/api/models/Qwen/Qwen3-0.6B/"),
        ("qwen3", "/api/models/Qwen/Qwen3-8B-GGUF/"),
        ("gpt4", "nor one of the short names: qwen3,"),
        (env!("CARGO_MANIFEST_DIR"), "config.json"),
    ] {
        let output = fed(&["run", model, "-n", "3"], "Once upon a time");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(words) && said.contains("\nhint: "), "{said}");
    }
    for args in [&["run", "built-in", "-n", "3"][..], &["run"]] {
        let said = super::refused(args, 1);
        assert!(said.contains("standard input is empty"), "{said}");
    }
    for args in [&["-m", "built-in", "x", "y"][..], &["-m", "built-in", "x", "-p", "y"]] {
        let said = super::refused(&[&["run"], args].concat(), 1);
        assert!(said.contains("expected"), "{said}");
    }
}

#[test]
fn run_stops_before_a_stop_string() {
    let object = json(&["run", "Once upon a time", "--temperature", "0", "--stop", ".", "--json"]);
    assert_eq!(object["finish_reason"], "stop");
    assert!(!object["text"].as_str().unwrap().contains('.'));
}

/// Each penalty changes the text of the same seed, and a window of 0 disables them.
#[test]
fn run_with_penalties() {
    let story = |flags: &[&'static str]| {
        let greedy = ["run", "Once upon a time", "-n", "60", "--temperature", "0", "--json"];
        json(&[&greedy[..], flags].concat())["text"].as_str().unwrap().to_owned()
    };
    let plain = story(&[]);
    for flag in ["--repetition-penalty", "--presence-penalty", "--frequency-penalty"] {
        assert_ne!(story(&[flag, "3"]), plain, "{flag}");
        assert_eq!(story(&[flag, "3", "--penalty-window", "0"]), plain, "{flag}");
    }
    assert_ne!(story(&["--presence-penalty", "-3"]), plain);
}

#[test]
fn run_in_a_given_memory_for_keys_and_values() {
    let text = stdout(&run(&STORY));
    for size in ["8M", "0.5%"] {
        let args = [&STORY[..], &["--kv-memory", size]].concat();
        assert_eq!(stdout(&run(&args)), text, "{size}");
    }
}

#[test]
fn run_prints_the_prompt_only_with_echo() {
    let without = stdout(&run(&STORY[..6]));
    assert_eq!(format!("Once upon a time{without}"), stdout(&run(&STORY)));
}

#[test]
fn run_with_log_probabilities() {
    let greedy = ["run", "Once upon a time", "-n", "5", "--temperature", "0", "--logprobs", "2"];
    let object = json(&[&greedy[..], &["--json"]].concat());
    let tokens = object["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), 5);
    for token in tokens {
        let top = token["top"].as_array().unwrap();
        assert_eq!((&top[0]["id"], &top[0]["log_prob"]), (&token["id"], &token["log_prob"]));
        assert!(top[1]["log_prob"].as_f64().unwrap() <= token["log_prob"].as_f64().unwrap());
    }
    let text = stdout(&run(&greedy));
    assert_eq!(text.lines().filter(|line| line.starts_with('"')).count(), 5, "{text}");
}

/// The texts of several prompts and samples are those that each gets alone, in order.
#[test]
fn run_with_prompts_and_samples() {
    let file = temporary("prompts.txt");
    std::fs::write(&file, "Once upon a time\n\nThe little fox\nOne day\n").unwrap();
    let flags = ["-n", "12", "--seed", "7", "--xtc-probability", "0.5"];
    let many =
        [&["run", "--prompts", file.to_str().unwrap(), "--samples", "2"], &flags[..]].concat();
    let text = stdout(&run(&many));
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6);
    for (i, line) in lines.iter().enumerate() {
        assert_eq!((&line["index"], &line["sample"]), (&(i / 2).into(), &(i % 2).into()));
        let seed = (7 + i % 2).to_string();
        let prompt = line["prompt"].as_str().unwrap();
        let alone = json(&[
            "run",
            prompt,
            "-n",
            "12",
            "--seed",
            &seed,
            "--xtc-probability",
            "0.5",
            "--json",
        ]);
        assert_eq!(alone["text"], line["text"]);
    }
    let samples = stdout(&run(&["run", "One day", "-n", "5", "--samples", "3", "--seed", "1"]));
    assert_eq!(samples.matches("--- sample ").count(), 3, "{samples}");
}

/// Every sampler changes a text at its place in the chain, and a wrong value is refused by name.
/// A program that writes a prompt can wait for its answer.
#[test]
fn run_answers_each_line_when_it_comes() {
    use std::io::{BufRead, BufReader};

    let args = ["run", "built-in", "--raw", "--prompts", "-", "-n", "3", "--temperature", "0"];
    let mut child = pelton()
        .args(args)
        .args(["--device", "cpu"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    for (index, prompt) in ["Once upon", "The sun"].iter().enumerate() {
        writeln!(input, "\n{prompt}").unwrap();
        let line: serde_json::Value =
            serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["prompt"], *prompt);
        assert_eq!(line["index"], index);
        assert_eq!(line["generated_tokens"], 3);
    }
    drop(input);
    assert!(lines.next().is_none() && child.wait().unwrap().success());
}

#[test]
fn run_with_each_sampler() {
    let story = |flags: &[&'static str]| {
        let seeded = ["run", "Once upon a time", "-n", "60", "--seed", "4", "--json"];
        json(&[&seeded[..], flags].concat())["text"].as_str().unwrap().to_owned()
    };
    let plain = story(&[]);
    for flags in [
        &["--mirostat", "1"][..],
        &["--mirostat", "2", "--mirostat-tau", "2"],
        &["--adaptive-target", "0.3"],
        &["--dry-multiplier", "9", "--dry-allowed-length", "0"],
        &["--xtc-probability", "1"],
        &["--typical-p", "0.2"],
        &["--top-n-sigma", "0.1"],
        &["--dynatemp-range", "0.8"],
        &["--samplers", "temperature", "--temperature", "2"],
        &["--logit-bias", "300=50"],
    ] {
        assert_ne!(story(flags), plain, "{flags:?}");
    }
    // without a sampler the temperature is 1
    assert_eq!(story(&["--samplers", "xtc,dry"]), story(&["--samplers", "top-p", "--top-p", "1"]));
    for (flag, value) in [("--mirostat", "3"), ("--adaptive-decay", "1"), ("--samplers", "warmth")]
    {
        let error = run(&["run", "x", flag, value]);
        assert!(!error.status.success());
        let text = String::from_utf8(error.stderr).unwrap();
        assert!(text.contains(&flag[2..].replace('-', "_")) || text.contains(value), "{text}");
    }
}

#[test]
fn run_with_constraints() {
    let file = |name: &str, text: &str| {
        let path = temporary(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let schema = file(
        "schema.json",
        r#"{"type": "object", "properties": {"legs": {"type": "integer", "maximum": 9, "minimum": 0}},
            "required": ["legs"], "additionalProperties": false}"#,
    );
    let text = |flags: &[&str]| {
        let all = [&["run", "The fox:", "--seed", "1", "-n", "100"], flags].concat();
        stdout(&run(&all)).trim_end_matches('\n').to_owned()
    };
    let object: serde_json::Value =
        serde_json::from_str(&text(&["--json-schema", &schema])).unwrap();
    assert!(object["legs"].as_u64().unwrap() < 10);
    assert!(text(&["--json-object"]).starts_with('{'));
    assert_eq!(text(&["--regex", "(abc){2}"]), "abcabc");
    let gbnf = file("grammar.gbnf", "root ::= \"[\" [0-9]{3} \"]\"\n");
    let bracketed = text(&["--grammar", &gbnf]);
    assert!(bracketed.len() == 5 && bracketed.starts_with('['), "{bracketed}");
    let lark = file("grammar.lark", "start: \"yes\" | \"no\"\n");
    assert!(["yes", "no"].contains(&&*text(&["--grammar", &lark])));
    let unsupported = file("unsupported.json", r#"{"not": {"type": "null"}}"#);
    let error = super::refused(&["run", "x", "--json-schema", &unsupported], 1);
    assert!(error.contains("'not'"), "{error}");
    super::refused(&["run", "x", "--json-object", "--regex", "a"], 2);
}

/// Files of flags are read before the model: this one cannot be loaded.
#[test]
fn files_that_are_missing_are_found_before_the_load() {
    let broken = temporary("no-model.gguf");
    std::fs::write(&broken, "GGUF").unwrap();
    let broken = broken.to_str().unwrap();
    for (command, flag) in [
        ("run", "--json-schema"),
        ("run", "--grammar"),
        ("chat", "--json-schema"),
        ("chat", "--grammar"),
        ("chat", "--chat-template"),
    ] {
        let error = super::refused(&[command, broken, "x", flag, "/missing/file"], 1);
        assert!(error.contains("/missing/file"), "{command} {flag}: {error}");
    }
}

/// A prompt is answered as a chat would answer it, and continued with --raw.
#[test]
fn run_answers_where_the_model_has_a_template() {
    let flags = ["-n", "20", "--temperature", "0", "--device", "cpu", "--json"];
    let text = |args: &[&str]| {
        let output = pelton().args([&["run"], args, &flags[..]].concat()).output().unwrap();
        let object: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        object["text"].as_str().unwrap().to_owned()
    };
    let sum = "What is 2 plus 3?";
    let rendered = format!("<|user|>{sum}<|end|><|assistant|>");
    assert_eq!(text(&[sum]), text(&["--raw", &rendered]));
    assert!(text(&[sum]).contains('5'));
    let rendered = format!("<|system|>Be kind.<|end|>{rendered}");
    assert_eq!(text(&["--system", "Be kind.", sum]), text(&["--raw", &rendered]));
    assert_ne!(text(&[sum]), text(&["--raw", sum]));
}
