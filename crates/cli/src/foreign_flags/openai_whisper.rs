//! The options of OpenAI's `whisper` and of `whisper-ctranslate2` (faster-whisper), for
//! `pelton transcribe`. Pelton has most of them under the same names, with hyphens.

use super::{
    convert, speech,
    table::{Fate, Peer, Row, Takes, by, is, noted, refused},
};

pub(super) const PEER: Peer = Peer { name: "whisper", commands: &["transcribe"], tables: &[ROWS] };

pub(super) const CTRANSLATE2: Peer = Peer {
    name: "whisper-ctranslate2",
    commands: &["transcribe"],
    tables: &[CTRANSLATE2_ROWS, ROWS],
};

const TOKENS: &str = "tokens that are no speech are left out";
const LIVE: &str = "--stream - transcribes raw audio of standard input, as a recorder writes it";
const SPEAKERS: &str = "speakers are not told apart";

const ROWS: &[Row] = &[
    by("--model", speech::model, ""),
    noted("--model_dir", "HF_HOME names the folder of downloads"),
    by("--device", convert::device, "--device"),
    is("--output_dir -o", "--output"),
    by("--output_format", speech::format, "--format"),
    noted("--verbose", "a terminal shows a bar, and the text goes to standard output or to files"),
    is("--task", "--task"),
    by("--language", no_language, "--language"),
    by("--temperature", no_value, "--temperature"),
    by("--best_of", no_value, "--best-of"),
    by("--beam_size", one_beam, "--beam"),
    by("--patience", no_value, "--patience"),
    by("--length_penalty", no_value, "--length-penalty"),
    by("--suppress_tokens", default_tokens, ""),
    is("--initial_prompt", "--prompt"),
    by("--carry_initial_prompt", convert::if_true, "--carry-initial-prompt"),
    by("--condition_on_previous_text", convert::if_false, "--no-condition"),
    noted("--fp16", "numbers are computed as the device is fast with"),
    by("--temperature_increment_on_fallback", no_fallback, "--temperature-increment"),
    is("--compression_ratio_threshold", "--compression-ratio-threshold"),
    is("--logprob_threshold", "--logprob-threshold"),
    is("--no_speech_threshold", "--no-speech-threshold"),
    by("--word_timestamps", convert::if_true, "--words"),
    is("--prepend_punctuations", "--prepend-punctuations"),
    is("--append_punctuations", "--append-punctuations"),
    by("--highlight_words", convert::if_true, "--highlight-words"),
    by("--max_line_width", no_value, "--max-line-width"),
    by("--max_line_count", no_value, "--max-line-count"),
    by("--max_words_per_line", no_value, "--max-words-per-line"),
    by("--threads", convert::positive, "--threads"),
    is("--clip_timestamps", "--clip-timestamps"),
    by("--hallucination_silence_threshold", no_value, "--hallucination-silence-threshold"),
];

const CTRANSLATE2_ROWS: &[Row] = &[
    by("--model_directory", |value, _| convert::Became::Model(value.to_owned()), ""),
    by("--local_files_only", convert::if_true, "--offline"),
    noted("--pretty_json", "JSON has a field a line where a program may read it"),
    noted("--print_colors", "the text has no colours"),
    by("--device_index", convert::gpu_number, "--device"),
    noted("--compute_type", "numbers are computed as the device is fast with"),
    noted(
        "--prompt_reset_on_temperature",
        "the text of a window above 0.5 is not given to the next one",
    ),
    refused("--prefix", "--prompt TEXT comes before the first window"),
    by("--suppress_blank", convert::if_false, "--allow-blank"),
    is("--repetition_penalty", "--repetition-penalty"),
    is("--no_repeat_ngram_size", "--no-repeat-ngram-size"),
    is("--hotwords", "--hot-words"),
    by("--batched", batched, "--batch"),
    by("--batch_size", no_value, "--batch"),
    // a flag of Pelton's own too
    Row::new("--multilingual", Takes::Switch, Fate::By(convert::if_true, "--multilingual")),
    by("--vad_filter", convert::if_true, "--vad"),
    is("--vad_threshold", "--vad-threshold"),
    is("--vad_min_speech_duration_ms", "--vad-min-speech-duration-ms"),
    is("--vad_max_speech_duration_s", "--vad-max-speech-duration-s"),
    is("--vad_min_silence_duration_ms", "--vad-min-silence-duration-ms"),
    refused("--hf_token", SPEAKERS),
    refused("--speaker_name", SPEAKERS),
    refused("--speaker_num", SPEAKERS),
    refused("--live_transcribe", LIVE),
    refused("--live_volume_threshold", LIVE),
    refused("--live_input_device", LIVE),
    refused("--live_input_device_sample_rate", LIVE),
];

use convert::Became::{Noted, Refused, Words};

/// A value, of which None is the default.
fn no_value(value: &str, own: &'static str) -> convert::Became {
    Words(match value {
        "None" => Vec::new(),
        value => vec![format!("{own}={value}")],
    })
}

/// The language; None is for the one that is heard.
pub(super) fn no_language(value: &str, own: &'static str) -> convert::Became {
    Words(vec![format!("{own}={}", if value == "None" { "auto" } else { value })])
}

/// Hypotheses; None is for none.
fn one_beam(value: &str, own: &'static str) -> convert::Became {
    Words(vec![format!("{own}={}", if value == "None" { "1" } else { value })])
}

/// The growth of the temperature; None is for one temperature.
fn no_fallback(value: &str, own: &'static str) -> convert::Became {
    Words(vec![format!("{own}={}", if value == "None" { "0" } else { value })])
}

/// Tokens that never occur: the default, or none.
fn default_tokens(value: &str, _: &'static str) -> convert::Became {
    match value {
        "-1" => Noted,
        _ => Refused(TOKENS.to_owned()),
    }
}

/// Parts that are decoded at a time: faster-whisper's eight.
fn batched(value: &str, own: &'static str) -> convert::Became {
    match convert::truth(value) {
        Some(true) => Words(vec![format!("{own}=8")]),
        Some(false) => Words(Vec::new()),
        None => convert::expected("True or False"),
    }
}
