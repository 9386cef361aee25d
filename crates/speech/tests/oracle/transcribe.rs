//! Whole files.

use pelton_speech::transcribe::{TranscribeOptions, transcribe};
use pelton_speech::{Segment, Vocabulary};
use serde_json::Value;

use crate::expected::{assert_near, set};
use crate::fake::{Fake, Frames, Noise, RANKS, ids, vocabulary};

fn options(vocabulary: &Vocabulary, case: &Value) -> TranscribeOptions {
    let mut options = TranscribeOptions::default();
    for (name, value) in case["options"].as_object().unwrap() {
        if set(vocabulary, &mut options.decode, &mut Vec::new(), name, value) {
            if name == "temperature" {
                options.temperatures = vec![value.as_f64().unwrap()];
            }
            continue;
        }
        match &**name {
            "temperature" => {
                let all = value.as_array().unwrap().iter();
                options.temperatures = all.map(|t| t.as_f64().unwrap()).collect();
            }
            "condition_on_previous_text" => {
                options.condition_on_previous_text = value.as_bool().unwrap();
            }
            "initial_prompt" => options.initial_prompt = value.as_str().map(str::to_owned),
            "carry_initial_prompt" => options.carry_initial_prompt = value.as_bool().unwrap(),
            "compression_ratio_threshold" => options.compression_ratio_threshold = value.as_f64(),
            "logprob_threshold" => options.logprob_threshold = value.as_f64(),
            "no_speech_threshold" => options.no_speech_threshold = value.as_f64(),
            "word_timestamps" => options.words = value.as_bool().unwrap(),
            "hallucination_silence_threshold" => {
                options.hallucination_silence_threshold = value.as_f64();
            }
            "prepend_punctuations" => {
                options.prepend_punctuations = value.as_str().unwrap().to_owned();
            }
            "append_punctuations" => {
                options.append_punctuations = value.as_str().unwrap().to_owned();
            }
            "clip_timestamps" => {
                options.clip_timestamps = match value {
                    Value::String(text) => text.split(',').map(|t| t.parse().unwrap()).collect(),
                    _ => value.as_array().unwrap().iter().map(|t| t.as_f64().unwrap()).collect(),
                }
            }
            "multilingual" => assert_eq!(value, false),
            _ => panic!("{name}"),
        }
    }
    options
}

#[track_caller]
fn check(found: &Segment, expected: &Value, name: &str) {
    assert_eq!(found.tokens, ids(&expected["tokens"]), "{name}");
    assert_eq!(found.text, expected["text"].as_str().unwrap(), "{name}");
    assert_eq!(found.seek as u64, expected["seek"].as_u64().unwrap(), "{name}");
    let times = [&expected["start"], &expected["end"]].map(|time| time.as_f64().unwrap());
    // OpenAI's code takes a text for a timestamp where the rules of timestamps are off
    let ordered = (found.seek as f64 / 100.0..=times[1]).contains(&times[0]);
    if ordered || !name.contains("without_timestamps") {
        assert_near(found.start, &expected["start"], name);
        assert_near(found.end, &expected["end"], name);
    }
    assert_near(found.temperature, &expected["temperature"], name);
    assert_near(found.average_logprob, &expected["logprob"], name);
    assert_near(found.compression_ratio, &expected["ratio"], name);
    assert_near(found.no_speech_prob, &expected["no_speech"], name);
    if let Some(words) = expected["words"].as_array() {
        let texts: Vec<&str> = words.iter().map(|word| word[0].as_str().unwrap()).collect();
        let found_texts: Vec<&str> = found.words.iter().map(|word| &*word.text).collect();
        assert_eq!(found_texts, texts, "{name}");
        for (found, word) in found.words.iter().zip(words) {
            assert_near(found.start, &word[1], name);
            assert_near(found.end, &word[2], name);
            assert_near(found.probability, &word[3], name);
        }
    }
}

/// OpenAI's segments without times behind the audio of their window: a text that starts there
/// belongs to the segment before it.
fn within(segments: &[Value], options: &TranscribeOptions, frames: usize) -> Vec<Value> {
    let ends: Vec<usize> = options
        .clip_timestamps
        .iter()
        .map(|&end| (end * 100.0).round_ties_even() as usize)
        .collect();
    let mut all: Vec<Value> = Vec::new();
    for segment in segments {
        let seek = segment["seek"].as_u64().unwrap() as usize;
        let clip = ends.chunks(2).find_map(|clip| match clip {
            [start, end] if (*start..*end).contains(&seek) => Some(*end),
            _ => None,
        });
        let end = (seek + 3000).min(clip.unwrap_or(frames)).min(frames) as f64 / 100.0;
        let mut segment = segment.clone();
        let has_text = segment["text"] != "";
        let (start, stop) = (segment["start"].as_f64().unwrap(), segment["end"].as_f64().unwrap());
        let is_behind = start > end - 0.01;
        if let Some(last) = all.last_mut().filter(|last| is_behind && last["seek"] == seek) {
            let text = [&last["text"], &segment["text"]].map(|text| text.as_str().unwrap());
            last["text"] = text.concat().into();
            for list in ["tokens", "words"] {
                let more = segment[list].as_array().cloned().unwrap_or_default();
                if let Some(own) = last[list].as_array_mut() {
                    own.extend(more);
                }
            }
            if has_text {
                last["end"] = end.into();
            }
            continue;
        }
        let start = if is_behind { seek as f64 / 100.0 } else { start };
        let least = if has_text { start + 0.02 } else { stop };
        segment["start"] = start.into();
        segment["end"] = stop.max(least).min(end).into();
        all.push(segment);
    }
    all
}

fn files(file: &str) {
    let cases: Value = serde_json::from_str(file).unwrap();
    let (multilingual, english) = (vocabulary(), vocabulary().english_only());
    let cases = cases.as_array().unwrap().iter();
    for (case, ranks) in cases.flat_map(|case| RANKS.map(|ranks| (case, ranks))) {
        let is_english = case["options"]["multilingual"] == false;
        let vocabulary = if is_english { &english } else { &multilingual };
        let mut model = Fake::new(case["seed"].as_u64().unwrap());
        model.ranks = ranks;
        let frames = case["frames"].as_u64().unwrap() as usize;
        let mut features = Frames { frames, offset: 0 };
        let options = options(vocabulary, case);
        let mut noise = Noise::default();
        let found =
            transcribe(&mut model, vocabulary, &mut features, &options, &mut noise).unwrap();
        let name = format!("seed {} {} ranks {ranks}", case["seed"], case["options"]);
        let expected = within(case["segments"].as_array().unwrap(), &options, frames);
        for (i, (found, expected)) in found.segments.iter().zip(&expected).enumerate() {
            assert_eq!(found.id, i);
            check(found, expected, &format!("{name} segment {i}"));
        }
        assert_eq!(found.segments.len(), expected.len(), "{name}");
        assert_eq!(found.text, case["text"].as_str().unwrap(), "{name}");
        assert_eq!(found.language.code(), case["language"], "{name}");
        let streamed: Vec<&String> = found.segments.iter().map(|segment| &segment.text).collect();
        assert_eq!(noise.texts.iter().collect::<Vec<_>>(), streamed, "{name}");
        model.assert_all_freed();
    }
}

#[test]
fn files_of_95_seconds() {
    files(include_str!("../fixtures/transcribe.json"));
}

#[test]
fn files_with_words() {
    files(include_str!("../fixtures/transcribe_words.json"));
}
