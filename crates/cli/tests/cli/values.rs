//! `pelton embed` and `pelton rerank`.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Output, Stdio},
};

use super::{json, pelton, refused, run, stdout, temporary};

fn model(name: &str) -> String {
    format!("{}/../../tests/fixtures/models/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn with_stdin(args: &[&str], text: &str) -> Output {
    let mut child = pelton()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn rows(text: &str) -> Vec<Vec<f64>> {
    let row = |line: &str| line.split(' ').map(|value| value.parse().unwrap()).collect();
    text.lines().map(row).collect()
}

fn norm(row: &[f64]) -> f64 {
    row.iter().map(|value| value * value).sum::<f64>().sqrt()
}

#[test]
fn a_line_for_each_text() {
    let (bert, cpu) = (model("bert/model.gguf"), ["--device", "cpu"]);
    let embed = |args: &[&str]| [&["embed", &bert], args, &cpu].concat().join("\0");
    let run = |args: &[&str]| -> Vec<Vec<f64>> {
        let args = embed(args);
        rows(&stdout(&run(&args.split('\0').collect::<Vec<_>>())))
    };
    let both = run(&["one text", "another"]);
    assert_eq!((both.len(), both[0].len()), (2, 48));
    for row in &both {
        assert!((norm(row) - 1.0).abs() < 1e-5);
    }
    // the order is that of the arguments, with the lines of standard input in their place
    let args = embed(&["another", "-"]);
    let lines = with_stdin(&args.split('\0').collect::<Vec<_>>(), "one text\nanother\n");
    let lines = rows(&stdout(&lines));
    assert_eq!([&lines[1], &lines[2]], [&both[0], &both[1]]);
    assert_eq!(lines[0], both[1]);

    let raw = run(&["one text", "--no-normalize"]);
    assert!((norm(&raw[0]) - 1.0).abs() > 1e-3);
    // the cut comes before the norm
    let cut = run(&["one text", "--dimensions", "8"]);
    let length = norm(&raw[0][..8]);
    for (cut, raw) in cut[0].iter().zip(&raw[0]) {
        assert!((cut - raw / length).abs() < 1e-5);
    }
    let cls = run(&["one text", "--pooling", "cls"]);
    assert_ne!(cls, both[..1]);
    let each = run(&["one text", "--pooling", "none", "--no-normalize"]);
    let mean: Vec<f64> =
        (0..48).map(|i| each.iter().map(|row| row[i]).sum::<f64>() / each.len() as f64).collect();
    for (mean, raw) in mean.iter().zip(&raw[0]) {
        assert!((mean - raw).abs() < 1e-4);
    }
}

/// A directory with safetensors, too.
#[test]
fn json_and_npy() {
    let path = temporary("embeddings.npy");
    for file in [model("bert/model.gguf"), model("bert")] {
        let args = ["embed", &file, "one text", "another", "--device", "cpu"];
        let object = json(&[&args[..], &["--json"]].concat());
        assert_eq!(object["dimensions"], 48);
        let embeddings = object["data"].as_array().unwrap();
        assert_eq!(embeddings.len(), 2);
        let tokens: Vec<u64> = embeddings.iter().map(|e| e["tokens"].as_u64().unwrap()).collect();
        assert!(tokens[1] > 2, "with [CLS] and [SEP]");
        assert_eq!(object["tokens"], tokens.iter().sum::<u64>());
        assert!(object["seconds"].as_f64().unwrap() > 0.0);
        let output = run(&[&args[..], &["-o", path.to_str().unwrap()]].concat());
        assert!(stdout(&output).is_empty());
        let bytes = std::fs::read(&path).unwrap();
        let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        assert!(String::from_utf8_lossy(&bytes[10..end]).contains("'shape': (2, 48)"));
        let expected = embeddings.iter().flat_map(|e| e["embedding"].as_array().unwrap());
        for (got, expected) in bytes[end..].as_chunks().0.iter().zip(expected) {
            assert_eq!(f32::from_le_bytes(*got), expected.as_f64().unwrap() as f32);
        }
    }
}

#[test]
fn documents_by_relevance() {
    for name in ["xlm-roberta-reranker/model.gguf", "bert-reranker", "modernbert-reranker"] {
        let file = model(name);
        let args =
            ["rerank", &file, "which one", "first", "a second one", "third", "--device", "cpu"];
        let all = json(&[&args[..], &["--json"]].concat());
        let all = all.as_array().unwrap();
        let scores: Vec<f64> = all.iter().map(|one| one["score"].as_f64().unwrap()).collect();
        assert!(scores.is_sorted_by(|a, b| a >= b) && scores.len() == 3, "{scores:?}");
        assert!(scores.iter().all(|&score| score > 0.0 && score < 1.0), "{scores:?}");
        let mut indices: Vec<u64> = all.iter().map(|one| one["index"].as_u64().unwrap()).collect();
        // the probability of the logit
        let raw = json(&[&args[..], &["--json", "--raw"]].concat());
        for (probability, raw) in all.iter().zip(raw.as_array().unwrap()) {
            assert_eq!(probability["document"], raw["document"]);
            let expected = 1.0 / (1.0 + (-raw["score"].as_f64().unwrap()).exp());
            assert!((probability["score"].as_f64().unwrap() - expected).abs() < 1e-5);
        }
        let text = stdout(&run(&[&args[..], &["--top", "1"]].concat()));
        assert_eq!(text.lines().count(), 1);
        assert!(text.trim_end().ends_with(all[0]["document"].as_str().unwrap()), "{text}");
        indices.sort_unstable();
        assert_eq!(indices, [0, 1, 2]);
        let stdin = with_stdin(
            &["rerank", &file, "which one", "-", "--json", "--device", "cpu"],
            "first\na second one\nthird",
        );
        let stdin: serde_json::Value = serde_json::from_str(&stdout(&stdin)).unwrap();
        assert_eq!(stdin.as_array().unwrap(), all);
    }
}

#[test]
fn what_a_model_cannot_do_is_refused() {
    let cpu = ["--device", "cpu"];
    let refused = |args: &[&str], code| refused(&[args, &cpu].concat(), code);
    let (bert, reranker) = (model("bert/model.gguf"), model("xlm-roberta-reranker/model.gguf"));
    for (args, text) in [
        (&["run", &bert, "Hello"][..], "computes embeddings, expected one that computes logits"),
        (&["embed", "built-in", "Hello"], "computes logits"),
        (&["embed", &reranker, "Hello"], "computes relevance scores"),
        (&["rerank", &bert, "query", "text"], "computes embeddings"),
        (&["logits", &bert, "--ids", "1", "-o", "x.npy"], "computes no logits"),
        (&["embed", &bert, "Hello", "--dimensions", "49"], "expected 1 to the model's 48"),
        (&["embed", &bert, "a", "b c d e f g", "--context", "4"], "text 1 has"),
        (&["embed", &bert, "-", "-"], "- is given several times"),
        (&["embed", &bert, "a", "-o", "/nowhere/x.npy"], "/nowhere/x.npy"),
    ] {
        let error = refused(args, 1);
        assert!(error.contains(text), "{args:?}: {error}");
    }
    for args in [
        &["rerank", &reranker, "query"][..],
        &["embed", &bert, "a", "--pooling", "median"],
        &["embed", &bert, "a", "--json", "-o", "x.npy"],
    ] {
        refused(args, 2);
    }
}

#[test]
fn directories_are_models() {
    let folder = model("qwen3");
    assert!(stdout(&run(&["inspect", &folder, "--plan"])).contains("qwen3"));
    let ids = stdout(&run(&["tokenize", &folder, "one text", "--ids"]));
    assert!(!ids.trim().is_empty());
    let path = temporary("directory.npy");
    stdout(&run(&[
        "logits",
        &folder,
        "--ids",
        "5,6,7",
        "-o",
        path.to_str().unwrap(),
        "--device",
        "cpu",
    ]));
    assert!(path.exists());
    let output = run(&["run", &folder, "one", "-n", "3", "--device", "cpu", "--echo"]);
    assert!(stdout(&output).starts_with("one"));
}

/// An encoder whose folder states no pooling needs one. The mean is that of the tokens, as in
/// sentence-transformers.
#[test]
fn an_encoder_without_pooling_needs_one() {
    let (from, to) = (model("bert"), temporary("bert-without-pooling"));
    std::fs::create_dir_all(&to).unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(format!("{from}/{name}"), to.join(name)).unwrap();
    }
    let folder = to.to_str().unwrap();
    let embed = |more: &[&str]| run(&[&["embed", folder, "hello world"], more].concat());
    let said = refused(&["embed", folder, "hello world", "--device", "cpu"], 1);
    assert!(said.contains("states none, expected mean (which sentence-transformers"), "{said}");
    let own = rows(&stdout(&embed(&["--device", "cpu", "--pooling", "mean"])));
    let each = rows(&stdout(&embed(&["--device", "cpu", "--pooling", "none", "--no-normalize"])));
    let mean = |column: usize| each.iter().map(|row| row[column]).sum::<f64>() / each.len() as f64;
    let mean: Vec<f64> = (0..each[0].len()).map(mean).collect();
    let length = norm(&mean);
    for (own, mean) in own[0].iter().zip(mean) {
        assert!((own - mean / length).abs() < 1e-5, "{own} {mean}");
    }
}

/// Standard input is read where no argument gives a text, and a pipe beside a text is mentioned.
#[test]
fn a_pipe_gives_the_texts() {
    let bert = model("bert/model.gguf");
    let embed = ["embed", &bert, "--device", "cpu"];
    let expected = stdout(&run(&["embed", &bert, "one text", "another", "--device", "cpu"]));
    assert_eq!(stdout(&with_stdin(&embed, "one text\nanother\n")), expected);
    let json = with_stdin(&[&embed[..], &["--json"]].concat(), "one text\nanother");
    let json: serde_json::Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(json["data"].as_array().unwrap().len(), 2);
    let ids = ["tokenize", "built-in", "--ids"];
    let piped = stdout(&with_stdin(&ids, "Once upon"));
    assert_eq!(piped, stdout(&run(&["tokenize", "built-in", "--ids", "Once upon"])));

    for args in [&embed[..], &[&embed[..], &["--json"]].concat(), &ids] {
        let said = refused(args, 1);
        assert!(said.contains("standard input "), "{said}");
    }
    for args in [&embed[..], &ids, &["run", "built-in", "-n", "1", "--raw"]] {
        let output = with_stdin(&[args, &["-p", "one text"]].concat(), "");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("standard input is not read"), "{said}");
    }
}

/// A program that writes a line can wait for its embedding.
#[test]
fn each_line_is_embedded_when_it_comes() {
    let bert = model("bert/model.gguf");
    let mut child = pelton()
        .args(["embed", &bert, "-", "--device", "cpu"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    let expected = stdout(&run(&["embed", &bert, "one text", "another", "--device", "cpu"]));
    for (text, expected) in ["one text", "another"].iter().zip(expected.lines()) {
        writeln!(input, "{text}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), expected);
    }
    drop(input);
    assert!(lines.next().is_none() && child.wait().unwrap().success());
}
