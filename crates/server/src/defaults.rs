//! Options of requests that do not set them.

use pelton::{Constraint, LogitBias, Sampling, chat::Chat};
use serde_json::{Map, Value};

/// Options of requests that do not set them. They win over the defaults of the model's files.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Defaults {
    /// The options of sampling.
    pub sampling: Sampling,
    /// The names of the fields of `sampling` that are set; the model's files have the others.
    pub given: Vec<&'static str>,
    /// The most tokens of a text.
    pub max_tokens: Option<usize>,
    /// Strings before which a text ends.
    pub stop: Vec<String>,
    /// Whether a text goes on after the token that ends it.
    pub ignore_end: bool,
    /// Summands of logits.
    pub logit_bias: Vec<LogitBias>,
    /// The form of a text.
    pub constraint: Option<Constraint>,
    /// Variables of chat templates, of which a request may set each to another value.
    pub kwargs: Map<String, Value>,
}

impl Defaults {
    /// The options of sampling over those of a model's files.
    pub(crate) fn over(&self, mut files: Sampling) -> Sampling {
        for option in Sampling::OPTIONS.iter().filter(|one| self.given.contains(&one.name)) {
            option.copy(&self.sampling, &mut files);
        }
        files
    }

    /// A chat with the variables that it does not set itself; `None` if there are none.
    pub(crate) fn filled(&self, chat: &Chat) -> Option<Chat> {
        if self.kwargs.is_empty() {
            return None;
        }
        let mut filled = chat.clone();
        for (name, value) in &self.kwargs {
            let is_set = match name.as_str() {
                "enable_thinking" | "thinking" => chat.enable_thinking.is_some(),
                "reasoning_effort" => chat.reasoning_effort.is_some(),
                _ => false,
            };
            match (name.as_str(), value) {
                _ if is_set || chat.kwargs.contains_key(name) => {}
                // templates have both names for it
                ("enable_thinking", Value::Bool(on)) => filled.enable_thinking = Some(*on),
                ("reasoning_effort", Value::String(level)) => {
                    filled.reasoning_effort = Some(level.clone());
                }
                _ => drop(filled.kwargs.insert(name.clone(), value.clone())),
            }
        }
        Some(filled)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_chat_keeps_what_it_sets() {
        let mut defaults = Defaults::default();
        let mut chat = Chat::new(Vec::new());
        assert_eq!(defaults.filled(&chat), None);
        let kwargs = json!({"enable_thinking": false, "reasoning_effort": "low", "date": "today"});
        defaults.kwargs = kwargs.as_object().unwrap().clone();
        let filled = defaults.filled(&chat).unwrap();
        assert_eq!(filled.enable_thinking, Some(false));
        assert_eq!(filled.reasoning_effort.as_deref(), Some("low"));
        assert_eq!(filled.kwargs["date"], "today");
        chat.enable_thinking = Some(true);
        chat.reasoning_effort = Some("high".into());
        chat.kwargs.insert("date".into(), "then".into());
        assert_eq!(defaults.filled(&chat), Some(chat));
    }
}
