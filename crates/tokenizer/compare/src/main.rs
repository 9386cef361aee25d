//! `compare TEXT`: exactness and speed of `tokenizers`, `kitoken` and `pelton-tokenizer` on the
//! real vocabularies in `../../../../shared/data/vocab`, and the behaviour of each on a long run
//! of spaces. The two libraries are configured as by their own converters for these models.

mod kitoken_core;
mod tokenizers_core;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use pelton_tokenizer::{Special, Tokenizer, Vocabulary};
use pelton_weights::Checkpoint;

type Encode = Box<dyn Fn(&str) -> Vec<u32>>;

const RUNS: usize = 3;

fn main() {
    let text = std::env::args().nth(1).expect("a file of text");
    let text = std::fs::read_to_string(text).expect("text");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/vocab");
    println!("{:.2} MB of text, best of {RUNS} runs, one thread", text.len() as f64 / 1e6);
    for name in ["llama-spm", "phi-3", "bert-bge", "gpt-2", "deepseek-llm", "llama-bpe", "qwen2"] {
        let file = folder.join(format!("ggml-vocab-{name}.gguf"));
        let checkpoint = Checkpoint::open(&file).expect("a vocabulary");
        let read = || Vocabulary::from_metadata(checkpoint.metadata()).expect("a vocabulary");
        let read_text = |end| std::fs::read_to_string(format!("{}.{end}", file.display()));
        let inputs = read_text("inp").expect("texts");
        let outputs = read_text("out").expect("ids");
        let cases: Vec<(&str, Vec<u32>)> = inputs
            .split("\n__ggml_vocab_test__\n")
            .zip(outputs.lines())
            .map(|(text, ids)| {
                (text, ids.split_whitespace().map(|id| id.parse().unwrap()).collect())
            })
            .collect();
        let cores: [(&str, &dyn Fn() -> Encode); 3] = [
            ("tokenizers", &|| tokenizers_core::build(&read())),
            ("kitoken", &|| kitoken_core::build(&read())),
            ("pelton", &|| {
                let tokenizer = Tokenizer::new(read()).expect("a vocabulary");
                Box::new(move |text| tokenizer.encode(text, Special::Ignore).expect("ids"))
            }),
        ];
        for (core, build) in cores {
            let (load, encode) = best(build);
            let exact = cases.iter().filter(|(text, ids)| encode(text) == *ids).count();
            let (whole, _) = best(|| encode(&text));
            let (lines, _) =
                best(|| text.split_inclusive('\n').map(|line| encode(line).len()).sum::<usize>());
            let speed = |seconds: f64| text.len() as f64 / 1e6 / seconds;
            println!(
                "{name:13} {core:10} {exact}/{} exact, load {:.0} ms, whole {:.1} MB/s, lines {:.1} MB/s",
                cases.len(),
                load * 1e3,
                speed(whole),
                speed(lines),
            );
        }
        if name == "llama-bpe" {
            let spaces = " ".repeat(3_000_000) + "x";
            for (core, build) in cores {
                let encode = build();
                let end = catch_unwind(AssertUnwindSafe(|| encode(&spaces)))
                    .map(|ids| ids[ids.len() - 2..].to_vec());
                println!("{name:13} {core:10} 3 MB of spaces and an x end in {end:?}");
            }
        }
    }
}

/// The shortest time of several runs in seconds, and the result of the last one.
fn best<T>(run: impl Fn() -> T) -> (f64, T) {
    let time = || {
        let start = Instant::now();
        let result = run();
        (start.elapsed().as_secs_f64(), result)
    };
    let (mut shortest, mut result) = time();
    for _ in 1..RUNS {
        let (next, again) = time();
        (shortest, result) = (shortest.min(next), again);
    }
    (shortest, result)
}

/// The patterns of the models' `tokenizer.json`, in the syntax of both libraries.
fn patterns(pre: Option<&str>) -> Vec<String> {
    let cl100k = |digits: &str| {
        format!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
    };
    match pre {
        Some("gpt-2") => vec![
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+".into(),
        ],
        Some("llama-bpe") => vec![cl100k(r"\p{N}{1,3}")],
        Some("qwen2") => vec![cl100k(r"\p{N}")],
        // The letters as a class, with the same words on the texts used here.
        Some("deepseek-llm") => vec![
            r"[\r\n]".into(),
            r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+".into(),
            r"\s?[!-/:-~\u{FF01}-\u{FF0F}\u{FF1A}-\u{FF5E}\u{2018}-\u{201F}\u{3000}-\u{3002}]+"
                .into(),
            r"\s+$".into(),
            r"[\u{4E00}-\u{9FA5}\u{800}-\u{4E00}\u{AC00}-\u{D7FF}]+".into(),
            r"\p{N}+".into(),
        ],
        other => panic!("no patterns for {other:?}"),
    }
}
