//! The field `metadata`: notes of a client about its request, within the limits that OpenAI
//! documents.

use serde_json::{Map, Value};

use super::{fields::Fields, kind::kind};
use crate::error::ApiError;

/// The most pairs of a key and a value.
const PAIRS: usize = 16;
/// The longest key, in characters.
const KEY_CHARS: usize = 64;
/// The longest value, in characters.
const VALUE_CHARS: usize = 512;

/// Takes `metadata` out of a body: at most 16 texts with short names. Empty without the field.
pub(crate) fn metadata(fields: &mut Fields) -> Result<Map<String, Value>, ApiError> {
    const NAME: &str = "metadata";
    let Some(given) = fields.object(NAME)? else { return Ok(Map::new()) };
    let path = fields.at(NAME);
    let fail = |found: String| {
        let message = format!(
            "{path} has {found}, expected at most {PAIRS} pairs of a key of at most {KEY_CHARS} \
             characters and a string of at most {VALUE_CHARS}"
        );
        Err(ApiError::field(path.clone(), message))
    };
    let map = given.rest();
    if map.len() > PAIRS {
        return fail(format!("{} pairs", map.len()));
    }
    for (key, value) in &map {
        let chars = key.chars().count();
        if chars > KEY_CHARS {
            return fail(format!("a key of {chars} characters"));
        }
        let shown = key.escape_debug();
        match value {
            Value::Null => {}
            Value::String(text) => {
                let chars = text.chars().count();
                if chars > VALUE_CHARS {
                    return fail(format!("a value of {chars} characters at \"{shown}\""));
                }
            }
            other => return fail(format!("{} at \"{shown}\"", kind(other))),
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(value: Value) -> Result<usize, String> {
        let mut fields = Fields::new(json!({"metadata": value})).unwrap();
        metadata(&mut fields).map(|map| map.len()).map_err(|error| error.message.into_owned())
    }

    #[test]
    fn limits_of_openai() {
        let pairs = |count: usize| (0..count).map(|i| (i.to_string(), json!(""))).collect();
        assert_eq!(taken(Value::Object(pairs(16))), Ok(16));
        assert!(taken(Value::Object(pairs(17))).unwrap_err().contains("has 17 pairs, expected"));
        assert_eq!(taken(json!({"é".repeat(64): "é".repeat(512)})), Ok(1));
        assert!(taken(json!({"a".repeat(65): ""})).unwrap_err().contains("a key of 65 characters"));
        let long = taken(json!({"k": "a".repeat(513)})).unwrap_err();
        assert!(long.contains("a value of 513 characters at \"k\""), "{long}");
        assert!(taken(json!({"k": {}})).unwrap_err().contains("an object at \"k\""));
        assert!(taken(json!({"k": 5})).unwrap_err().contains("5 at \"k\""));
        assert_eq!((taken(json!(null)), taken(json!({}))), (Ok(0), Ok(0)));
    }
}
