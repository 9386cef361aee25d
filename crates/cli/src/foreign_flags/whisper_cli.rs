//! whisper-cli's options, for `pelton transcribe`.

use super::{
    convert, openai_whisper, speech,
    table::{Peer, Row, Takes, by, flag, is, noted, noted_flag, refused, refused_flag},
};

pub(super) const PEER: Peer =
    Peer { name: "whisper-cli", commands: &["transcribe"], tables: &[ROWS] };

const ITSELF: &str = "Pelton does this by itself";

const ROWS: &[Row] = &[
    by("-m --model", speech::model, ""),
    by("-f", speech::format_or_file, "--format"),
    by("--file", |value, _| convert::Became::Argument(value.to_owned()), ""),
    by("-t --threads", convert::positive, "--threads"),
    noted("-p --processors", "--batch N decodes N parts at a time"),
    by("-ot --offset-t", speech::milliseconds, super::table::OFFSET),
    refused("-on --offset-n", "segments count from the first one"),
    by("-d --duration", speech::milliseconds, super::table::DURATION),
    by("-mc --max-context", text_context, "--no-condition"),
    by("-ml --max-len", line_length, "--max-line-width"),
    noted_flag("-sow --split-on-word", "lines are split between words"),
    is("-bo --best-of", "--best-of"),
    is("-bs --beam-size", "--beam"),
    by("-ac --audio-ctx", all_audio, ""),
    noted("-wt --word-thold", "--words finds the times of words by attention"),
    by("-et --entropy-thold", entropy, ""),
    is("-lpt --logprob-thold", "--logprob-threshold"),
    is("-nth --no-speech-thold", "--no-speech-threshold"),
    is("-tp --temperature", "--temperature"),
    is("-tpi --temperature-inc", "--temperature-increment"),
    noted_flag("-debug --debug-mode", "the environment variable RUST_LOG chooses log lines"),
    flag("-tr --translate", "--task=translate"),
    refused_flag("-di --diarize", "speakers are not told apart"),
    refused_flag("-tdrz --tinydiarize", "speakers are not told apart"),
    flag("-nf --no-fallback", "--temperature-increment=0"),
    flag("-otxt --output-txt", "--format=txt"),
    flag("-ovtt --output-vtt", "--format=vtt"),
    flag("-osrt --output-srt", "--format=srt"),
    flag("-olrc --output-lrc", "--format=lrc"),
    flag("-ocsv --output-csv", "--format=csv"),
    flag("-oj --output-json", "--format=json"),
    flag("-ojf --output-json-full", "--format=json --words"),
    refused_flag(
        "-owts --output-words",
        "--words --highlight-words --format srt underlines each word",
    ),
    noted("-fp --font-path", "no script for videos is written"),
    by("-of --output-file", speech::result, "--output-file"),
    noted_flag("-np --no-prints", "standard output has the text alone"),
    refused_flag("-ps --print-special", "texts have no control tokens"),
    noted_flag("-pc --print-colors", "the text has no colours"),
    noted_flag("--print-confidence", "--format json --words has the probability of each word"),
    noted_flag("-pp --print-progress", "a terminal shows a bar"),
    noted_flag("-nt --no-timestamps", "the format txt has no times"),
    by("-l --language", openai_whisper::no_language, "--language"),
    refused_flag("-dl --detect-language", "the last line of standard error names the language"),
    is("--prompt", "--prompt"),
    flag("--carry-initial-prompt", "--carry-initial-prompt"),
    noted("-oved --ov-e-device", "OpenVINO is not used"),
    Row::new("-dtw --dtw", Takes::Value, super::table::Fate::Flag("--words")),
    noted_flag("-ls --log-score", "--format json has the log-probability of each segment"),
    flag("-ng --no-gpu", "--device=cpu"),
    by("-dev --device", convert::gpu_number, "--device"),
    noted_flag("-fa --flash-attn", ITSELF),
    noted_flag("-nfa --no-flash-attn", ITSELF),
    noted_flag("-sns --suppress-nst", "tokens that are no speech are left out"),
    refused("--suppress-regex", "--grammar FILE allows the texts of a grammar alone"),
    is("--grammar", "--grammar"),
    by("--grammar-rule", first_rule, ""),
    noted("--grammar-penalty", "other texts than the grammar's cannot occur"),
    flag("--vad", "--vad"),
    noted("-vm --vad-model", "the voice activity detection needs no model"),
    is("-vt --vad-threshold", "--vad-threshold"),
    is("-vspd --vad-min-speech-duration-ms", "--vad-min-speech-duration-ms"),
    is("-vsd --vad-min-silence-duration-ms", "--vad-min-silence-duration-ms"),
    is("-vmsd --vad-max-speech-duration-s", "--vad-max-speech-duration-s"),
    is("-vp --vad-speech-pad-ms", "--vad-speech-pad-ms"),
    noted("-vo --vad-samples-overlap", "parts with speech do not overlap"),
];

/// Characters of a line of subtitles; 0 is for no limit.
fn line_length(value: &str, own: &'static str) -> convert::Became {
    let words = |width| {
        vec!["--words".to_owned(), format!("{own}={width}"), "--max-line-count=1".to_owned()]
    };
    convert::Became::Words(if value == "0" { Vec::new() } else { words(value) })
}

/// Tokens of the text before a window: all, or none.
fn text_context(value: &str, own: &'static str) -> convert::Became {
    match value.parse::<i64>() {
        Ok(0) => convert::Became::Words(vec![own.to_owned()]),
        Ok(number) if !(0..224).contains(&number) => convert::Became::Words(Vec::new()),
        _ => convert::Became::Refused("--no-condition gives a window no text before it".to_owned()),
    }
}

/// Frames of a window: all.
fn all_audio(value: &str, _: &'static str) -> convert::Became {
    match value {
        "0" | "1500" => convert::Became::Words(Vec::new()),
        _ => convert::Became::Refused(
            "a window is 30 seconds, which the model was trained for".to_owned(),
        ),
    }
}

/// The rule with which a grammar begins.
fn first_rule(value: &str, _: &'static str) -> convert::Became {
    match value {
        "root" => convert::Became::Words(Vec::new()),
        _ => convert::Became::Refused("a grammar begins with its rule root".to_owned()),
    }
}

/// The entropy of a text that is not poor: the default.
fn entropy(value: &str, _: &'static str) -> convert::Became {
    match value.parse::<f64>() {
        Ok(2.4) => convert::Became::Noted,
        _ => convert::Became::Refused(
            "--compression-ratio-threshold X tells texts that repeat themselves".to_owned(),
        ),
    }
}
