//! The options of a request.

use std::mem;

use pelton::{GenerateOptions, LoraChoice, SamplingOption};

use crate::{
    fault::Fault,
    load_options::{seconds, speculation},
    settings::{self, Setting, count, flag, parsed, scaled},
};

const EFFORT: &str = "a number above 0 and at most 1";

const SETTINGS: &[Setting<GenerateOptions>] = &[
    Setting {
        name: "max_tokens",
        set: |options, value| count(value).map(|tokens| options.max_tokens = Some(tokens)),
    },
    Setting {
        name: "stop",
        set: |options, value| {
            options.stop.push(value.to_owned());
            Ok(())
        },
    },
    Setting {
        name: "ignore_eos",
        set: |options, value| flag(value).map(|ignore| options.ignore_eos = ignore),
    },
    Setting {
        name: "logprobs",
        set: |options, value| count(value).map(|top| options.logprobs = Some(top)),
    },
    Setting {
        name: "prompt_logprobs",
        set: |options, value| count(value).map(|top| options.prompt_logprobs = Some(top)),
    },
    Setting { name: "logit_bias", set: logit_bias },
    Setting {
        name: "constrain_after",
        set: |options, value| {
            *options = mem::take(options).constrain_after(value);
            Ok(())
        },
    },
    Setting {
        name: "constrain_from",
        set: |options, value| {
            *options = mem::take(options).constrain_from(value);
            Ok(())
        },
    },
    Setting {
        name: "lora",
        set: |options, value| {
            let loras = options.loras.get_or_insert_default();
            // the empty name chooses no adapter
            if !value.is_empty() {
                let (name, scale) = scaled(value)?;
                loras.push(LoraChoice::new(name, scale));
            }
            Ok(())
        },
    },
    Setting {
        name: "deadline",
        set: |options, value| seconds(value).map(|time| options.deadline = Some(time)),
    },
    Setting {
        name: "cache_salt",
        set: |options, value| {
            parsed(value, "a whole number from 0").map(|salt| options.cache_salt = salt)
        },
    },
    Setting {
        name: "client",
        set: |options, value| {
            parsed(value, "a whole number from 0").map(|id| options.client.id = id)
        },
    },
    Setting {
        name: "priority",
        set: |options, value| {
            parsed(value, "a whole number").map(|priority| options.client.priority = priority)
        },
    },
    Setting {
        name: "prediction",
        set: |options, value| {
            options.prediction = Some(value.into());
            Ok(())
        },
    },
    Setting {
        name: "speculation",
        set: |options, value| speculation(value).map(|setting| options.speculation = Some(setting)),
    },
    Setting {
        name: "effort",
        set: |options, value| parsed(value, EFFORT).map(|level| options.effort = Some(level)),
    },
    Setting {
        name: "effort_in_prompt",
        set: |options, value| flag(value).map(|whether| options.effort_in_prompt = whether),
    },
];

/// The names of the options, without those of sampling.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

/// A token's id, `=` and the addition to its logit.
fn logit_bias(options: &mut GenerateOptions, value: &str) -> Result<(), String> {
    let expected = || "the id of a token, = and a number, such as 42=-1.5".to_owned();
    let (token, bias) = value.split_once('=').ok_or_else(expected)?;
    let (token, bias) = (parsed(token, expected())?, parsed(bias, expected())?);
    *options = mem::take(options).logit_bias(token, bias);
    Ok(())
}

/// Sets an option of a request, or one of sampling.
///
/// # Errors
///
/// There is no such option, or the value is not one of it.
pub(crate) fn set(options: &mut GenerateOptions, name: &str, value: &str) -> Result<(), Fault> {
    match SamplingOption::find(name) {
        Some(option) => option.parse(&mut options.sampling, &[value]).map_err(Fault::invalid),
        None => settings::set(SETTINGS, options, name, value),
    }
}
