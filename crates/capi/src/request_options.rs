//! The options of a request.

use std::mem;

use pelton::{GenerateOptions, LoraChoice, SamplingOption};

use crate::{
    fault::Fault,
    settings::{self, Setting, count, flag, parsed, scaled, seconds, setting, whole, word},
};

pub(crate) const SETTINGS: &[Setting<GenerateOptions>] = &[
    setting!("max_tokens", count, |options, tokens| options.max_tokens = Some(tokens)),
    setting!("stop", word, |options, text| options.stop.push(text)),
    setting!("ignore_eos", flag, |options, ignore| options.ignore_eos = ignore),
    setting!("logprobs", count, |options, top| options.logprobs = Some(top)),
    setting!("prompt_logprobs", count, |options, top| options.prompt_logprobs = Some(top)),
    Setting { name: "logit_bias", set: logit_bias },
    setting!("constrain_after", word, |options, text| {
        *options = mem::take(options).constrain_after(text);
    }),
    setting!("constrain_from", word, |options, text| {
        *options = mem::take(options).constrain_from(text);
    }),
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
    setting!("deadline", seconds, |options, time| options.deadline = Some(time)),
    setting!("cache_salt", whole, |options, salt| options.cache_salt = salt),
    setting!("client", whole, |options, id| options.client.id = id),
    setting!("priority", priority, |options, priority| options.client.priority = priority),
    setting!("prediction", word, |options, text| options.prediction = Some(text.into())),
    setting!("speculation", str::parse, |options, setting| options.speculation = Some(setting)),
    setting!("effort", str::parse, |options, level| options.effort = Some(level)),
    setting!("effort_in_prompt", flag, |options, whether| options.effort_in_prompt = whether),
];

fn priority(value: &str) -> Result<i32, String> {
    parsed(value, "a whole number")
}

/// A token's id, `=` and the addition to its logit.
fn logit_bias(options: &mut GenerateOptions, value: &str) -> Result<(), String> {
    let expected = "the id of a token, = and a number, such as 42=-1.5";
    let wrong = || format!("expected {expected}");
    let (token, bias) = value.split_once('=').ok_or_else(wrong)?;
    let (token, bias) = (parsed(token, expected)?, parsed(bias, expected)?);
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
