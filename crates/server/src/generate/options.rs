//! Options of a generation: the fields that all APIs have in common.

use pelton::{EffortLevel, GenerateOptions, LogitBias, LoraChoice, Prompt, Sampling};
use serde_json::Value;

use super::{sampling, tokens::Context};
use crate::{
    error::ApiError,
    input::{Fields, extras, kind},
};

/// The most stop strings of a request.
const STOPS: usize = 64;
/// The most bytes of a stop string.
const STOP_BYTES: usize = 4096;

/// The form that the text must have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Output {
    #[default]
    Text,
    /// Any JSON object.
    Json,
    /// JSON that a schema allows.
    Schema(Value),
    /// A text that a regular expression matches.
    Regex(String),
    /// One of some texts.
    Choice(Vec<String>),
    /// A text of a grammar.
    Grammar(String),
}

/// An adapter as a request names it.
#[derive(Clone, Debug, PartialEq)]
enum Adapter {
    Name(String),
    /// llama.cpp's: the place in the order of the server's command line.
    Id(usize),
}

/// Options of a generation.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) max_tokens: Option<usize>,
    /// As `max_tokens`, where neither the request nor the server sets one.
    pub(crate) usual_tokens: Option<usize>,
    pub(crate) sampling: Sampling,
    /// The names of the fields of `sampling` that the request gives; the model's defaults hold for
    /// the others.
    pub(crate) given: Vec<&'static str>,
    pub(crate) stop: Vec<String>,
    pub(crate) ignore_end: bool,
    /// The effort of generated tokens; `None` for that of the load.
    pub(crate) effort: Option<EffortLevel>,
    pub(crate) log_probs: Option<usize>,
    pub(crate) logit_bias: Vec<LogitBias>,
    pub(crate) output: Output,
    /// A text that the answer is expected to resemble.
    pub(crate) prediction: Option<String>,
    /// The LoRA adapters, each with a scale; `None` for those of the load.
    loras: Option<Vec<(Adapter, f32)>>,
    /// A client's own namespace of cached prefixes.
    pub(crate) cache_salt: Option<String>,
}

impl Options {
    /// Whether a constraint must be compiled for the text.
    pub(crate) fn compiles(&self) -> bool {
        self.output != Output::Text
    }

    /// Takes the options out of a body. `log_probs`, `max_tokens` and `stop` differ by API.
    pub(crate) fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        let (sampling, given) = sampling::take(fields)?;
        let ignore_end = fields.boolean("ignore_eos")?.unwrap_or(false);
        let effort = effort(fields)?;
        let logit_bias = logit_bias(fields)?;
        let cache_salt = fields.string("cache_salt")?;
        // the same text with and without the cache
        fields.boolean("cache_prompt")?;
        refuse(fields)?;
        Ok(Self {
            max_tokens: None,
            usual_tokens: None,
            sampling,
            given,
            stop: Vec::new(),
            ignore_end,
            effort,
            log_probs: None,
            logit_bias,
            prediction: None,
            loras: loras(fields)?,
            output: Output::default(),
            cache_salt,
        })
    }

    /// Takes the stop strings out of a field.
    pub(crate) fn take_stop(
        &mut self,
        fields: &mut Fields,
        name: &'static str,
    ) -> Result<(), ApiError> {
        let stop = fields.strings(name)?;
        let path = fields.at(name);
        let fail = |what: String| Err(ApiError::field(path.clone(), format!("{path} has {what}")));
        if stop.len() > STOPS {
            return fail(format!("{} strings, expected at most {STOPS}", stop.len()));
        }
        if let Some(long) = stop.iter().find(|stop| stop.len() > STOP_BYTES) {
            return fail(format!(
                "a string of {} bytes, expected at most {STOP_BYTES}",
                long.len()
            ));
        }
        self.stop = stop.into_iter().filter(|stop| !stop.is_empty()).collect();
        Ok(())
    }

    /// Takes the limit of generated tokens out of the fields with some names, of which a negative
    /// one is for none. Whether there is such a field.
    pub(crate) fn take_limit(
        &mut self,
        fields: &mut Fields,
        names: &[&'static str],
    ) -> Result<bool, ApiError> {
        let mut found = false;
        for name in names {
            if let Some(count) = fields.integer(name, -2..=i64::from(u32::MAX))? {
                self.max_tokens = usize::try_from(count).ok();
                found = true;
            }
        }
        Ok(found)
    }

    /// Takes `response_format`, `structured_outputs`, the older names of both, and those of
    /// llama.cpp.
    pub(crate) fn take_output(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        if let Some(schema) = fields.take("json_schema") {
            if !schema.is_object() && !schema.is_boolean() {
                return Err(fields.wrong("json_schema", &schema, "a JSON Schema"));
            }
            self.output = Output::Schema(schema);
        }
        if let Some(grammar) = fields.string("grammar")?.filter(|grammar| !grammar.is_empty()) {
            self.output = Output::Grammar(grammar);
        }
        if let Some(mut format) = fields.object("response_format")? {
            self.output = response_format(&mut format)?;
        }
        if let Some(mut given) = fields.object("structured_outputs")? {
            if let Some(output) = structured(&mut given, &STRUCTURED)? {
                self.output = output;
            }
            if given.boolean("json_object")? == Some(true) {
                self.output = Output::Json;
            }
            given.finish(&[extras::STRUCTURED])?;
        }
        if let Some(output) = structured(fields, &GUIDED)? {
            self.output = output;
        }
        Ok(())
    }

    /// The adapters of a text: those of the request, or the one by whose name it calls the model.
    fn loras_of(&self, context: &Context) -> Option<Vec<LoraChoice>> {
        let named = context.lease.adapter.as_ref().map(|name| vec![LoraChoice::new(name, 1.0)]);
        let Some(given) = &self.loras else { return named };
        let paths = context.lease.model().map(|model| model.loras()).unwrap_or_default();
        let name = |adapter: &Adapter| match adapter {
            Adapter::Name(name) => name.clone(),
            // an unknown number is no name of any, and the error has it
            Adapter::Id(id) => paths.get(*id).cloned().unwrap_or_else(|| format!("id {id}")),
        };
        Some(given.iter().map(|(one, scale)| LoraChoice::new(name(one), *scale)).collect())
    }

    /// The engine's options for the text number `i` after a prompt.
    pub(crate) fn of_text(&self, i: usize, context: &Context) -> GenerateOptions {
        let (files, defaults) = (&context.lease.sampling, &context.lease.defaults);
        let sampling = sampling::with_defaults(self.sampling.clone(), &self.given, files);
        let mut options = GenerateOptions::default().sampling(sampling);
        options.sampling.seed = self.sampling.seed.or(defaults.sampling.seed);
        if let Some(seed) = options.sampling.seed {
            options.sampling.seed = Some(seed.wrapping_add(i as u64));
        }
        options.max_tokens = self.max_tokens.or(defaults.max_tokens).or(self.usual_tokens);
        let stop = if self.stop.is_empty() { &defaults.stop } else { &self.stop };
        options.stop.clone_from(stop);
        options.constraint.clone_from(&defaults.constraint);
        options.ignore_eos = self.ignore_end || defaults.ignore_end;
        options.effort = self.effort;
        options.logprobs = self.log_probs;
        let is_given = !self.logit_bias.is_empty();
        let bias = if is_given { &self.logit_bias } else { &defaults.logit_bias };
        options.logit_bias.clone_from(bias);
        options.prediction = self.prediction.clone().map(Prompt::Text);
        options.cache_salt = context.salt;
        options.client = context.client;
        options.loras = self.loras_of(context);
        options.deadline = context.deadline;
        options
    }
}

/// Takes the effort of generated tokens: a fraction of inputs.
fn effort(fields: &mut Fields) -> Result<Option<EffortLevel>, ApiError> {
    Ok(fields.number("effort", 0.0..=1.0)?.map(EffortLevel::from))
}

/// Refuses fields that would change the text and are not supported.
fn refuse(fields: &mut Fields) -> Result<(), ApiError> {
    let least = fields.integer("min_tokens", 0..=i64::from(u32::MAX))?.unwrap_or(0);
    if least > 0 {
        let path = fields.at("min_tokens");
        let message = format!("{path} is {least}, expected 0: a least length is not supported");
        return Err(ApiError::field(path, message));
    }
    if fields.ids("stop_token_ids")?.is_some_and(|ids| !ids.is_empty()) {
        let path = fields.at("stop_token_ids");
        let message = format!("{path} has elements, expected none: name texts in stop");
        return Err(ApiError::field(path, message));
    }
    Ok(())
}

/// OpenAI's `response_format`, or the `format` of its Responses.
pub(crate) fn response_format(format: &mut Fields) -> Result<Output, ApiError> {
    const EXPECTED: &str = "a JSON Schema";
    let kinds = ["text", "json_object", "json_schema"];
    let expected = "one of text, json_object, json_schema";
    let mut inner = format.object("json_schema")?;
    let mut schema = None;
    if let Some(inner) = &mut inner {
        inner.string("name")?;
        inner.boolean("strict")?;
        schema = inner.take("schema");
        inner.finish(&[extras::FORMAT])?;
        if let Some(other) = schema.as_ref().filter(|one| !one.is_object() && !one.is_boolean()) {
            return Err(inner.wrong("schema", other, EXPECTED));
        }
    }
    let kind = format.choice("type", &kinds)?.ok_or_else(|| format.missing("type", expected))?;
    let own = format.take("schema");
    format.finish(&[extras::FORMAT])?;
    match kind {
        "json_object" => match own {
            Some(schema) => Ok(Output::Schema(schema)),
            None => Ok(Output::Json),
        },
        "json_schema" => match (schema, inner) {
            (Some(schema), _) => Ok(Output::Schema(schema)),
            (None, Some(inner)) => Err(inner.missing("schema", EXPECTED)),
            // the form of OpenAI's Responses
            (None, None) => match own {
                Some(schema) => Ok(Output::Schema(schema)),
                None => Err(format.missing("json_schema", "an object with a schema")),
            },
        },
        _ => Ok(Output::Text),
    }
}

/// The names of a schema, a regular expression, texts and a grammar in `structured_outputs`.
const STRUCTURED: [&str; 4] = ["json", "regex", "choice", "grammar"];
/// Their older names, outside of an object.
const GUIDED: [&str; 4] = ["guided_json", "guided_regex", "guided_choice", "guided_grammar"];

/// vLLM's ways to say what a text must be.
fn structured(fields: &mut Fields, names: &[&'static str; 4]) -> Result<Option<Output>, ApiError> {
    let [json, regex, choice, grammar] = names;
    let mut found = None;
    if let Some(schema) = fields.take(json) {
        // a schema may come as its text
        let schema = match schema {
            Value::String(text) => crate::input::parse(&text)?,
            other => other,
        };
        found = Some(Output::Schema(schema));
    }
    if let Some(regex) = fields.string(regex)? {
        found = Some(Output::Regex(regex));
    }
    let choices = fields.strings(choice)?;
    if !choices.is_empty() {
        found = Some(Output::Choice(choices));
    }
    if let Some(grammar) = fields.string(grammar)? {
        found = Some(Output::Grammar(grammar));
    }
    Ok(found)
}

/// The field `lora`: a list of adapters, each with `name` and `scale`, which is 1 without one.
/// llama.cpp's form has `id` in place of a name, and a scale of 0 without one.
fn loras(fields: &mut Fields) -> Result<Option<Vec<(Adapter, f32)>>, ApiError> {
    if !fields.has("lora") {
        return Ok(None);
    }
    let mut all = Vec::new();
    for mut one in fields.objects("lora")? {
        let (name, id) = (one.string("name")?, one.count("id", 0)?);
        let (adapter, usual) = match (name, id) {
            (Some(name), None) => (Adapter::Name(name), 1.0),
            (None, Some(id)) => (Adapter::Id(id), 0.0),
            _ => return Err(one.missing("name", "the name of an adapter, or its id")),
        };
        let most = f64::from(f32::MAX);
        let scale = one.number("scale", -most..=most)?.unwrap_or(usual);
        one.finish(&[&["path", "task_name", "prompt_prefix"]])?;
        all.push((adapter, scale as f32));
    }
    Ok(Some(all))
}

/// `{"ID": BIAS}`, or llama.cpp's `[[ID, BIAS], …]`, where `false` is negative infinity.
fn logit_bias(fields: &mut Fields) -> Result<Vec<LogitBias>, ApiError> {
    let Some(value) = fields.take("logit_bias") else { return Ok(Vec::new()) };
    let path = fields.at("logit_bias");
    let pairs: Vec<(Value, Value)> = match value {
        Value::Object(map) => map.into_iter().map(|(id, bias)| (Value::String(id), bias)).collect(),
        Value::Array(list)
            if list.iter().all(|pair| pair.as_array().is_some_and(|p| p.len() == 2)) =>
        {
            let pair = |pair: Value| (pair[0].clone(), pair[1].clone());
            list.into_iter().map(pair).collect()
        }
        other => {
            return Err(fields.wrong("logit_bias", &other, "an object of token ids and numbers"));
        }
    };
    let mut all = Vec::with_capacity(pairs.len());
    for (id, bias) in pairs {
        let number = match &id {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64().and_then(|id| u32::try_from(id).ok()),
        };
        let number: u32 = number.ok_or_else(|| {
            let message = format!("{path} names {}, expected a token id", kind(&id));
            ApiError::field(path.clone(), message)
        })?;
        let bias = match &bias {
            Value::Bool(false) => Some(f64::NEG_INFINITY),
            other => other.as_f64().filter(|bias| (-1e4..=1e4).contains(bias)),
        };
        let bias = bias.ok_or_else(|| {
            let message = format!("{path}.{number} is no number from -10000 to 10000");
            ApiError::field(format!("{path}.{number}"), message)
        })?;
        // OpenAI says that -100 bans a token
        let bias = if bias <= -100.0 { f32::NEG_INFINITY } else { bias as f32 };
        all.push(LogitBias::new(number, bias));
    }
    Ok(all)
}
