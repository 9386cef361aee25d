//! Fields that nothing here reads: errors for unknown ones, and lists of those that are harmless.

use serde_json::Value;

use super::kind::kind;
use crate::error::ApiError;

/// Characters of a client's name for a field that messages have.
const SHOWN: usize = 80;
/// The longest name for which a similar one is sought, in bytes.
const SOUGHT: usize = 40;

/// Checks a field of the object at `path` that nothing has taken. An entry of `extras` is the name
/// of a field that may have any value, or `NAME=VALUE|VALUE` for one that may have certain values
/// of JSON.
pub(super) fn check(
    path: &str,
    name: &str,
    value: &Value,
    asked: &[&'static str],
    extras: &[&[&'static str]],
) -> Result<(), ApiError> {
    let all = || extras.iter().flat_map(|list| list.iter().copied());
    let split = |entry: &'static str| match entry.split_once('=') {
        Some((name, values)) => (name, Some(values)),
        None => (entry, None),
    };
    let shown: String = name.escape_debug().take(SHOWN).collect();
    let shown = if path.is_empty() { shown } else { format!("{path}.{shown}") };
    match all().map(split).find(|(other, _)| *other == name) {
        Some((_, None)) => Ok(()),
        Some((_, Some(values))) if values.split('|').any(|one| is_value(one, value)) => Ok(()),
        Some((_, Some(values))) => {
            let expected = match values {
                "" => "no such field".to_owned(),
                values => values.replace('|', " or "),
            };
            let message = format!(
                "{shown} is {}, expected {expected}: it is not supported here",
                kind(value)
            );
            Err(ApiError::field(shown, message))
        }
        None => {
            let names = all().map(|entry| split(entry).0);
            let near = nearest(name, asked.iter().copied().chain(names));
            let near = near.map_or_else(
                || "/docs lists the fields".to_owned(),
                |near| format!("did you mean {near}? /docs lists all"),
            );
            let message = format!("{shown} is an unknown field, {near}");
            Err(ApiError::field(shown, message).code("unknown_parameter"))
        }
    }
}

/// Whether a value is the one that is written in JSON, or as a text of a form.
fn is_value(written: &str, value: &Value) -> bool {
    let Ok(expected) = serde_json::from_str::<Value>(written) else { return false };
    let is_same_number = || value.as_f64().is_some_and(|n| expected.as_f64() == Some(n));
    value.as_str() == Some(written) || *value == expected || is_same_number()
}

/// The name that is spelled most like another, if it is near enough to be meant.
fn nearest(name: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    if name.len() > SOUGHT {
        return None;
    }
    let most = (name.chars().count() / 3).min(3);
    let lower = name.to_ascii_lowercase();
    // `maxTokens` stands for `max_tokens`
    let plain = |text: &str| text.replace(['_', '-', '.'], "");
    let distance = |other: &str| match plain(&lower) == plain(other) {
        true => 0,
        false => strsim::osa_distance(&lower, other),
    };
    let near = names.map(|other| (distance(other), other)).filter(|(far, _)| *far <= most);
    near.min_by_key(|(far, _)| *far).map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EXTRAS: &[&[&str]] = &[&["rid", "length_penalty=1|0", "reply=\"auto\"", "regex="]];

    fn checked(name: &str, value: Value) -> Result<(), String> {
        let asked = ["max_tokens", "temperature", "top_p", "n"];
        check("", name, &value, &asked, EXTRAS).map_err(|error| error.message.into_owned())
    }

    #[test]
    fn unknown_fields_have_a_near_name() {
        for (name, near) in [
            ("max_tokns", "max_tokens"),
            ("maxTokens", "max_tokens"),
            ("temprature", "temperature"),
            ("top-p", "top_p"),
            ("topp", "top_p"),
            ("lenght_penalty", "length_penalty"),
        ] {
            let message = checked(name, json!(1)).unwrap_err();
            let expected =
                format!("{name} is an unknown field, did you mean {near}? /docs lists all");
            assert_eq!(message, expected);
        }
        for name in ["x", "foo", "something_else", &"a".repeat(100_000)] {
            let message = checked(name, json!(1)).unwrap_err();
            assert!(message.ends_with("is an unknown field, /docs lists the fields"), "{message}");
            assert!(message.len() < 200);
        }
        let message = checked("a\u{1b}[31m\nb", json!(1)).unwrap_err();
        assert!(message.starts_with("a\\u{1b}[31m\\nb is"), "{message}");
    }

    #[test]
    fn fields_of_other_servers() {
        for (name, value) in [
            ("rid", json!({"any": []})),
            ("length_penalty", json!(1.0)),
            ("length_penalty", json!(0)),
            ("reply", json!("auto")),
            // in a form
            ("length_penalty", json!("1")),
        ] {
            assert_eq!(checked(name, value), Ok(()));
        }
        let message = checked("length_penalty", json!(2)).unwrap_err();
        assert_eq!(message, "length_penalty is 2, expected 1 or 0: it is not supported here");
        let message = checked("regex", json!("a+")).unwrap_err();
        assert_eq!(message, "regex is \"a+\", expected no such field: it is not supported here");
    }
}
