//! `pelton transcribe` with a random model in four languages, compared with OpenAI's `transcribe`
//! over the same weights: each flag changes the text, so a flag that goes nowhere fails here.
//! `../speech/make_expected.py` computed the texts.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::OnceLock,
};

use pelton_testing::WhisperSpec;
use serde_json::Value;

use super::{pelton, run, stdout, temporary};
use crate::transcribe::wav;

/// The exact type of caches, on one thread.
const EXACT: [&str; 6] = ["--device", "cpu", "--threads", "1", "--kv", "f32"];

fn expected() -> &'static Value {
    static EXPECTED: OnceLock<Value> = OnceLock::new();
    EXPECTED.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/speech/expected.json");
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    })
}

/// The model's file, for a test of its own.
fn model(name: &str) -> PathBuf {
    let path = temporary(name);
    let spec = WhisperSpec::of_letters(expected()["seed"].as_u64().unwrap());
    assert_eq!(spec.vocab as u64, expected()["vocab"].as_u64().unwrap());
    fs::write(&path, spec.file()).unwrap();
    path
}

/// Sawtooth tones of 0.1 s each.
fn tones(seconds: f64) -> Vec<i16> {
    let tone = |i: i64| {
        let step = i / 1600 * 37 % 101 + 3;
        (i * step * 8 % 16384 - 8192) as i16
    };
    (0..(seconds * 16_000.0) as i64).map(tone).collect()
}

#[test]
fn flags_have_the_texts_of_openai_whisper() {
    let model = model("letters.gguf");
    for case in cases() {
        agrees(&model, case, &EXACT);
    }
}

/// Sums differ in their last bits between devices, which changes no token of these cases.
#[test]
#[cfg(feature = "gpu")]
fn a_gpu_has_the_texts_and_times_of_openai_whisper() {
    if super::json(&["devices", "--json"]).as_array().unwrap().is_empty() {
        return pelton_testing::skip(pelton_testing::Need::Gpu, "no GPU was found");
    }
    let model = model("letters-gpu.gguf");
    let long = std::env::var_os("PELTON_FULL").map(|_| "whole");
    for name in ["words", "beams"].into_iter().chain(long) {
        let case = cases().iter().find(|case| case["name"] == name).unwrap();
        agrees(&model, case, &["--device", "gpu:0", "--kv", "f32"]);
    }
}

fn cases() -> &'static [Value] {
    expected()["cases"].as_array().unwrap()
}

/// The transcript of a case is OpenAI's: language, tokens, texts, and the times of segments and
/// words.
fn agrees(model: &Path, case: &Value, device: &[&str]) {
    let name = case["name"].as_str().unwrap();
    let file = format!("tones-{name}-{}.wav", device[1]);
    let audio = wav(&file, &tones(case["seconds"].as_f64().unwrap()));
    let mut command = vec!["transcribe", model.to_str().unwrap(), audio.to_str().unwrap()];
    command.extend(["--format", "json", "--temperature-increment", "0"]);
    command.extend(case["flags"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap()));
    if !command.contains(&"--beam") {
        command.extend(["--beam", "1"]);
    }
    command.extend(device);
    let found: Value = serde_json::from_str(&stdout(&run(&command))).unwrap();
    assert_eq!(found["language"], case["language"], "{name}");
    // OpenAI's code gives words of a window of one position times before that window,
    // and drops their text
    let has_text = |one: &&Value| case["words"].is_null() || one["text"] != "";
    let segments = |all: &Value| -> Vec<Value> {
        all["segments"].as_array().unwrap().iter().filter(has_text).cloned().collect()
    };
    // OpenAI's code lets segments end behind the audio. One that starts there
    // belongs to the one before
    let seconds = case["seconds"].as_f64().unwrap();
    let joined = |all: &Value| -> Vec<Value> {
        let mut joined: Vec<Value> = Vec::new();
        for one in segments(all) {
            match joined.last_mut().filter(|_| one["start"].as_f64().unwrap() > seconds - 0.01) {
                Some(last) => {
                    let text = [&last["text"], &one["text"]].map(|text| text.as_str().unwrap());
                    last["text"] = text.concat().into();
                    last["end"] = one["end"].clone();
                    let tokens = one["tokens"].as_array().unwrap().clone();
                    last["tokens"].as_array_mut().unwrap().extend(tokens);
                }
                None => joined.push(one),
            }
        }
        joined
    };
    for key in ["tokens", "text", "start", "end"] {
        let value = |one: &Value| match one[key].as_f64() {
            Some(time) => time.min(seconds).into(),
            None => one[key].clone(),
        };
        let of = |all| joined(all).iter().map(value).collect::<Vec<Value>>();
        assert_eq!(of(&found), of(case), "{name}: {key}");
    }
    if let Some(expected) = case["words"].as_array() {
        let words =
            segments(&found).into_iter().flat_map(|one| one["words"].as_array().unwrap().clone());
        agree_on_words(&words.collect::<Vec<_>>(), expected, name);
    }
}

/// The words are the same. Random weights attend to all audio nearly evenly, so a time may
/// lie a few positions of 0.02 s away where the paths to it cost nearly the same. At most
/// one time in ten does.
fn agree_on_words(found: &[Value], expected: &[Value], name: &str) {
    let texts = found.iter().map(|word| &word["word"]);
    assert!(texts.eq(expected.iter().map(|word| &word[0])), "{name}: {found:?}");
    let mut others = 0;
    for (word, expected) in found.iter().zip(expected) {
        for (key, at) in [("start", 1), ("end", 2)] {
            let [found, expected] = [&word[key], &expected[at]].map(|time| time.as_f64().unwrap());
            let distance = (found - expected).abs();
            assert!(distance < 0.1, "{name}: {word}, {key} {expected}");
            others += usize::from(distance > 1e-3);
        }
    }
    assert!(10 * others <= 2 * expected.len(), "{name}: {others} of {} times", 2 * expected.len());
}

/// The model writes letters about silence too, which voice activity detection leaves out.
#[test]
fn voices_alone_are_decoded() {
    let model = model("letters-vad.gguf");
    let silence = wav("silence-of-letters.wav", &vec![0; 3 * 16_000]);
    let of = |more: &[&str]| {
        let files = [model.to_str().unwrap(), silence.to_str().unwrap()];
        let words = [
            &["transcribe"],
            &files[..],
            &["--temperature-increment", "0", "--beam", "1"],
            &EXACT,
            more,
        ];
        stdout(&run(&words.concat()))
    };
    assert!(!of(&[]).trim().is_empty());
    assert_eq!(of(&["--vad"]), "");
    assert_eq!(of(&["--batch", "2"]), "");
}

/// Live audio of two transcripts, whose words are those of the second one.
#[test]
fn live_audio_with_times_of_words() {
    let model = model("letters-live.gguf");
    let live = expected()["live"]["words"].as_array().unwrap();
    for times in [true, false] {
        let mut command = pelton();
        command.args(["transcribe", model.to_str().unwrap(), "--stream", "-", "--language", "en"]);
        command.args(["--temperature-increment", "0", "--beam", "1"]).args(EXACT);
        command.args(times.then_some("--words"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let bytes: Vec<u8> = tones(1.5).into_iter().flat_map(i16::to_le_bytes).collect();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let text = stdout(&child.wait_with_output().unwrap());
        let expected: String = match times {
            true => {
                let line = |word: &Value| {
                    let [text, start, end] = [0, 1, 2].map(|i| word[i].clone());
                    let (start, end) = (start.as_f64().unwrap(), end.as_f64().unwrap());
                    format!("{start:.2}\t{end:.2}\t{}\n", text.as_str().unwrap().trim_start())
                };
                live.iter().map(line).collect()
            }
            false => {
                let words = live.iter().map(|word| word[0].as_str().unwrap());
                words.chain(["\n"]).collect()
            }
        };
        assert_eq!(text, expected);
    }
}
