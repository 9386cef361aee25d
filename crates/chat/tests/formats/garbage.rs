//! Outputs that no format describes.

use std::time::{Duration, Instant};

use pelton_chat::{Event, FORMATS, Reply};
use pelton_testing::Random;
use proptest::prelude::*;

use crate::recordings::RECORDINGS;
use crate::{check, parse, parser};

/// Pieces that outputs are put together from: all markers of a format, parts of them, and more.
fn words(format: &str) -> Vec<String> {
    let mut words: Vec<String> = [
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "\"",
        "'",
        "\\",
        ",",
        ":",
        ";",
        "=",
        "/",
        "<",
        ">",
        "|",
        " ",
        "\n",
        "\n\n",
        "a",
        "é",
        "😀",
        "1",
        "-1.5e3",
        "true",
        "null",
        "None",
        "name",
        "f",
        "\"name\": \"f\"",
        "\"arguments\": {",
        "\"parameters\": {\"a\": 1}",
        "{\"name\": \"f\", \"arguments\": {\"a\": ",
        "call:f{",
        "f(a=1)",
        "to=functions.f",
        "assistant",
        "analysis",
        "json",
        "\\u00e9",
        "\\ud83d",
        "\\x",
        "function",
        "```json",
    ]
    .map(str::to_owned)
    .to_vec();
    for recording in RECORDINGS.iter().filter(|recording| recording.format == format) {
        let marks = ['<', '>', '[', ']', '\n'];
        words.extend(recording.output.split_inclusive(marks).map(str::to_owned));
        for (at, _) in recording.output.match_indices(marks) {
            let rest = &recording.output[at..];
            let end = rest.find(['>', ']', '\n']).map_or(rest.len(), |end| end + 1);
            words.push(rest[..end].to_owned());
        }
        words.push(recording.output.to_owned());
    }
    words
}

/// All letters of the output are in the events: text is never lost. Letters of markers and of calls
/// that were parsed may be missing.
fn digits(events: &[Event]) -> usize {
    let count = |text: &str| text.matches('7').count();
    events
        .iter()
        .map(|event| match event {
            Event::Content(text) | Event::Reasoning(text) => count(text),
            Event::ToolCallArguments { delta, .. } => count(delta),
            Event::ToolCallBroken { .. } | Event::ToolCallEnd { .. } => 0,
            Event::ToolCallStart { name, .. } => count(name),
        })
        .sum()
}

#[test]
fn a_hundred_thousand_random_outputs() {
    let begin = Instant::now();
    let mut random = Random::new(11);
    let mut calls = 0;
    for format in FORMATS {
        let words = words(format.name);
        for _ in 0..100_000 / FORMATS.len() + 1 {
            let text: String = (0..1 + random.below(12))
                .map(|_| words[random.below(words.len())].as_str())
                .collect();
            let events = parse(parser(format.name, &[]), [text.as_bytes()]);
            check(&events);
            let size = 1 + random.below(7);
            let pieces = parse(parser(format.name, &[]), text.as_bytes().chunks(size));
            assert_eq!(pieces, events, "{}: {text:?} in pieces of {size}", format.name);
            calls += Reply::from_events(events).tool_calls.len();
        }
    }
    assert!(calls > 10_000, "only {calls} calls: the inputs are too random");
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[test]
fn text_is_not_lost() {
    let mut random = Random::new(12);
    for format in FORMATS.iter().filter(|format| format.name != "harmony") {
        let words = words(format.name);
        for _ in 0..500 {
            let mut text = String::from("x7");
            for _ in 0..1 + random.below(8) {
                text.push_str(&words[random.below(words.len())]);
            }
            text.push_str(" 7");
            let events = parse(parser(format.name, &[]), [text.as_bytes()]);
            let broken = |event: &Event| matches!(event, Event::ToolCallBroken { .. });
            // Text after the first call may belong to it.
            if !events.iter().any(broken) {
                assert!(digits(&events) >= 1, "{}: {text:?} {events:?}", format.name);
            }
            if events.iter().all(|e| matches!(e, Event::Content(_) | Event::Reasoning(_))) {
                assert!(digits(&events) >= 2, "{}: {text:?} {events:?}", format.name);
            }
        }
    }
}

/// The cost of a long output grows with its length, not with its square.
#[test]
fn long_outputs() {
    for format in FORMATS {
        let Some(calls) = format.calls else { continue };
        let open = calls.open.first().copied().unwrap_or("<|start|>");
        let close = calls.close;
        for unit in [
            open.to_owned(),
            format!("{open}{{"),
            format!("{open}f{close}"),
            format!("{close}<"),
            format!("{open}{{\"name\": \"f\", \"arguments\": {{\"a\": [1,"),
            "{\"a\":[".to_owned(),
            " ".to_owned(),
            "\u{e9}".to_owned(),
        ] {
            let text = unit.repeat(400_000 / unit.len());
            let begin = Instant::now();
            check(&parse(parser(format.name, &[]), [text.as_bytes()]));
            check(&parse(parser(format.name, &[]), text.as_bytes().chunks(5)));
            let time = begin.elapsed();
            assert!(time < Duration::from_secs(10), "{}: {unit:?} {time:?}", format.name);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes(
        which in 0..FORMATS.len(),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        size in 1usize..9,
    ) {
        let format = FORMATS[which].name;
        let whole = parse(parser(format, &[]), [&bytes[..]]);
        check(&whole);
        prop_assert_eq!(parse(parser(format, &[]), bytes.chunks(size)), whole);
    }

    #[test]
    fn damaged_recordings(
        which in 0..RECORDINGS.len(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<Option<u8>>()), 1..4),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let recording = &RECORDINGS[which];
        let mut bytes = recording.output.as_bytes().to_vec();
        for (at, byte) in edits {
            if bytes.is_empty() { break; }
            let at = at.index(bytes.len());
            match byte {
                Some(byte) => bytes[at] = byte,
                None => drop(bytes.remove(at)),
            }
        }
        let whole = parse(parser(recording.format, &[]), [&bytes[..]]);
        check(&whole);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
        prop_assert_eq!(parse(parser(recording.format, &[]), pieces), whole);
    }
}
