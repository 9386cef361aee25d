//! Prompts and inputs: a text, token ids, or lists of either.

use pelton::Prompt;
use serde_json::Value;

use crate::{
    app::App,
    error::ApiError,
    input::{Fields, ids, kind},
};

const EXPECTED: &str = "a string, a list of strings, a list of token ids or a list of such lists";

/// Takes the prompts out of a field.
pub(in crate::api) fn take(
    app: &App,
    fields: &mut Fields,
    name: &'static str,
) -> Result<Vec<Prompt>, ApiError> {
    let value = fields.take(name).ok_or_else(|| fields.missing(name, EXPECTED))?;
    let path = fields.at(name);
    let prompts = match value {
        Value::String(text) => vec![text.into()],
        Value::Array(list) if list.is_empty() => {
            return Err(fields.wrong(name, &Value::Array(list), EXPECTED));
        }
        Value::Array(list) if list[0].is_number() => {
            let list = Value::Array(list);
            vec![ids(&list).ok_or_else(|| fields.wrong(name, &list, EXPECTED))?.into()]
        }
        Value::Array(list) => {
            let one = |(i, value): (usize, Value)| match &value {
                Value::String(text) => Ok(Prompt::from(text.as_str())),
                other => ids(other).map(Prompt::from).ok_or_else(|| {
                    let path = format!("{path}[{i}]");
                    let message =
                        format!("{path} is {}, expected a string or token ids", kind(other));
                    ApiError::field(path, message)
                }),
            };
            list.into_iter().enumerate().map(one).collect::<Result<_, _>>()?
        }
        other => return Err(fields.wrong(name, &other, EXPECTED)),
    };
    check_batch(app, &path, prompts.len())?;
    Ok(prompts)
}

/// Refuses more texts than one request may have.
pub(in crate::api) fn check_batch(app: &App, path: &str, found: usize) -> Result<(), ApiError> {
    let limit = app.config.limits.batch;
    match found <= limit {
        true => Ok(()),
        false => {
            let message = format!("{path} has {found} elements, expected at most {limit}");
            Err(ApiError::field(path, message))
        }
    }
}
