//! Strings that are written without quotation marks, as their schemas allow them.

use pelton_chat::Error;
use serde_json::Value;

/// The greatest length that says anything: a repetition counts in 32 bits, and no text is longer.
const LENGTH_MAX: u64 = 1 << 30;

/// The keywords of a string's schema that regular expressions enforce.
#[derive(Debug, Default)]
pub(super) struct Raw {
    min: u64,
    max: Option<u64>,
    /// An expression for the whole string.
    pattern: Option<String>,
}

impl Raw {
    /// The keywords of a schema; null for any string.
    ///
    /// # Errors
    ///
    /// If one cannot be enforced.
    pub(super) fn new(schema: &Value) -> Result<Self, Error> {
        let mut raw = Self::default();
        for (key, value) in schema.as_object().into_iter().flatten() {
            let count = || {
                value.as_u64().ok_or_else(|| {
                    invalid(format!("{key:?} of a string is {value}, expected a whole number"))
                })
            };
            match key.as_str() {
                "type" => {}
                "minLength" => raw.min = count()?,
                "maxLength" => raw.max = Some(count()?).filter(|&max| max <= LENGTH_MAX),
                "pattern" => raw.pattern = Some(whole(value.as_str().unwrap_or_default())?),
                key => check_annotation(key)?,
            }
        }
        Ok(raw)
    }

    /// Expressions all of which a string fulfils, with a text (escaped) after the string.
    pub(super) fn bodies(&self, end: &str) -> Vec<String> {
        let length = match (self.min, self.max) {
            (0, None) => "*".to_owned(),
            (min, None) => format!("{{{min},}}"),
            (min, Some(max)) => format!("{{{min},{max}}}"),
        };
        let pattern = self.pattern.iter().map(|pattern| format!("/{pattern}{end}/"));
        [format!("/(?s:.{length}){end}/")].into_iter().chain(pattern).collect()
    }

    /// Whether the empty string is known to be allowed.
    pub(super) fn may_be_empty(&self) -> bool {
        self.min == 0 && self.pattern.is_none()
    }
}

/// Refuses a keyword that is no annotation.
///
/// # Errors
///
/// If it is none.
pub(super) fn check_annotation(key: &str) -> Result<(), Error> {
    const ANNOTATIONS: [&str; 17] = [
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "contentEncoding",
        "contentMediaType",
        "default",
        "definitions",
        "deprecated",
        "description",
        "examples",
        "format",
        "readOnly",
        "strict",
        "title",
        "uniqueItems",
        "writeOnly",
    ];
    match ANNOTATIONS.contains(&key) {
        true => Ok(()),
        false => Err(invalid(format!(
            "the keyword {key:?} of a tool's parameter cannot be enforced in the format of tool \
             calls of the chat template"
        ))),
    }
}

/// The expression of whole strings for a pattern, which is searched for in a string.
fn whole(pattern: &str) -> Result<String, Error> {
    let (mut in_class, mut depth, mut previous) = (false, 0usize, ' ');
    let (mut begins, mut ends) = (false, false);
    let mut inner = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut first = true;
    let mut alternatives = false;
    while let Some(c) = chars.next() {
        let is_last = chars.peek().is_none();
        match c {
            '\\' => {
                let Some(escaped) = chars.next() else { return Err(unsupported(pattern)) };
                // boundaries of words, and references
                if !in_class && "bBAzZGk123456789<>".contains(escaped) {
                    return Err(unsupported(pattern));
                }
                inner.extend(['\\', escaped]);
            }
            '[' if !in_class => {
                in_class = true;
                inner.push(c);
            }
            ']' if in_class => {
                in_class = false;
                inner.push(c);
            }
            '^' if !in_class && first => begins = true,
            '$' if !in_class && is_last => ends = true,
            '^' | '$' if !in_class => return Err(unsupported(pattern)),
            '?' if !in_class && previous == '(' && chars.peek() != Some(&':') => {
                return Err(unsupported(pattern));
            }
            '/' => inner.push_str("\\/"),
            '\n' => inner.push_str("\\n"),
            c => {
                match c {
                    '(' if !in_class => depth += 1,
                    ')' if !in_class => depth = depth.saturating_sub(1),
                    '|' if !in_class && depth == 0 => alternatives = true,
                    _ => {}
                }
                inner.push(c);
            }
        }
        previous = c;
        first = false;
    }
    if alternatives && (begins || ends) {
        return Err(unsupported(pattern));
    }
    let any = |anchored: bool| if anchored { "" } else { "(?s:.*)" };
    Ok(format!("{}(?:{inner}){}", any(begins), any(ends)))
}

fn unsupported(pattern: &str) -> Error {
    let shown: String = pattern.chars().take(100).collect();
    invalid(format!(
        "the pattern {shown:?} of a tool's parameter cannot be enforced, expected one without \
         look-around and with anchors at its ends alone"
    ))
}

pub(super) fn invalid(reason: String) -> Error {
    Error::Invalid(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_whole_strings() {
        for (pattern, expected) in [
            ("a", "(?s:.*)(?:a)(?s:.*)"),
            ("^a|b", ""),
            ("a|b", "(?s:.*)(?:a|b)(?s:.*)"),
            ("^(a|b)$", "(?:(a|b))"),
            ("^[$^/]\\$", "(?:[$^\\/]\\$)(?s:.*)"),
            ("a^", ""),
            ("(?=a)", ""),
            ("\\bword", ""),
            ("\\", ""),
        ] {
            assert_eq!(whole(pattern).unwrap_or_default(), expected, "{pattern}");
        }
    }
}
