//! Writers of transcripts, compared with OpenAI's (`fixtures/write/make.py`).

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use pelton_speech::write::{Format, WriteOptions, write};
use pelton_speech::{Segment, Word};
use serde_json::Value;

fn float(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

fn segment(value: &Value) -> Segment {
    let words = value["words"].as_array().map(Vec::as_slice).unwrap_or_default();
    let word = |word: &Value| Word {
        text: word["word"].as_str().unwrap().to_owned(),
        start: float(&word["start"]),
        end: float(&word["end"]),
        probability: float(&word["probability"]),
    };
    Segment {
        id: value["id"].as_u64().unwrap() as usize,
        seek: value["seek"].as_u64().unwrap() as usize,
        start: float(&value["start"]),
        end: float(&value["end"]),
        text: value["text"].as_str().unwrap().to_owned(),
        tokens: value["tokens"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t.as_u64().unwrap() as u32)
            .collect(),
        temperature: float(&value["temperature"]),
        average_logprob: float(&value["avg_logprob"]),
        compression_ratio: float(&value["compression_ratio"]),
        no_speech_prob: float(&value["no_speech_prob"]),
        words: words.iter().map(word).collect(),
    }
}

fn text(format: Format, segments: &[Segment], options: &WriteOptions) -> String {
    let mut out = Vec::new();
    write(format, segments, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn files_equal_openais_byte_by_byte() {
    let cases: Value = serde_json::from_str(include_str!("fixtures/write/segments.json")).unwrap();
    let expected: Value =
        serde_json::from_str(include_str!("fixtures/write/expected.json")).unwrap();
    let mut count = 0;
    for case in expected.as_array().unwrap() {
        let name = case["case"].as_str().unwrap();
        let segments = cases[name].as_array().unwrap();
        let number = |key: &str| case["options"][key].as_u64().map(|x| x as usize);
        let options = WriteOptions {
            words: segments.iter().any(|segment| segment.get("words").is_some()),
            highlight_words: case["options"]["highlight_words"].as_bool().unwrap_or(false),
            max_line_width: number("max_line_width"),
            max_line_count: number("max_line_count"),
            max_words_per_line: number("max_words_per_line"),
            language: "en".to_owned(),
        };
        let segments: Vec<Segment> = segments.iter().map(segment).collect();
        let format: Format = case["format"].as_str().unwrap().parse().unwrap();
        let found = text(format, &segments, &options);
        assert_eq!(found, case["text"].as_str().unwrap(), "{name} {options:?}");
        count += 1;
    }
    assert!(count > 90, "{count}");
}

/// The forms of `output_csv` and `output_lrc` in whisper.cpp's `examples/cli/cli.cpp`.
#[test]
fn tables_have_whisper_cpps_forms() {
    let base = Segment {
        id: 0,
        seek: 0,
        start: 0.0,
        end: 2.5,
        text: " He said \"no\".".to_owned(),
        tokens: vec![],
        temperature: 0.0,
        average_logprob: 0.0,
        compression_ratio: 1.0,
        no_speech_prob: 0.0,
        words: vec![],
    };
    let late =
        Segment { start: 6125.68, end: 6130.0, text: " Late,\nlate.".to_owned(), ..base.clone() };
    let segments = [base, late];
    let options = WriteOptions::default();
    assert_eq!(
        text(Format::Csv, &segments, &options),
        "start,end,text\n0,2500,\" He said \"\"no\"\".\"\n6125680,6130000,\" Late,\nlate.\"\n"
    );
    assert_eq!(
        text(Format::Lrc, &segments, &options),
        "[by:pelton]\n[00:00.00] He said \"no\".\n[102:05.68] Late, late.\n"
    );
}

#[test]
fn unknown_formats_are_named() {
    let text = "xml".parse::<Format>().unwrap_err();
    assert_eq!(
        text,
        "\"xml\" is no format of transcripts, expected one of txt, srt, vtt, tsv, json, csv, lrc"
    );
}
