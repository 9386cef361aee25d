//! `pelton transcribe` with the built-in speech model. Its samples come from a speech synthesizer,
//! so their texts are known.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::Value;

use super::{pelton, refused, run, stdout, temporary};

const CPU: [&str; 2] = ["--device", "cpu"];

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/speech/samples")
}

fn sample(name: &str) -> String {
    samples().join(name).to_str().unwrap().to_owned()
}

/// Names and texts of the samples.
fn texts() -> Vec<(String, String)> {
    let texts = fs::read_to_string(samples().join("texts.json")).unwrap();
    let texts: Value = serde_json::from_str(&texts).unwrap();
    let text =
        |(name, of): (&String, &Value)| (name.clone(), of["text"].as_str().unwrap().to_owned());
    texts.as_object().unwrap().iter().map(text).collect()
}

/// 16-bit samples of one channel, 16,000 a second, as a wav file.
pub(crate) fn wav(name: &str, samples: &[i16]) -> PathBuf {
    let path = temporary(name);
    let bytes = 2 * samples.len() as u32;
    let mut file = Vec::new();
    file.extend(b"RIFF");
    file.extend((36 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt ");
    for (value, width) in [(16u32, 4), (1, 2), (1, 2), (16_000, 4), (32_000, 4), (2, 2), (16, 2)] {
        file.extend(&value.to_le_bytes()[..width]);
    }
    file.extend(b"data");
    file.extend(bytes.to_le_bytes());
    file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    fs::write(&path, file).unwrap();
    path
}

/// White noise of a quarter of the greatest amplitude or less.
fn noise(len: usize) -> Vec<i16> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 20) as i16 - 2048
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn samples_have_their_texts() {
    let folder = temporary("transcripts");
    let _ = fs::remove_dir_all(&folder);
    let (names, texts): (Vec<String>, Vec<String>) = texts().into_iter().unzip();
    let files: Vec<String> = names.iter().map(|name| sample(name)).collect();
    for batch in ["1", "4"] {
        let mut words = vec!["transcribe", "built-in"];
        words.extend(files.iter().map(String::as_str));
        words.extend(["-o", folder.to_str().unwrap(), "--batch", batch]);
        let output = run(&[&words[..], &CPU[..]].concat());
        assert_eq!(stdout(&output), "");
        for (name, text) in names.iter().zip(&texts) {
            let file = folder.join(name).with_extension("txt");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(&format!("{} is written", file.display())), "{said}");
            assert_eq!(fs::read_to_string(&file).unwrap().trim_end(), text, "{name}");
            fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn formats() {
    let (name, text) = texts().swap_remove(0);
    let file = sample(&name);
    let of = |more: &[&str]| stdout(&run(&[&["transcribe", &file], &CPU[..], more].concat()));
    assert_eq!(of(&[]), format!("{text}\n"));
    // the greedy search and one of a single language find the same
    assert_eq!(of(&["--beam", "1", "--language", "English", "--vad"]), format!("{text}\n"));
    let srt = of(&["--format", "srt"]);
    assert!(srt.starts_with("1\n00:00:00,000 --> 00:00:0"), "{srt}");
    assert!(srt.contains(&text), "{srt}");
    let json: Value = serde_json::from_str(&of(&["--format", "json"])).unwrap();
    assert_eq!(json["language"], "en");
    assert_eq!(json["text"].as_str().unwrap().trim(), text);
    let segment = &json["segments"][0];
    assert!(segment["end"].as_f64().unwrap() > segment["start"].as_f64().unwrap(), "{json}");
}

/// A command is a text of the grammar, whatever else the sample may say.
#[test]
fn texts_follow_a_grammar() {
    let grammar = temporary("commands.gbnf");
    let of = |text: &str, file: &str, more: &[&str]| {
        fs::write(&grammar, text).unwrap();
        let words = ["transcribe", &sample(file), "--grammar", grammar.to_str().unwrap()];
        stdout(&run(&[&words[..], &CPU[..], more].concat()))
    };
    // the sample's own words, among others
    let choice = r#"root ::= " Sam learned " ("Greek" | "Polish") " in " ("Oslo" | "Boston") ".""#;
    for beams in ["1", "5"] {
        assert_eq!(of(choice, "polish.wav", &["--beam", beams]), "Sam learned Polish in Boston.\n");
    }
    // words that it does not have
    let other = r#"root ::= " Sam learned " ("Greek" | "Dutch") " in Oslo.""#;
    let text = of(other, "polish.wav", &["--batch", "2"]);
    assert!(
        ["Sam learned Greek in Oslo.\n", "Sam learned Dutch in Oslo.\n"].contains(&&*text),
        "{text}"
    );
    let lark = "start: \" Sam learned Polish in Boston.\" | \" Stop.\"";
    assert_eq!(of(lark, "polish.wav", &[]), "Sam learned Polish in Boston.\n");
    fs::write(&grammar, "root ::= missing").unwrap();
    let error = refused(
        &[&["transcribe", &sample("polish.wav"), "--grammar", grammar.to_str().unwrap()], &CPU[..]]
            .concat(),
        1,
    );
    assert!(error.contains("missing"), "{error}");
}

/// Signs that Whisper never writes by itself are written where a grammar demands them. A text that
/// fills the window is an error, and no part of it is printed.
#[test]
fn a_grammar_wins_over_suppressed_signs() {
    let grammar = temporary("signs.gbnf");
    fs::write(&grammar, r##"root ::= " Sam: #1 <a> [b] * {c} = \"d\" ♪""##).unwrap();
    let of = |more: &[&str]| {
        let words = ["transcribe", &sample("polish.wav"), "--grammar", grammar.to_str().unwrap()];
        stdout(&run(&[&words[..], &CPU[..], more].concat()))
    };
    for more in
        [&["--beam", "1"][..], &["--beam", "5"], &["--batch", "2"], &["--temperature", "0.6"]]
    {
        assert_eq!(of(more), "Sam: #1 <a> [b] * {c} = \"d\" ♪\n", "{more:?}");
    }
    let json: Value = serde_json::from_str(&of(&["--format", "json", "--beam", "1"])).unwrap();
    assert!(json["segments"][0]["avg_logprob"].as_f64().unwrap().is_finite(), "{json}");
    fs::write(&grammar, format!("root ::= \" {}\"", "x# ".repeat(400))).unwrap();
    let words = ["transcribe", &sample("polish.wav"), "--grammar", grammar.to_str().unwrap()];
    let error =
        refused(&[&words[..], &CPU[..], &["--beam", "1", "--temperature", "0"]].concat(), 1);
    assert!(error.contains("expected a constraint with shorter texts"), "{error}");
}

/// The built-in model knows English only.
#[test]
fn other_languages_of_an_english_model_are_said() {
    let (name, text) = texts().swap_remove(0);
    for language in ["fr", "German", "pt-BR"] {
        let output =
            run(&[&["transcribe", &sample(&name), "--language", language], &CPU[..]].concat());
        let notes = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(notes.contains("knows English only") && notes.contains(": english"), "{notes}");
        assert_eq!(stdout(&output), format!("{text}\n"));
    }
    let output = run(&[&["transcribe", &sample(&name), "--language", "en-US"], &CPU[..]].concat());
    assert!(!String::from_utf8_lossy(&output.stderr).contains("knows English only"));
}

#[test]
fn silence_and_noise_have_no_text() {
    let silence = wav("silence.wav", &vec![0; 5 * 16_000]);
    let noise = wav("noise.wav", &noise(5 * 16_000));
    for file in [&silence, &noise] {
        for more in [&["--vad"][..], &[]] {
            let words = [&["transcribe", file.to_str().unwrap()], &CPU[..], more].concat();
            assert_eq!(stdout(&run(&words)), "", "{words:?}");
        }
    }
    // a sample alone, and no sample at all
    for samples in [&[1i16][..], &[]] {
        let file = wav("short.wav", samples);
        let words = [&["transcribe", file.to_str().unwrap()], &CPU[..]].concat();
        assert_eq!(stdout(&run(&words)), "", "{} samples", samples.len());
    }
}

#[test]
fn what_cannot_be_transcribed() {
    let (name, _) = texts().swap_remove(0);
    let audio = sample(&name);
    let error = refused(&["transcribe", "no-such-file.wav"], 1);
    assert!(error.contains("no-such-file.wav could not be read"), "{error}");
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let message = refused(&["transcribe", readme], 1);
    assert!(message.contains("is not an audio file of a known format"), "{message}");
    assert!(message.contains("hint: a model comes before its audio"), "{message}");
    let error = refused(&["transcribe", &audio, &audio], 1);
    assert!(error.contains("expected a MODEL before several files"), "{error}");
    let error = refused(&["transcribe", "built-in", &audio, &audio], 1);
    assert!(error.contains("no -o DIR"), "{error}");
    let folder = temporary("twice");
    let _ = fs::remove_dir_all(&folder);
    let o = ["-o", folder.to_str().unwrap()];
    let error = refused(&[&["transcribe", "built-in", &audio, &audio], &o[..]].concat(), 1);
    assert!(error.contains("would both become"), "{error}");
    let once = [&["transcribe", &audio], &o[..], &CPU[..]].concat();
    stdout(&run(&once));
    // a result that exists may have been edited
    assert!(refused(&once, 1).contains("exists already"));
    stdout(&run(&[&once[..], &["--force"]].concat()));
    let error = refused(&["transcribe", &audio, "--words"], 1);
    assert!(error.contains("times of words"), "{error}");
    let error = refused(&["transcribe", &audio, "--temperature", "7"], 1);
    assert!(error.contains("temperature is 7"), "{error}");
    let error = refused(&["transcribe", &audio, "--language", "klingon"], 2);
    assert!(error.contains("klingon"), "{error}");
    let error =
        refused(&["run", &format!("{}/../pelton-speech.gguf", samples().display()), "Hello"], 1);
    assert!(error.contains("pelton transcribe"), "{error}");
}

/// Live audio needs times of words, which the built-in model does not compute.
#[test]
fn live_audio_needs_times_of_words() {
    let mut child = pelton()
        .args([&["transcribe", "--stream", "-"], &CPU[..]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (name, _) = texts().swap_remove(0);
    let file = fs::read(sample(&name)).unwrap();
    let data = file.windows(4).position(|id| id == b"data").unwrap() + 8;
    // the samples have 8 bits without a sign
    let wide = |&byte: &u8| ((i16::from(byte) - 128) << 8).to_le_bytes();
    let bytes: Vec<u8> = file[data..].iter().flat_map(wide).collect();
    // the program may have ended already
    let _ = child.stdin.take().unwrap().write_all(&bytes);
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("times of words"), "{error}");
}

#[test]
fn a_file_can_come_from_standard_input() {
    let (name, text) = texts().remove(0);
    let mut child = pelton()
        .args(["transcribe", "built-in", "-"])
        .args(CPU)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let bytes = fs::read(samples().join(name)).unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), text);
}

/// `<(program)` of a shell gives the name of a pipe.
#[cfg(unix)]
#[test]
fn a_file_can_be_a_pipe() {
    let (name, text) = texts().remove(0);
    let mut child = pelton()
        .args(["transcribe", "/dev/stdin"])
        .args(CPU)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let bytes = fs::read(samples().join(name)).unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), text);
}

#[cfg(target_os = "linux")]
#[test]
fn names_of_files_may_be_any_bytes() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let folder = temporary("names");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (name, text) = texts().remove(0);
    let file = folder.join(OsStr::from_bytes(b"caf\xe9.wav"));
    fs::copy(samples().join(name), &file).unwrap();
    let output = pelton().args(["transcribe", "built-in"]).arg(&file).args(CPU).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim_end(), text);
    let output = pelton().arg("transcribe").arg(&file).arg(&file).args(CPU).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("no -o DIR") || error.contains("is no UTF-8"), "{error}");
}
