//! Checks of Lark grammars and of regular expressions.

use serde_json::Value;

use crate::{Error, numbers::Numbers, schema, size};

/// The statement before a JSON schema.
const JSON: &str = "%json";

/// The grammar with its schemas checked, and their whitespace bounded.
pub(crate) fn checked(grammar: &str, numbers: &mut Numbers) -> Result<String, Error> {
    size::check_lark(grammar)?;
    let mut checked = String::with_capacity(grammar.len());
    let (mut rest, mut parts) = (grammar, 0);
    while let Some(at) = rest.find(JSON) {
        let (before, after) = rest.split_at(at + JSON.len());
        checked.push_str(before);
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        match values.next() {
            Some(Ok(schema)) => {
                schema::check_numbers(&after[..values.byte_offset()])?;
                let (schema, more) = schema::checked(&schema, numbers)?;
                parts += more;
                size::check("parts of schemas", parts, schema::PARTS_MAX)?;
                checked.push(' ');
                checked.push_str(&schema.to_string());
                rest = &after[values.byte_offset()..];
            }
            // a comment, or what the compiler refuses
            _ => rest = after,
        }
    }
    checked.push_str(rest);
    Ok(checked)
}

/// The expression without the anchors of the whole text.
pub(crate) fn regex(regex: &str) -> Result<&str, Error> {
    let regex = regex.strip_prefix('^').unwrap_or(regex);
    let escaped = |text: &str| text.chars().rev().take_while(|&c| c == '\\').count() % 2 == 1;
    if escaped(regex) {
        return Err(Error::Regex("it ends in a backslash, expected a character after it".into()));
    }
    let regex = match regex.strip_suffix('$') {
        Some(before) if !escaped(before) => before,
        _ => regex,
    };
    if regex.is_empty() {
        return Err(Error::Regex("it is empty, expected one that matches some text".into()));
    }
    size::Size::of(regex, false).check()?;
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(grammar: &str) -> Result<String, Error> {
        checked(grammar, &mut Numbers::new(grammar))
    }

    #[test]
    fn anchors_of_the_whole_are_removed() {
        assert_eq!(regex("^a|b$"), Ok("a|b"));
        assert_eq!(regex(r"a\$"), Ok(r"a\$"));
        assert_eq!(regex(r"a\\$"), Ok(r"a\\"));
        assert!(regex(r"a\").is_err());
        assert!(regex("^$").is_err());
    }

    #[test]
    fn schemas_in_grammars_are_checked() {
        let grammar = "start: \"x\" %json {\"not\": {}}";
        assert!(matches!(check(grammar), Err(Error::Keyword { .. })));
        let lenient = "start: %json {\"x\\u002dguidance\": {\"lenient\": true}, \"not\": {}}";
        assert!(matches!(check(lenient), Err(Error::Keyword { .. })));
        let good = check("start: %json {\"type\": \"null\"} \"!\"\n// %json\n").unwrap();
        assert!(good.starts_with("start: %json {\"type\":\"null\",\"x-guidance\":"), "{good}");
        assert!(good.ends_with("} \"!\"\n// %json\n"), "{good}");
    }
}
