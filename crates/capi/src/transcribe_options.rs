//! The options of a transcription.

use pelton::speech::{Language, Task, Transcription, VoiceOptions};

use crate::settings::{Setting, amount, count, flag, parsed, setting, whole, word};

/// The options of a transcription, live ones included.
#[derive(Default)]
pub(crate) struct Listening {
    pub(crate) all: Transcription,
    /// Seconds of live audio after which it is transcribed again.
    pub(crate) step: Option<f64>,
}

pub(crate) const SETTINGS: &[Setting<Listening>] = &[
    setting!("language", language, |to, language| to.all.rules.decode.language = Some(language)),
    setting!("task", task, |to, task| to.all.rules.decode.task = task),
    setting!("temperature", amount, |to, one| to.all.rules.temperatures = vec![one]),
    setting!("beam_size", count, |to, size| to.all.rules.decode.beam_size = Some(size)),
    setting!("best_of", count, |to, size| to.all.rules.decode.best_of = Some(size)),
    setting!("patience", amount, |to, one| to.all.rules.decode.patience = Some(one)),
    setting!("length_penalty", amount, |to, one| to.all.rules.decode.length_penalty = Some(one)),
    setting!("seed", whole, |to, seed| to.all.rules.decode.seed = seed),
    setting!("timestamps", flag, |to, times| to.all.rules.decode.without_timestamps = !times),
    setting!("words", flag, |to, words| to.all.rules.words = words),
    setting!("initial_prompt", word, |to, text| to.all.rules.initial_prompt = Some(text)),
    setting!("hot_words", word, |to, text| to.all.rules.hot_words = Some(text)),
    setting!("condition_on_previous_text", flag, |to, whether| {
        to.all.rules.condition_on_previous_text = whether;
    }),
    setting!("voices", flag, |to, voices| to.all.voices = voices.then(VoiceOptions::default)),
    setting!("batched", flag, |to, batched| to.all.batched = batched),
    setting!("step", amount, |to, seconds| to.step = Some(seconds)),
];

fn language(value: &str) -> Result<Language, String> {
    parsed(value, "the code or the English name of a language")
}

fn task(value: &str) -> Result<Task, String> {
    match value {
        "transcribe" => Ok(Task::Transcribe),
        "translate" => Ok(Task::Translate),
        _ => Err("expected transcribe or translate".to_owned()),
    }
}
