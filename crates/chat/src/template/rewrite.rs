//! A template as it is compiled: with calls of functions that count and check its values.

use minijinja::machinery;
use minijinja::syntax::SyntaxConfig;
use serde_json::Value as Json;

use super::edits::{Edits, refused};
use super::loops::Loops;
use super::{bindings, chains, failure, operators};
use crate::Error;

/// The prefix of the names of the functions.
pub(super) const PREFIX: &str = "_pelton_";

/// A template whose values are counted and checked.
pub(super) struct Rewritten {
    pub(super) source: String,
    /// Bytes of the longest literal text that is written to a variable.
    pub(super) literal: usize,
}

/// Rewrites a template.
///
/// # Errors
/// If it is not valid, has a name of ours or too long a chain, imports a template, or uses `loop` as
/// a value.
pub(super) fn rewrite(source: &str, syntax: SyntaxConfig) -> Result<Rewritten, Error> {
    if source.contains(PREFIX) {
        let reason = "names that begin with _pelton_ are reserved".to_owned();
        return Err(Error::Syntax { line: 0, reason });
    }
    chains::check(source, syntax.clone())?;
    let tree = machinery::parse(source, "chat", syntax).map_err(|error| failure::syntax(&error))?;
    let tree = serde_json::to_value(&tree)
        .map_err(|error| Error::Syntax { line: 0, reason: error.to_string() })?;
    let mut visitor = Visitor { edits: Edits::new(source), literal: 0, loops: Loops::default() };
    visitor.visit(&tree, false)?;
    visitor.loops.check()?;
    Ok(Rewritten { source: visitor.edits.apply(), literal: visitor.literal })
}

struct Visitor<'s> {
    edits: Edits<'s>,
    literal: usize,
    loops: Loops,
}

impl Visitor<'_> {
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
                if kind == "EmitRaw" && captured {
                    let length = content["raw"].as_str().map_or(0, str::len);
                    self.literal = self.literal.max(length);
                }
                if matches!(kind, "Import" | "FromImport") {
                    return Err(refused(
                        span,
                        "a chat template cannot import another template, write its macros here instead",
                    ));
                }
                self.loops.visit(kind, content, span);
                operators::edit(&mut self.edits, kind, content, span)?;
                bindings::edit(&mut self.edits, kind, content, span)
            }
            _ => Ok(()),
        }
    }
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
                "{{- a[1:].b ~ f(x=-c * 2) -}}",
                "{{- _pelton_concat(a[1:].b , f(x=_pelton_times(-c , 2))) -}}",
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

    #[test]
    fn assignments_are_rewritten() {
        for (source, expected) in [
            ("{% set a = b.c -%}", "{% set a = b.c -%}"),
            ("{% set a = [b] -%}", "{% set a = _pelton_variable(( [b])) -%}"),
            ("{%set a.b=c%}", "{%set a.b= _pelton_held((c))%}"),
            ("{% set (a, b.c) = 1, (2,) %}", "{% set (a, b.c) = _pelton_held(( 1, (2,))) %}"),
            ("{% set a %}b{% endset %}", "{% set a %}b{% endset %}"),
            (
                "{% set a.b | e %}c{% endset %}",
                "{% set a.b | e|_pelton_count|_pelton_held %}c{% endset %}",
            ),
            (
                "{% with a = (f()), (b) = 1 %}{% endwith %}",
                "{% with a = _pelton_variable(( (f()))), (b) = 1 %}{% endwith %}",
            ),
            (
                "{% for a in (b(1)) if c %}{% endfor %}",
                "{% for a in _pelton_variable(( (b(1)) ))if c %}{% endfor %}",
            ),
            (
                "{% macro a(b, c=(1), ) -%}{% endmacro %}",
                "{% macro a(b, c=(1), ) %}{% do _pelton_parameters(b,c) -%}{% endmacro %}",
            ),
            (
                "{% call(b) a(1) -%}{% endcall %}",
                "{% call(b) a(1) %}{% do _pelton_parameters(b) -%}{% endcall %}",
            ),
            ("{{ loop ([a])|e }}", "{{ loop ( _pelton_variable(([a])))|e|_pelton_count }}"),
        ] {
            assert_eq!(rewrite(source, SyntaxConfig::default()).unwrap().source, expected);
        }
    }
}
