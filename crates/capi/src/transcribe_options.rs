//! The options of a transcription.

use pelton::speech::{Task, Transcription, VoiceOptions};

use crate::settings::{Setting, amount, count, flag, parsed};

pub(crate) const SETTINGS: &[Setting<Transcription>] = &[
    Setting {
        name: "language",
        set: |options, value| {
            let language = parsed(value, "the code or the English name of a language")?;
            options.rules.decode.language = Some(language);
            Ok(())
        },
    },
    Setting {
        name: "task",
        set: |options, value| {
            options.rules.decode.task = match value {
                "transcribe" => Task::Transcribe,
                "translate" => Task::Translate,
                _ => return Err("transcribe or translate".to_owned()),
            };
            Ok(())
        },
    },
    Setting {
        name: "temperature",
        set: |options, value| amount(value).map(|one| options.rules.temperatures = vec![one]),
    },
    Setting {
        name: "beam_size",
        set: |options, value| count(value).map(|size| options.rules.decode.beam_size = Some(size)),
    },
    Setting {
        name: "best_of",
        set: |options, value| count(value).map(|size| options.rules.decode.best_of = Some(size)),
    },
    Setting {
        name: "patience",
        set: |options, value| amount(value).map(|one| options.rules.decode.patience = Some(one)),
    },
    Setting {
        name: "length_penalty",
        set: |options, value| {
            amount(value).map(|one| options.rules.decode.length_penalty = Some(one))
        },
    },
    Setting {
        name: "seed",
        set: |options, value| {
            parsed(value, "a whole number from 0").map(|seed| options.rules.decode.seed = seed)
        },
    },
    Setting {
        name: "timestamps",
        set: |options, value| {
            flag(value).map(|times| options.rules.decode.without_timestamps = !times)
        },
    },
    Setting {
        name: "words",
        set: |options, value| flag(value).map(|words| options.rules.words = words),
    },
    Setting {
        name: "initial_prompt",
        set: |options, value| {
            options.rules.initial_prompt = Some(value.to_owned());
            Ok(())
        },
    },
    Setting {
        name: "hot_words",
        set: |options, value| {
            options.rules.hot_words = Some(value.to_owned());
            Ok(())
        },
    },
    Setting {
        name: "condition_on_previous_text",
        set: |options, value| {
            flag(value).map(|whether| options.rules.condition_on_previous_text = whether)
        },
    },
    Setting {
        name: "voices",
        set: |options, value| {
            options.voices = flag(value)?.then(VoiceOptions::default);
            Ok(())
        },
    },
    Setting {
        name: "batched",
        set: |options, value| flag(value).map(|batched| options.batched = batched),
    },
];

/// The names of the options.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}
