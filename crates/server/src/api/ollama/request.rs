//! From the fields of a body to options and messages.

use pelton::chat::{Content, Message, image_part, text_part};
use serde_json::{Map, Value};

use crate::{
    error::ApiError,
    generate::{self, Options, Output},
    input::{Fields, extras, kind},
};

/// The name of a model without the tag that Ollama's clients add.
pub(super) fn model(fields: &mut Fields) -> Result<String, ApiError> {
    let field = if fields.has("name") { "name" } else { "model" };
    let name = fields.string(field)?;
    let name = name.ok_or_else(|| fields.missing("model", "the name of a model"))?;
    Ok(name.strip_suffix(":latest").unwrap_or(&name).to_owned())
}

/// Takes `options` and `format` out of a body, where the model's defaults hold as elsewhere.
pub(super) fn options(fields: &mut Fields) -> Result<Options, ApiError> {
    let mut given = fields.object("options")?.unwrap_or_default();
    let mut options = Options::take(&mut given)?;
    options.take_stop(&mut given, "stop")?;
    // negative numbers are for no limit
    let count = given.integer("num_predict", -2..=i64::from(u32::MAX))?;
    options.max_tokens = count.and_then(|count| usize::try_from(count).ok()).filter(|&n| n > 0);
    given.integer("num_ctx", 0..=i64::from(u32::MAX))?;
    given.finish(&[extras::OLLAMA_OPTIONS])?;
    options.output = match fields.take("format") {
        None => Output::Text,
        Some(Value::String(word)) if word.is_empty() => Output::Text,
        Some(Value::String(word)) if word == "json" => Output::Json,
        Some(schema @ Value::Object(_)) => Output::Schema(schema),
        Some(other) => return Err(fields.wrong("format", &other, "json or a JSON Schema")),
    };
    let log_probs = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.integer("top_logprobs", 0..=20)?.unwrap_or(0);
    options.log_probs = usize::try_from(top).ok().filter(|_| log_probs);
    Ok(options)
}

/// Takes whether and how much the model reasons out of a body.
pub(super) fn think(fields: &mut Fields) -> Result<(Option<bool>, Option<String>), ApiError> {
    match fields.take("think") {
        None => Ok((None, None)),
        Some(Value::Bool(think)) => Ok((Some(think), None)),
        Some(Value::String(word)) if ["low", "medium", "high", "max"].contains(&word.as_str()) => {
            Ok((Some(true), Some(word)))
        }
        Some(other) => Err(fields.wrong("think", &other, "true, false, low, medium or high")),
    }
}

/// Takes the pictures of a body or of a message: base64, also as `data:` URLs.
pub(super) fn images(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let path = fields.at("images");
    let one = |(i, value)| match value {
        Value::String(image) if !image.is_empty() => Ok(image),
        other => {
            let path = format!("{path}[{i}]");
            let message = format!("{path} is {}, expected a picture as base64", kind(&other));
            Err(ApiError::field(path, message))
        }
    };
    fields.list("images")?.unwrap_or_default().into_iter().enumerate().map(one).collect()
}

/// A message with pictures before its text. Those of the system and of the assistant become
/// placeholders after it.
pub(super) fn with_images(mut message: Message, images: Vec<String>) -> Message {
    if images.is_empty() {
        return message;
    }
    let text = message.text().unwrap_or_default();
    message.content = Some(match matches!(message.role.as_str(), "system" | "assistant") {
        true => Content::Text(format!("{text}\n{}", generate::placeholder("image"))),
        false => {
            let parts = images.into_iter().map(image_part);
            Content::Parts(parts.chain([text_part(&text)]).collect())
        }
    });
    message
}

/// Takes the messages out of a body.
pub(super) fn messages(fields: &mut Fields) -> Result<Vec<Message>, ApiError> {
    let mut all = Vec::new();
    for mut one in fields.objects("messages")? {
        let images = images(&mut one)?;
        let path = one.at("");
        let path = path.trim_end_matches('.').to_owned();
        let name = one.string("tool_name")?;
        let mut map: Map<String, Value> = one.rest();
        if let Some(name) = name {
            map.insert("name".to_owned(), name.into());
        }
        let message = generate::message(Value::Object(map), &path, false)?;
        all.push(with_images(message, images));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Pictures come before the text, as base64 or as data: URLs.
    #[test]
    fn pictures() {
        let body = json!({"messages": [
            {"role": "user", "content": "See", "images": ["AAAA", "data:image/png;base64,BBBB"]},
            {"role": "assistant", "content": "What?", "images": ["AAAA"]},
        ]});
        let [user, own] = messages(&mut Fields::new(body).unwrap()).unwrap().try_into().unwrap();
        assert_eq!(user.images().count(), 2);
        let parts = generate::parts(user.content);
        assert_eq!(parts[2]["text"], "See");
        assert!(own.text().unwrap().starts_with("What?\n[image: left out"));
        for bad in [json!([5]), json!([""]), json!("AAAA")] {
            let body = json!({"messages": [{"role": "user", "content": "x", "images": bad}]});
            assert!(messages(&mut Fields::new(body).unwrap()).is_err(), "{bad}");
        }
    }
}
