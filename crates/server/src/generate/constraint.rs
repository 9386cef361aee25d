//! The constraint of a request's text, as the engine takes it.

use pelton::{Constraint, GenerateOptions, chat::ChatPrompt};

use super::options::Output;
use crate::error::ApiError;

/// The constraint of an output; `None` for any text.
fn constraint(output: &Output) -> Option<Constraint> {
    Some(match output {
        Output::Text => return None,
        Output::Json => Constraint::JsonObject,
        Output::Schema(schema) => Constraint::JsonSchema(schema.clone()),
        Output::Regex(regex) => Constraint::Regex(regex.clone()),
        Output::Choice(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| escaped(text)).collect();
            Constraint::Regex(texts.join("|"))
        }
        // GBNF names its rules with ::=, which Lark does not know
        Output::Grammar(grammar) if grammar.contains("::=") => Constraint::Gbnf(grammar.clone()),
        Output::Grammar(grammar) => Constraint::Lark(grammar.clone()),
    })
}

/// A regular expression that only matches the text.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Constrains the text of a request.
pub(crate) fn constrain(mut options: GenerateOptions, output: &Output) -> GenerateOptions {
    // a text of any form has the one of the server, if there is one
    if *output != Output::Text {
        options.constraint = constraint(output);
    }
    options
}

/// Constrains the reply to a chat: its tool calls, or its answer after the reasoning. A call that
/// is demanded is the whole reply, so that it has no answer to constrain.
pub(crate) fn constrain_chat(
    options: GenerateOptions,
    prompt: &ChatPrompt,
    output: &Output,
) -> Result<GenerateOptions, ApiError> {
    let required = prompt.calls.as_ref().is_some_and(|calls| calls.required);
    let mut options = constrain(options, output);
    if required {
        options.constraint = None;
    }
    prompt.constrain(options).map_err(|error| ApiError::field("tools", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_texts() {
        let output = Output::Choice(vec!["a.b".into(), "c|d".into()]);
        assert_eq!(constraint(&output), Some(Constraint::Regex("a\\.b|c\\|d".into())));
        assert_eq!(constraint(&Output::Text), None);
        let gbnf = Output::Grammar("root ::= \"a\"".into());
        assert!(matches!(constraint(&gbnf), Some(Constraint::Gbnf(_))));
    }
}
