//! Rewriting of operators that make texts and lists, so that these are counted.
//!
//! minijinja has no hook for operators. `a ~ b` becomes a call of a function, as does `a * b`; the
//! results of `a + b`, of filters and of slices are passed on to one.

use minijinja::machinery;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};
use serde_json::Value as Json;

use super::bounds::check_depth;
use super::charge;

/// The prefix of the names of the functions.
pub(super) const PREFIX: &str = "_pelton_";

const CONCAT: &str = "_pelton_concat";
const TIMES: &str = "_pelton_times";
const COUNT: &str = "_pelton_count";

/// A template whose operators are counted.
pub(super) struct Rewritten {
    pub(super) source: String,
    /// Bytes of the longest literal text that is written to a variable.
    pub(super) literal: usize,
}

/// Rewrites a template.
///
/// # Errors
/// If it is not valid, or has a name of ours.
pub(super) fn rewrite(source: &str, syntax: SyntaxConfig) -> Result<Rewritten, Error> {
    if source.contains(PREFIX) {
        let reason = "names that begin with _pelton_ are reserved";
        return Err(Error::new(ErrorKind::SyntaxError, reason));
    }
    let tree = machinery::parse(source, "chat", syntax)?;
    let tree = serde_json::to_value(&tree)
        .map_err(|error| Error::new(ErrorKind::SyntaxError, error.to_string()))?;
    let mut edits = Edits { source, starts: Vec::new(), ends: Vec::new(), literal: 0 };
    edits.visit(&tree, false)?;
    Ok(edits.apply())
}

/// The functions that a rewritten template calls.
pub(super) fn add_functions(environment: &mut Environment<'static>) {
    environment.add_function(CONCAT, concat);
    environment.add_function(TIMES, times);
    environment.add_function(COUNT, charge::value);
    environment.add_filter(COUNT, charge::value);
}

/// Changes of a template.
struct Edits<'s> {
    source: &'s str,
    /// Texts before an offset, the outer of two after the inner.
    starts: Vec<(usize, String)>,
    /// Bytes to be left out at an offset and the text instead, the inner of two first.
    ends: Vec<(usize, usize, &'static str)>,
    literal: usize,
}

impl Edits<'_> {
    /// Visits a node of the syntax tree and those below; `captured` if its output goes to a
    /// variable.
    fn visit(&mut self, node: &Json, captured: bool) -> Result<(), Error> {
        match node {
            Json::Array(nodes) => nodes.iter().try_for_each(|node| self.visit(node, captured)),
            Json::Object(fields) => {
                let kind = fields.get("stmt").or(fields.get("expr")).and_then(Json::as_str);
                let captures = matches!(
                    kind,
                    Some("Macro" | "CallBlock" | "SetBlock" | "FilterBlock" | "Block")
                );
                for child in fields.values() {
                    self.visit(child, captured || captures)?;
                }
                let inner = fields.get("inner").and_then(Json::as_array);
                let (Some(kind), Some([content, span])) = (kind, inner.map(Vec::as_slice)) else {
                    return Ok(());
                };
                self.edit(kind, content, span, captured)
            }
            _ => Ok(()),
        }
    }

    fn edit(
        &mut self,
        kind: &str,
        content: &Json,
        span: &Json,
        captured: bool,
    ) -> Result<(), Error> {
        let end = offset(span, "end_offset")?;
        match kind {
            "EmitRaw" if captured => {
                let length = content["raw"].as_str().map_or(0, str::len);
                self.literal = self.literal.max(length);
            }
            "Filter" => self.ends.push((end, 0, "|_pelton_count")),
            // An operation after a slice is one of its own, and is counted.
            "Slice" if !self.source[end..].starts_with(['.', '[', '(']) => {
                self.ends.push((end, 0, "|_pelton_count"));
            }
            "BinOp" => {
                let (name, operator) = match content["op"].as_str() {
                    Some("Concat") => (CONCAT, Some('~')),
                    Some("Mul") => (TIMES, Some('*')),
                    Some("Add") => (COUNT, None),
                    _ => return Ok(()),
                };
                if let Some(operator) = operator {
                    let left = offset(&content["left"]["inner"][1], "end_offset")?;
                    let rest = &self.source[left..];
                    let at = left + rest.len()
                        - rest.trim_start_matches(|c: char| c.is_whitespace() || c == ')').len();
                    if !self.source[at..].starts_with(operator) {
                        return Err(Error::new(ErrorKind::SyntaxError, "an operator is misplaced"));
                    }
                    self.ends.push((at, 1, ","));
                }
                self.starts.push((offset(span, "start_offset")?, format!("{name}(")));
                self.ends.push((end, 0, ")"));
            }
            _ => {}
        }
        Ok(())
    }

    fn apply(mut self) -> Rewritten {
        // the outer of two operations is visited last
        self.starts.reverse();
        self.starts.sort_by_key(|(at, _)| *at);
        self.ends.sort_by_key(|(at, ..)| *at);
        let mut source = String::with_capacity(self.source.len() * 2);
        let (mut starts, mut ends) = (self.starts.iter().peekable(), self.ends.iter().peekable());
        let mut from = 0;
        loop {
            let next = match (starts.peek(), ends.peek()) {
                (Some((start, _)), Some((end, ..))) => (*start).min(*end),
                (Some((start, _)), None) => *start,
                (None, Some((end, ..))) => *end,
                (None, None) => break,
            };
            source.push_str(&self.source[from.min(next)..next]);
            from = from.max(next);
            while let Some((_, skipped, text)) = ends.next_if(|(at, ..)| *at == next) {
                source.push_str(text);
                from = from.max(next + skipped);
            }
            while let Some((_, text)) = starts.next_if(|(at, _)| *at == next) {
                source.push_str(text);
            }
        }
        source.push_str(&self.source[from..]);
        Rewritten { source, literal: self.literal }
    }
}

fn offset(span: &Json, field: &str) -> Result<usize, Error> {
    let offset = span[field].as_u64().and_then(|offset| usize::try_from(offset).ok());
    offset.ok_or_else(|| Error::new(ErrorKind::SyntaxError, "an operator has no position"))
}

/// `left ~ right`.
fn concat(left: &Value, right: &Value) -> Result<String, Error> {
    check_depth(left)?;
    check_depth(right)?;
    charge::text(format_args!("{left}{right}"))
}

/// `left * right`.
fn times(left: &Value, right: &Value) -> Result<Value, Error> {
    let repeats = |value: &Value| {
        matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable)
    };
    let (repeated, number) = match (repeats(left), repeats(right)) {
        (true, false) => (left, right),
        (false, true) => (right, left),
        (true, true) => return Err(failed("two texts or lists cannot be multiplied")),
        (false, false) => return product(left, right),
    };
    let count = usize::try_from(number.clone())
        .map_err(|_| failed("a text or a list is multiplied with something else than a number"))?;
    if let Some(text) = repeated.as_str() {
        charge::bytes(text.len().saturating_mul(count))?;
        return Ok(Value::from(text.repeat(count)));
    }
    let items: Vec<Value> = repeated.try_iter()?.collect();
    charge::items(items.len().saturating_mul(count))?;
    Ok((0..count).flat_map(|_| items.iter().cloned()).collect())
}

fn product(left: &Value, right: &Value) -> Result<Value, Error> {
    let whole = |value: &Value| value.is_integer() || value.kind() == ValueKind::Bool;
    if whole(left) && whole(right) {
        let (left, right) = (i128::try_from(left.clone())?, i128::try_from(right.clone())?);
        let product = left.checked_mul(right).ok_or_else(|| failed("a product is too large"))?;
        return Ok(i64::try_from(product).map_or_else(|_| Value::from(product), Value::from));
    }
    Ok(Value::from(f64::try_from(left.clone())? * f64::try_from(right.clone())?))
}

fn failed(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_rewritten() {
        for (source, expected) in [
            ("{{ a ~ b ~ c }}", "{{ _pelton_concat(_pelton_concat(a , b) , c) }}"),
            ("{{ (a) ~ (b) }}", "{{ _pelton_concat((a) , (b)) }}"),
            ("{{ a * b ~ c }}", "{{ _pelton_concat(_pelton_times(a , b) , c) }}"),
            ("{{ a ~ b|trim }}", "{{ _pelton_concat(a , b|trim|_pelton_count) }}"),
            (
                "{{ (a + b)|trim|e }}",
                "{{ (_pelton_count(a + b))|trim|_pelton_count|e|_pelton_count }}",
            ),
            (
                "{{ 'a ~ b' ~ \"c\"[1:] }}",
                "{{ _pelton_concat('a ~ b' , \"c\"[1:]|_pelton_count) }}",
            ),
            (
                "{%- set x = a[1:].b ~ f(x=-c * 2) -%}",
                "{%- set x = _pelton_concat(a[1:].b , f(x=_pelton_times(-c , 2))) -%}",
            ),
            (
                "a ~ b {# a ~ b #}é{{ 'é' ~ 'ü' }}",
                "a ~ b {# a ~ b #}é{{ _pelton_concat('é' , 'ü') }}",
            ),
            (
                "{% filter upper %}a{% endfilter %}",
                "{% filter upper|_pelton_count %}a{% endfilter %}",
            ),
            ("{{ a if b ~ c else d }}", "{{ a if _pelton_concat(b , c) else d }}"),
            ("{% raw %}{{ a ~ b }}{% endraw %}", "{% raw %}{{ a ~ b }}{% endraw %}"),
        ] {
            assert_eq!(rewrite(source, SyntaxConfig::default()).unwrap().source, expected);
        }
        assert!(rewrite("{{ _pelton_count }}", SyntaxConfig::default()).is_err());
    }
}
