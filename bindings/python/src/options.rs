//! Keyword arguments as the options of a request.

use std::{collections::BTreeMap, time::Duration};

use pelton::{
    Client, Constraint, EffortLevel, GenerateOptions, LogitBias, LoraChoice, OptionKind, Prompt,
    Sampling, SamplingOption, Speculation,
};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyString, PyTuple},
};
use serde_json::Value;

use crate::{
    arguments::{get, texts, wrong},
    error::Failure,
    json,
};

/// The names of all sampling options, for the stubs and their test.
pub(crate) fn sampling_names(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, Sampling::OPTIONS.iter().map(|option| option.name))
}

/// The options of a call of `function`, from the model's own sampling on. An argument that is
/// `None` is as one that is not given.
pub(crate) fn request_options(
    function: &str,
    keywords: Option<&Bound<'_, PyDict>>,
    defaults: Sampling,
) -> PyResult<GenerateOptions> {
    let mut options = GenerateOptions::default();
    options.sampling = defaults;
    for (key, value) in keywords.into_iter().flatten() {
        let key: String = key.extract()?;
        set(function, &mut options, &key, &value)?;
    }
    Ok(options)
}

fn set(
    function: &str,
    options: &mut GenerateOptions,
    key: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let known = NAMES.contains(&key);
    if let Some(option) = SamplingOption::find(key).filter(|_| !known) {
        return match value.is_none() {
            true => Ok(()),
            false => set_sampling(option, &mut options.sampling, key, value),
        };
    }
    if !known {
        return Err(PyTypeError::new_err(format!(
            "{function}() got an unexpected keyword argument '{key}'"
        )));
    }
    if value.is_none() {
        return Ok(());
    }
    match key {
        "max_tokens" => options.max_tokens = Some(get(key, value, COUNT)?),
        "stop" => options.stop = texts(key, value)?,
        "ignore_eos" => options.ignore_eos = get(key, value, "a bool")?,
        "logprobs" => options.logprobs = Some(get(key, value, COUNT)?),
        "prompt_logprobs" => options.prompt_logprobs = Some(get(key, value, COUNT)?),
        "logit_bias" => {
            let biases: BTreeMap<u32, f32> = get(key, value, "a dict of token ids to numbers")?;
            let bias = |(token, bias)| LogitBias::new(token, bias);
            options.logit_bias = biases.into_iter().map(bias).collect();
        }
        "json_schema" | "regex" | "lark" | "gbnf" | "choices" => {
            if options.constraint.is_some() {
                let message = format!("{key} is a second constraint, expected one");
                return Err(Failure::input(message).raise(value.py()));
            }
            options.constraint = constraint(key, value)?;
        }
        "effort" => options.effort = Some(effort(key, value)?),
        "effort_in_prompt" => options.effort_in_prompt = get(key, value, "a bool")?,
        "loras" => {
            let scales: BTreeMap<String, f32> = get(key, value, "a dict of names to scales")?;
            let choice = |(name, scale)| LoraChoice::new(name, scale);
            options.loras = Some(scales.into_iter().map(choice).collect());
        }
        "timeout" => options.deadline = Some(seconds(key, value)?),
        "cache_salt" => options.cache_salt = get(key, value, COUNT)?,
        "priority" => options.client = Client::default().priority(get(key, value, "an int")?),
        "prediction" => {
            options.prediction = Some(Prompt::Text(get(key, value, "a text")?));
        }
        _ => options.speculation = Some(speculation(key, value)?),
    }
    Ok(())
}

const COUNT: &str = "an int from 0";

/// The keyword arguments next to sampling options.
const NAMES: [&str; 19] = [
    "max_tokens",
    "stop",
    "ignore_eos",
    "logprobs",
    "prompt_logprobs",
    "logit_bias",
    "json_schema",
    "regex",
    "lark",
    "gbnf",
    "choices",
    "effort",
    "effort_in_prompt",
    "loras",
    "timeout",
    "cache_salt",
    "priority",
    "prediction",
    "speculation",
];

fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = get(name, value, "seconds")?;
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong(name, value, "seconds from 0"))
}

/// An effort: a fraction, as a number or a text.
pub(crate) fn effort(name: &str, value: &Bound<'_, PyAny>) -> PyResult<EffortLevel> {
    match value.is_instance_of::<PyString>() {
        true => {
            let text: String = value.extract()?;
            text.parse().map_err(|expected: String| {
                Failure::input(format!("{name} is {text:?}, {expected}")).raise(value.py())
            })
        }
        false => {
            let fraction: f64 = get(name, value, "a number or a text")?;
            Ok(fraction.into())
        }
    }
}

/// `auto`, `always` or `off`.
pub(crate) fn speculation(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Speculation> {
    let word: String = get(name, value, "'auto', 'always' or 'off'")?;
    word.parse().map_err(|_| wrong(name, value, "'auto', 'always' or 'off'"))
}

fn constraint(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Constraint>> {
    Ok(Some(match name {
        "json_schema" => match json::from_python(name, value)? {
            Value::Bool(false) => return Ok(None),
            Value::Bool(true) => Constraint::JsonObject,
            Value::String(text) => Constraint::json_schema(&text)
                .map_err(|error| Failure::input(format!("{name}: {error}")).raise(value.py()))?,
            schema => Constraint::JsonSchema(schema),
        },
        "regex" => Constraint::Regex(get(name, value, "a text")?),
        "lark" => Constraint::Lark(get(name, value, "a text")?),
        "gbnf" => Constraint::Gbnf(get(name, value, "a text")?),
        _ => {
            let texts: Vec<String> = get(name, value, "a list of texts")?;
            let texts: Vec<Value> = texts.into_iter().map(Value::String).collect();
            if texts.is_empty() {
                return Err(wrong(name, value, "at least one text"));
            }
            Constraint::Lark(choices(&texts))
        }
    }))
}

/// A grammar of the texts: strings of Lark are written as those of JSON.
fn choices(texts: &[Value]) -> String {
    let texts: Vec<String> = texts.iter().map(Value::to_string).collect();
    format!("start: {}", texts.join(" | "))
}

fn set_sampling(
    option: &SamplingOption,
    sampling: &mut Sampling,
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = value.py();
    let found = || value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
    let refused = || Failure::input(option.refusal(name, &found())).raise(py);
    let is_number = !value.is_instance_of::<PyBool>()
        && (value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>());
    match option.kind {
        OptionKind::Number(..) => {
            let number: f64 = get(name, value, "a number")?;
            option.set_number(sampling, number).then_some(()).ok_or_else(refused)
        }
        OptionKind::Texts(field, ..) => {
            *(field.get_mut)(sampling) = texts(name, value)?;
            option.check(sampling).map_err(|sentence| Failure::input(sentence).raise(py))
        }
        OptionKind::Samplers(_) => option
            .parse(sampling, &texts(name, value)?)
            .map_err(|sentence| Failure::input(sentence).raise(py)),
        OptionKind::Seed(field) => {
            if let Ok(seed) = value.extract::<u64>() {
                *(field.get_mut)(sampling) = Some(seed);
                return Ok(());
            }
            let integer: i64 = get(name, value, "an int of 64 bits")?;
            option.set_integer(sampling, integer).then_some(()).ok_or_else(refused)
        }
        OptionKind::Integer(..) | OptionKind::Version(..) => {
            if !is_number {
                return Err(wrong(name, value, "an int"));
            }
            let integer: i64 = get(name, value, "an int")?;
            option.set_integer(sampling, integer).then_some(()).ok_or_else(refused)
        }
    }
}
