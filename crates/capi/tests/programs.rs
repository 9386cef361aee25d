//! The examples as their readers build and run them: with sanitizers, and compared
//! with the Rust library.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod common;

#[path = "common/prototypes.rs"]
mod prototypes;

use std::{
    env,
    fmt::Write,
    fs,
    process::{Command, Stdio},
};

use common::{SANITIZE, Workshop, folder, has, letters, repository, run};
use pelton::{
    Device, EmbedOptions, Engine, GenerateOptions, LoadOptions, Model, ModelSource, Prompt,
    RerankOptions, Sampling, Score, SpeechOptions,
    chat::{Chat, Message},
    speech::{AudioFile, Format, LiveTranscription, Transcription, Word, WriteOptions, write},
};
use prototypes::functions;

fn engine() -> Engine {
    Engine::builder().device(Device::Cpu).build().unwrap()
}

fn built_in() -> Model {
    engine().load(ModelSource::BuiltIn, &LoadOptions::default()).unwrap()
}

fn greedy(tokens: usize) -> GenerateOptions {
    GenerateOptions::default().max_tokens(tokens).sampling(Sampling::greedy())
}

fn embedder() -> String {
    repository("tests/fixtures/models/bert/model.gguf").display().to_string()
}

fn reranker() -> String {
    repository("tests/fixtures/models/bert-reranker/model.gguf").display().to_string()
}

fn audio() -> String {
    repository("models/speech/samples/tomorrow.wav").display().to_string()
}

/// Seconds of sawtooth tones, as the example of live audio reads them.
fn tones(seconds: i64) -> Vec<u8> {
    let tone = |i: i64| (i * (i / 1600 * 37 % 101 + 3) * 8 % 16384 - 8192) as i16;
    (0..seconds * 16_000).flat_map(|i| tone(i).to_le_bytes()).collect()
}

/// The output of an example with sanitizers.
fn output(name: &str, arguments: &[&str]) -> Option<String> {
    let workshop = Workshop::open()?;
    let program = workshop.build(&folder("examples").join(name), &SANITIZE);
    Some(run(Command::new(program).args(arguments)))
}

/// The answers to the questions of a conversation.
fn conversation(questions: &[&str]) -> Vec<String> {
    let model = built_in();
    let mut messages = Vec::new();
    questions
        .iter()
        .map(|question| {
            messages.push(Message::new("user", *question));
            let mut stream = model.chat_with(&Chat::new(messages.clone()), greedy(64)).unwrap();
            let answer = stream.wait().unwrap().content;
            messages.push(stream.message());
            answer
        })
        .collect()
}

#[test]
fn chat() {
    let Some(text) = output("chat.c", &["-", "cpu"]) else { return };
    let questions = ["What is 2 plus 3?", "What is 4 plus 4?"];
    let mut expected = String::new();
    for (question, answer) in questions.iter().zip(conversation(&questions)) {
        writeln!(expected, "> {question}\n{answer}").unwrap();
    }
    assert_eq!(text, expected);
    assert!(text.contains('5') && text.contains('8'), "{text}");
}

/// The answer is that of `models/vision/samples/answers.json`, whose source is transformers.
#[test]
fn picture() {
    let file = repository("models/vision/samples/12-describe.png").display().to_string();
    let Some(text) =
        output("picture.c", &[&file, "Tell me what you see.", "built-in-vision", "cpu"])
    else {
        return;
    };
    assert_eq!(
        text,
        "A green triangle at the top left, a green star at the top right and a red star at the \
         bottom left.\n"
    );
}

#[test]
fn chat_in_cpp() {
    let Some(text) = output("chat.cpp", &["-", "cpu"]) else { return };
    assert_eq!(text, format!("{}\n", conversation(&["What is 2 plus 3?"])[0]));
}

#[test]
fn embedding() {
    let Some(text) = output("embedding.c", &[&embedder(), "cpu"]) else { return };
    let model = engine().load(embedder(), &LoadOptions::default()).unwrap();
    let texts = ["The sky is blue.", "The sea is blue.", "He repaired the engine."];
    let all = model.embed(&texts.map(Prompt::from), &EmbedOptions::default()).unwrap();
    let mut expected = format!("{} values each\n", all[0].dimensions);
    for (text, other) in texts.iter().zip(&all).skip(1) {
        let cosine: f32 = all[0].values.iter().zip(&other.values).map(|(a, b)| a * b).sum();
        writeln!(expected, "{cosine:.4} {text}").unwrap();
    }
    assert_eq!(text, expected);
}

#[test]
fn transcription() {
    let Some(text) = output("transcription.c", &[&audio(), "-", "cpu"]) else { return };
    let mut model = engine().load_speech(ModelSource::BuiltIn, &SpeechOptions::default()).unwrap();
    let file = AudioFile::open(audio()).unwrap();
    let found = model.transcribe(file, &Transcription::default(), &mut ()).unwrap();
    let mut expected = Vec::new();
    for segment in &found.segments {
        let line = format!("{:.2} to {:.2}:{}\n", segment.start, segment.end, segment.text);
        expected.extend(line.into_bytes());
    }
    assert!(!expected.is_empty());
    write(Format::Srt, &found.segments, &WriteOptions::default(), &mut expected).unwrap();
    assert_eq!(text, String::from_utf8(expected).unwrap());
}

#[test]
fn rerank() {
    let Some(text) = output("rerank.c", &[&reranker(), "cpu"]) else { return };
    let model = engine().load(reranker(), &LoadOptions::default()).unwrap();
    let documents = ["It scatters short waves.", "Fish live in it."];
    let query = "Why is the sky blue?";
    let scores = model.rerank(query, &documents, &RerankOptions::default()).unwrap();
    let line = |(score, document): (&Score, &str)| format!("{:.6} {document}\n", score.score);
    assert_eq!(text, scores.iter().zip(documents).map(line).collect::<String>());
}

#[test]
fn live() {
    let Some(workshop) = Workshop::open() else { return };
    let (model, audio) = (workshop.path("letters.gguf"), workshop.path("audio.raw"));
    fs::write(&model, letters().file()).unwrap();
    // less than what a model that is late takes at once
    let tones = tones(4);
    fs::write(&audio, &tones).unwrap();
    let program = workshop.build(&folder("examples/live.c"), &SANITIZE);
    let mut command = Command::new(program);
    let text = run(command.arg(&model).arg("cpu").stdin(fs::File::open(audio).unwrap()));

    let mut model = engine().load_speech(model, &SpeechOptions::default()).unwrap();
    let mut rules = Transcription::default().rules;
    rules.temperatures = vec![0.0];
    let mut live = LiveTranscription::new(rules, 1.0);
    let sample = |bytes: &[u8]| f32::from(i16::from_le_bytes([bytes[0], bytes[1]])) / 32768.0;
    let samples: Vec<f32> = tones.chunks(2).map(sample).collect();
    let mut words = Vec::new();
    // the end transcribes once more
    for second in samples.chunks(16_000).chain([&[][..]]) {
        live.push(second);
        words.extend(live.advance(&mut model, &mut ()).unwrap().committed);
    }
    words.extend(live.finish());
    assert!(!words.is_empty());
    let line = |word: &Word| format!("{:.2} {:.2}{}\n", word.start, word.end, word.text);
    assert_eq!(text, words.iter().map(line).collect::<String>());
}

#[test]
fn session() {
    let Some(text) = output("session.c", &["-", "cpu"]) else { return };
    let model = built_in();
    let tokenizer = model.keep_tokenizer().unwrap();
    let prompt = tokenizer.encode_prompt("Once upon a time").unwrap();
    let mut session = model.into_session().unwrap();
    let logits = session.run(&prompt).unwrap();
    let first = |best: usize, id: usize| if logits[id] > logits[best] { id } else { best };
    let best = (0..logits.len()).reduce(first).unwrap() as u32;
    let chain = session.decode(best, 16).unwrap();
    let all: Vec<u32> = [vec![best], chain].concat();
    let ids: Vec<String> = all.iter().map(u32::to_string).collect();
    let (ids, positions) = (ids.join(" "), session.position());
    let shown = tokenizer.decode(&all, false);
    assert_eq!(text, format!("{ids}\n{positions} positions\n{shown}\n"));
}

#[test]
fn epoll() {
    let Some(text) = output("epoll.c", &["-", "cpu"]) else { return };
    let model = built_in();
    let mut expected = String::new();
    for prompt in ["The sky is", "Once upon a time"] {
        let answer = model.generate(prompt, greedy(16)).unwrap().text().unwrap();
        writeln!(expected, "{prompt}{answer}").unwrap();
    }
    assert_eq!(text, expected);
}

/// A program that was built with the header of the baseline, abi/pelton.h, and linked to a library
/// with its functions alone, runs on this library.
#[test]
fn programs_of_the_baseline_run() {
    let Some(workshop) = Workshop::open() else { return };
    let header = fs::read_to_string(folder("abi/pelton.h")).unwrap();
    let old = functions(&header).into_iter().map(|function| function.name);
    let source: String = old.map(|name| format!("void {name}(void) {{}}\n")).collect();
    let source = workshop.source("old.c", &source);
    let linked = workshop.path("old");
    fs::create_dir(&linked).unwrap();
    run(Command::new("gcc")
        .args(["-shared", "-fPIC"])
        .arg(source)
        .arg("-o")
        .arg(linked.join("libpelton.so")));
    let flag = format!("-L{}", linked.display());
    let program = workshop.build_with(&folder("examples/chat.c"), &folder("abi"), &[&flag]);
    let text = run(Command::new(program).args(["-", "cpu"]));
    assert_eq!(text.lines().nth(1), Some(&*conversation(&["What is 2 plus 3?"])[0]));
}

/// Runs an example under valgrind, which must find no errors and no leaks.
fn valgrind(name: &str, arguments: &[&str], input: Stdio) {
    if env::var_os("PELTON_FULL").is_none() {
        eprintln!("SKIPPED: valgrind runs with PELTON_FULL=1 alone");
        return;
    }
    let Some(workshop) = Workshop::open() else { return };
    if !has("valgrind") || !has("taskset") {
        return;
    }
    let program = workshop.build(&folder("examples").join(name), &[]);
    // on one core, because valgrind runs one thread at a time and the pool's threads would spin
    let mut command = Command::new("taskset");
    command.args(["-c", "0", "valgrind", "--quiet", "--error-exitcode=9"]);
    command.args(["--leak-check=full", "--errors-for-leak-kinds=definite,indirect"]);
    let text = run(command.arg(program).args(arguments).stdin(input));
    assert!(!text.is_empty());
}

#[test]
fn chat_under_valgrind() {
    valgrind("chat.c", &["-", "cpu"], Stdio::null());
}

#[test]
fn chat_in_cpp_under_valgrind() {
    valgrind("chat.cpp", &["-", "cpu"], Stdio::null());
}

#[test]
fn embedding_under_valgrind() {
    valgrind("embedding.c", &[&embedder(), "cpu"], Stdio::null());
}

#[test]
fn rerank_under_valgrind() {
    valgrind("rerank.c", &[&reranker(), "cpu"], Stdio::null());
}

#[test]
fn session_under_valgrind() {
    valgrind("session.c", &["-", "cpu"], Stdio::null());
}

#[test]
fn epoll_under_valgrind() {
    valgrind("epoll.c", &["-", "cpu"], Stdio::null());
}

/// A model of few layers, because valgrind takes some fifty times as long.
#[test]
fn transcription_under_valgrind() {
    let Some(workshop) = Workshop::open() else { return };
    let model = workshop.path("letters.gguf");
    fs::write(&model, letters().file()).unwrap();
    valgrind("transcription.c", &[&audio(), model.to_str().unwrap(), "cpu"], Stdio::null());
}

#[test]
fn live_under_valgrind() {
    let Some(workshop) = Workshop::open() else { return };
    let (model, audio) = (workshop.path("letters.gguf"), workshop.path("audio.raw"));
    fs::write(&model, letters().file()).unwrap();
    // a quarter of a second: each window of it is decoded again
    let tones = tones(1);
    fs::write(&audio, &tones[..tones.len() / 4]).unwrap();
    let input = fs::File::open(audio).unwrap();
    valgrind("live.c", &[model.to_str().unwrap(), "cpu"], input.into());
}
