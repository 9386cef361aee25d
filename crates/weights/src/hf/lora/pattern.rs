//! Patterns of module names: regular expressions of Python for the end of a name.

use regex_automata::meta::{Config, Regex};

/// The longest pattern in bytes.
const MAX_PATTERN: usize = 1 << 10;
/// Bytes of a compiled pattern.
const MAX_COMPILED: usize = 1 << 20;

/// A pattern that matches a name, or its end after a full stop (PEFT's `get_pattern_key`).
#[derive(Debug)]
pub(super) enum Pattern {
    /// Letters, digits and underscores, and full stops for any character.
    Plain(String),
    Compiled(Box<Regex>),
}

impl Pattern {
    /// # Errors
    /// The fault of a pattern that is no regular expression, or too large.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text.len() > MAX_PATTERN {
            return Err(format!("{} bytes, expected at most {MAX_PATTERN}", text.len()));
        }
        if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte)) {
            return Ok(Self::Plain(text.to_owned()));
        }
        let config = Config::new().nfa_size_limit(Some(MAX_COMPILED));
        let compiled =
            Regex::builder().configure(config).build(&format!(r"\A(?:(?:.*\.)?(?:{text}))\z"));
        compiled.map(|regex| Self::Compiled(Box::new(regex))).map_err(|error| error.to_string())
    }

    pub(super) fn is_compiled(&self) -> bool {
        matches!(self, Self::Compiled(_))
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Plain(text) => {
                let (pattern, name) = (text.as_bytes(), name.as_bytes());
                let Some(start) = name.len().checked_sub(pattern.len()) else { return false };
                let after_stop = start == 0 || name[start - 1] == b'.';
                let mut pairs = pattern.iter().zip(&name[start..]);
                after_stop && pairs.all(|(one, other)| *one == b'.' || one == other)
            }
            Self::Compiled(regex) => regex.is_match(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values are those of `re.match(rf"(.*\.)?({key})$", name)` in Python.
    #[test]
    fn the_end_of_a_name() {
        let name = "model.layers.10.self_attn.q_proj";
        for (pattern, expected) in [
            ("q_proj", true),
            ("self_attn.q_proj", true),
            ("model.layers.10.self_attn.q_proj", true),
            ("layers.1..self_attn.q_proj", true),
            ("proj", false),
            ("k_proj", false),
            ("0.self_attn.q_proj", false),
            ("", false),
            ("model.model.layers.10.self_attn.q_proj", false),
            (r"layers\.\d+\.self_attn\.q_proj", true),
            (r".*\.q_proj", true),
            (r"^model\.layers\.(1|10)\.self_attn\.(q|k)_proj", true),
            (r"^layers\.10\.self_attn\.q_proj", false),
            ("[qk]_proj", true),
            ("[vk]_proj", false),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().matches(name), expected, "{pattern}");
        }
        assert!(Pattern::new("(").is_err());
        assert!(Pattern::new("(?=q)q_proj").is_err());
        assert!(Pattern::new(r"(\w{1000}){1000}").is_err());
        assert!(Pattern::new(&"a".repeat(2000)).is_err());
    }
}
