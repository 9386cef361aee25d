//! JSON with all fields of all segments.

use super::options::WriteOptions;
use super::python::{float, string};
use crate::{Segment, Word};
use std::io::{self, Write};

pub(crate) fn json(
    segments: &[Segment],
    options: &WriteOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
    write!(out, "{{\"text\": {}, \"segments\": [", string(&text))?;
    for (i, segment) in segments.iter().enumerate() {
        let tokens: Vec<String> = segment.tokens.iter().map(u32::to_string).collect();
        write!(
            out,
            "{}{{\"id\": {}, \"seek\": {}, \"start\": {}, \"end\": {}, \"text\": {}, \"tokens\": [{}], \
             \"temperature\": {}, \"avg_logprob\": {}, \"compression_ratio\": {}, \"no_speech_prob\": {}",
            if i == 0 { "" } else { ", " },
            segment.id,
            segment.seek,
            float(segment.start),
            float(segment.end),
            string(&segment.text),
            tokens.join(", "),
            float(segment.temperature),
            float(segment.average_logprob),
            float(segment.compression_ratio),
            float(segment.no_speech_prob),
        )?;
        if options.words {
            let words: Vec<String> = segment.words.iter().map(word).collect();
            write!(out, ", \"words\": [{}]", words.join(", "))?;
        }
        write!(out, "}}")?;
    }
    write!(out, "], \"language\": {}}}", string(&options.language))
}

fn word(word: &Word) -> String {
    format!(
        "{{\"word\": {}, \"start\": {}, \"end\": {}, \"probability\": {}}}",
        string(&word.text),
        float(word.start),
        float(word.end),
        float(word.probability),
    )
}
