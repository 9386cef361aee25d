//! The first hour of a user of llama.cpp, Ollama and Hugging Face: forty commands with their
//! habits.

use std::{
    fs,
    process::{Command, Stdio},
};

use super::temporary;

/// The outcome of a command.
enum Ends {
    /// It succeeds, and its standard output has these words.
    Says(&'static str),
    /// It succeeds, and its standard error has these words.
    Notes(&'static str),
    /// It fails, and its standard error has these words.
    Refuses(&'static str),
}
use Ends::{Notes, Refuses, Says};

/// Command lines of a shell. `$M` is a model file, `$D` a folder for files.
const COMMANDS: [(&str, Ends); 40] = [
    // a file and a prompt, in everybody's order
    ("pelton run $M 'What is 7 plus 5?' -n 40 --temp 0", Says("12")),
    ("pelton run -m $M -p 'What is 7 plus 5?' -n 40 --temp 0", Says("12")),
    ("echo 'What is 7 plus 5?' | pelton run $M -n 40 --temp 0", Says("12")),
    ("pelton run $M < $D/question.txt -n 40 --temp 0", Says("12")),
    ("pelton run -m $M -f $D/question.txt -n 40 --temp 0", Says("12")),
    ("pelton chat $M 'What is 7 plus 5?' --temp 0", Says("12")),
    ("echo 'What is 7 plus 5?' | pelton chat $M --temp 0", Says("12")),
    ("pelton run $M 'Once upon a time' --raw -n 8", Notes("tokens")),
    // the line after a load
    ("pelton run $M hi -n 4", Notes("on cpu")),
    ("pelton run $M hi -n 4 --device cpu -t 1", Notes("1 thread")),
    ("pelton run $M hi -n 4 -c 1000000", Notes("context")),
    ("pelton chat $M hi -c 1000000 -n 4", Notes("context")),
    // flags of llama.cpp
    ("pelton run -m $M -p hi -n 4 -ngl 99", Notes("tokens")),
    ("pelton run -m $M -p hi -n 4 -ngl 0 -s 1 --top-k 40 --repeat-penalty 1.1", Notes("tokens")),
    ("pelton run -m $M -p hi --n-predict 4 --ctx-size 256", Notes("tokens")),
    ("pelton run -m $M -p hi -n 4 -ctk q8_0 -ctv q8_0", Notes("tokens")),
    ("pelton run -m $M -p '- an item' -n 4", Notes("tokens")),
    ("pelton run -m $M -p hi -n 4 --temprature 1", Refuses("--temperature")),
    ("pelton run -m $M -p hi -n 4 -fa on", Notes("-fa: no effect")),
    ("pelton run -m $M -p hi --temp 900x", Refuses("temp")),
    // names of models that are nowhere
    ("pelton run qwen3", Refuses("could not be read")),
    ("pelton run Qwen/Qwen3-0.6B hello --offline", Refuses("is not on this machine")),
    ("pelton run hf.co/Qwen/Qwen3-0.6B-GGUF:Q8_0", Refuses("/api/models/Qwen/Qwen3-0.6B-GGUF/")),
    ("pelton run nothing.gguf", Refuses("no such file")),
    ("pelton list", Notes("pelton pull")),
    ("pelton pull nosuchmodel:7b", Refuses("qwen3")),
    // files that are no models
    ("pelton run $D/pointer.gguf hi", Refuses("git lfs pull")),
    ("pelton run $D/cut.gguf hi", Refuses("incomplete")),
    ("pelton run $D/pytorch_model.bin hi", Refuses("PyTorch")),
    ("pelton run $D/empty.gguf hi", Refuses("empty")),
    ("pelton run $D/adapter hi", Refuses("--lora")),
    ("pelton run $D/folder 'What is 7 plus 5?' -n 40 --temp 0", Says("12")),
    // chats
    ("pelton chat $M hi --json-object -n 60", Notes("tokens")),
    ("pelton chat $M hi --stop . --chat-template chatml -n 8", Notes("tokens")),
    ("pelton chat $M hi --chat-template nothing", Refuses("chatml")),
    // looking around
    ("pelton inspect $M", Says("context")),
    ("pelton tokenize $M 'Hello world'", Says("Hello")),
    ("pelton --help", Says("chat")),
    ("pelton run --help | wc -l | awk '$1 < 45 { print \"short\" }'", Says("short")),
    ("pelton serve $M --host 0.0.0.0 --port 0", Refuses("--api-key")),
];

#[test]
fn forty_commands_of_the_first_hour() {
    let folder = temporary("newcomer");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("folder")).unwrap();
    fs::create_dir_all(folder.join("adapter")).unwrap();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny/pelton-tiny.gguf");
    let bytes = fs::read(model).unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1000\n";
    for (name, bytes) in [
        ("question.txt", &b"What is 7 plus 5?\n"[..]),
        ("pointer.gguf", pointer.as_bytes()),
        ("cut.gguf", &bytes[..bytes.len() / 2]),
        // the beginning of the ZIP archive that PyTorch writes
        ("pytorch_model.bin", b"PK\x03\x04\x00\x00\x08\x08archive/data.pkl"),
        ("empty.gguf", b""),
        ("folder/model.gguf", &bytes),
        ("adapter/adapter_config.json", b"{\"peft_type\": \"LORA\", \"r\": 8}"),
    ] {
        fs::write(folder.join(name), bytes).unwrap();
    }
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_pelton")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut failures = Vec::new();
    for (line, ends) in COMMANDS {
        let mut command = Command::new("sh");
        super::alone(&mut command);
        let output = command
            .args(["-c", line])
            .env("PATH", &path)
            .env("M", model)
            .env("D", &folder)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (said, noted) = (&output.stdout, &output.stderr);
        let (succeeds, text, words) = match ends {
            Says(words) => (true, said, words),
            Notes(words) => (true, noted, words),
            Refuses(words) => (false, noted, words),
        };
        let text = String::from_utf8_lossy(text);
        // an error is a sentence and a hint
        let is_short = succeeds || text.lines().count() <= 3;
        if output.status.success() != succeeds || !text.contains(words) || !is_short {
            failures.push(format!("{line}\n  expected {words:?}, found {output:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The text of README's first command is that of the program.
#[test]
fn first_minute() {
    let readme = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md"));
    let (_, block) = readme.split_once("```console\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines = block.lines().collect::<Vec<_>>();
    let [command, shown @ .., "$ ./check"] = &lines[..] else { panic!("{block}") };
    let arguments = command.strip_prefix("$ cargo run --release -- ").unwrap();
    let mut shell = Command::new("sh");
    super::alone(&mut shell);
    let output = shell
        .args(["-c", &format!("\"$PELTON\" {arguments}")])
        .env("PELTON", env!("CARGO_BIN_EXE_pelton"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let text = super::stdout(&output);
    assert_eq!(words(&text), words(&shown.join("\n")));
    assert!(text.starts_with(char::is_uppercase) && text.trim_end().ends_with('.'), "{text}");
}

/// A word too many, and a model of another kind, are answered with what to do.
#[test]
fn words_and_models_that_do_not_fit_have_a_cure() {
    let embedder = super::fixture("models/nomic-bert");
    let speech = super::fixture("../../models/speech/pelton-speech.gguf");
    for (words, code, cure) in [
        (&["run", "built-in", "Why", "is", "the", "sky"][..], 2, "in quotes"),
        (&["doctor", "extra"], 2, "one argument too many"),
        (&["whisper", "-m", "x"], 2, "pelton transcribe MODEL FILE"),
        (&["transcribe", "-m", &speech], 1, "is a model, expected an audio file"),
        (&["chat", &embedder, "hi", "--context", "64"], 1, "generates no text"),
        (&["rerank", &embedder, "q", "d", "--context", "64"], 1, "a reranker such as"),
    ] {
        let said = super::refused(words, code);
        assert!(said.contains(cure), "{words:?}: {said}");
    }
}
