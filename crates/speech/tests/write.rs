//! Writers of transcripts, compared with OpenAI's (`fixtures/write/make.py`) and with what their
//! formats allow.

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

/// OpenAI's file with its flaws mended: numbers that are none, rows of several lines, subtitles
/// that end early or have no text.
fn readable(format: Format, text: &str) -> String {
    match format {
        Format::Json => text.replace("-Infinity", "null"),
        Format::Txt | Format::Tsv => {
            text.replace("slash\n and", "slash  and").replace("a\nb c\n ün", "a b c  ün")
        }
        Format::Srt | Format::Vtt => {
            let blocks = subtitles(text, format == Format::Srt);
            let head = if format == Format::Vtt { "WEBVTT\n\n" } else { "" };
            let block = |(i, (times, text)): (usize, &(String, String))| match format {
                Format::Srt => format!("{}\n{times}\n{text}\n\n", i + 1),
                _ => format!("{times}\n{text}\n\n"),
            };
            head.to_owned() + &blocks.iter().enumerate().map(block).collect::<String>()
        }
        _ => text.to_owned(),
    }
}

/// The lines of times of subtitles, with the texts that they have.
fn subtitles(text: &str, numbered: bool) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in text.split('\n') {
        match line
            .split_once(" --> ")
            .filter(|(start, _)| start.ends_with(|c: char| c.is_ascii_digit()))
        {
            Some(_) => {
                if let (true, Some((_, text))) = (numbered, all.last_mut()) {
                    // the number of this one
                    let end = text.trim_end_matches('\n');
                    let end = end.trim_end_matches(|c: char| c.is_ascii_digit()).len();
                    text.truncate(end);
                }
                all.push((line.to_owned(), String::new()));
            }
            None => {
                let Some((_, text)) = all.last_mut() else { continue };
                if !line.trim().is_empty() {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
    }
    all.iter_mut().for_each(|(_, text)| *text = text.trim_end_matches('\n').replace("-->", "->"));
    all.retain(|(_, text)| !text.is_empty() && text != "<u></u>");
    all
}

fn one(text: &str) -> Segment {
    Segment {
        id: 0,
        seek: 0,
        start: 0.0,
        end: 1.0,
        text: text.to_owned(),
        tokens: vec![],
        temperature: 0.0,
        average_logprob: f64::NAN,
        compression_ratio: f64::INFINITY,
        no_speech_prob: 0.0,
        words: vec![Word { text: text.to_owned(), start: 0.0, end: 1.0, probability: f64::NAN }],
    }
}

/// WebVTT, section 4.1: a block of a cue ends at a blank line, and its text has no `-->`, and
/// neither `&` nor `<` outside of escapes and tags.
#[test]
fn subtitles_can_be_read_back() {
    let hostile = " a\n\n--> b\r\r\n \t\nif x < 3 && y --->> 4\0 <i>&amp;\n\n2\n00:00:00,000 --> 00:00:09,000\nfake";
    let segments = [one(hostile), one("\n \n"), one(" last")];
    for words in [false, true] {
        for highlight_words in [false, true] {
            let options = WriteOptions { words, highlight_words, ..WriteOptions::default() };
            for format in [Format::Srt, Format::Vtt] {
                let found = text(format, &segments, &options);
                assert_eq!(found.matches("-->").count(), 2, "{found}");
                assert_eq!(found.matches("\n\n").count(), 2 + usize::from(format == Format::Vtt));
                assert!(!found.contains(['\r', '\0']), "{found}");
            }
        }
    }
    let options = WriteOptions::default();
    assert_eq!(
        text(Format::Vtt, &segments[..1], &options),
        "WEBVTT\n\n00:00.000 --> 00:01.000\na\n-> b\nif x &lt; 3 &amp;&amp; y ->> 4\u{fffd} &lt;i>&amp;amp;\n2\n\
         00:00:00,000 -> 00:00:09,000\nfake\n\n"
    );
}

#[test]
fn rows_have_one_line() {
    let segments = [one(" a\nb\r\nc\td\0"), one(" e")];
    let of = |format| text(format, &segments, &WriteOptions::default());
    assert_eq!(of(Format::Txt), "a b c\td\u{fffd}\ne\n");
    assert_eq!(of(Format::Tsv), "start\tend\ttext\n0\t1000\ta b c d\u{fffd}\n0\t1000\te\n");
    assert_eq!(of(Format::Lrc), "[by:pelton]\n[00:00.00] a b c\td\u{fffd}\n[00:00.00] e\n");
    assert_eq!(of(Format::Csv).lines().count(), 5);
}

/// RFC 8259 has no numbers but finite ones.
#[test]
fn json_is_json() {
    let options = WriteOptions { words: true, ..WriteOptions::default() };
    let found: Value =
        serde_json::from_str(&text(Format::Json, &[one(" a\0\u{1}")], &options)).unwrap();
    let segment = &found["segments"][0];
    assert_eq!(segment["text"], " a\0\u{1}");
    assert!(segment["avg_logprob"].is_null() && segment["compression_ratio"].is_null());
    assert!(segment["words"][0]["probability"].is_null());
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
        let expected = readable(format, case["text"].as_str().unwrap());
        assert_eq!(found, expected, "{name} {format:?} {options:?}");
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
