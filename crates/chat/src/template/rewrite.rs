//! A template as it is compiled: with calls of functions that count and check its values.

use minijinja::machinery;
use minijinja::syntax::SyntaxConfig;
use serde_json::Value as Json;

use super::edits::{Edits, refused};
use super::loops::Loops;
use super::{bindings, chains, failure, operators, slices};
use crate::Error;

/// The prefix of the names of the functions.
pub(super) const PREFIX: &str = "_pelton_";

/// The greatest size of a template in bytes. Those of published models have less than 64 KiB.
const SOURCE: usize = 1 << 20;

/// A template whose values are counted and checked.
pub(super) struct Rewritten {
    pub(super) source: String,
    /// Bytes of the longest literal text that is written to a variable.
    pub(super) literal: usize,
}

/// Rewrites a template.
///
/// # Errors
/// If it is not valid, is too long, has a name of ours or too long a chain, imports or includes a
/// template, or uses `loop` as a value.
pub(super) fn rewrite(source: &str, syntax: SyntaxConfig) -> Result<Rewritten, Error> {
    if source.contains(PREFIX) {
        let reason = "names that begin with _pelton_ are reserved".to_owned();
        return Err(Error::Syntax { line: 0, reason });
    }
    if source.len() > SOURCE {
        let reason = format!("it has {} bytes, expected at most {SOURCE}", source.len());
        return Err(Error::Syntax { line: 0, reason });
    }
    chains::check(source, syntax.clone())?;
    let tree = machinery::parse(source, "chat", syntax).map_err(|error| failure::syntax(&error))?;
    let tree = serde_json::to_value(&tree)
        .map_err(|error| Error::Syntax { line: 0, reason: error.to_string() })?;
    let mut visitor = Visitor { edits: Edits::new(source), literal: 0, loops: Loops::default() };
    visitor.visit(&tree, Place::default())?;
    visitor.loops.check()?;
    Ok(Rewritten { source: visitor.edits.apply(), literal: visitor.literal })
}

struct Visitor<'s> {
    edits: Edits<'s>,
    literal: usize,
    loops: Loops,
}

/// Where a node is.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Its output goes to a variable.
    captured: bool,
    /// It is written as a part of a list, a tuple or a dict, or is the target of an assignment.
    held: bool,
}

impl Visitor<'_> {
    /// Visits a node of the syntax tree after those below.
    fn visit(&mut self, node: &Json, place: Place) -> Result<(), Error> {
        match node {
            Json::Array(nodes) => nodes.iter().try_for_each(|node| self.visit(node, place)),
            Json::Object(fields) => {
                let kind = fields.get("stmt").or(fields.get("expr")).and_then(Json::as_str);
                let captures = matches!(
                    kind,
                    Some("Macro" | "CallBlock" | "SetBlock" | "FilterBlock" | "Block")
                );
                let below = Place {
                    captured: place.captured || captures,
                    // the lists of items and the spans of a node have no kind
                    held: match kind {
                        Some(kind) => matches!(kind, "List" | "Tuple" | "Map"),
                        None => place.held,
                    },
                };
                for (name, child) in fields {
                    match name.as_str() {
                        "keys" => self.visit(child, Place { held: false, ..below })?,
                        "target" => self.visit(child, Place { held: true, ..below })?,
                        "assignments" => {
                            for pair in child.as_array().into_iter().flatten() {
                                self.visit(&pair[0], Place { held: true, ..below })?;
                                self.visit(&pair[1], below)?;
                            }
                        }
                        _ => self.visit(child, below)?,
                    }
                }
                let inner = fields.get("inner").and_then(Json::as_array);
                let (Some(kind), Some([content, span])) = (kind, inner.map(Vec::as_slice)) else {
                    return Ok(());
                };
                if kind == "EmitRaw" && place.captured {
                    let length = content["raw"].as_str().map_or(0, str::len);
                    self.literal = self.literal.max(length);
                }
                if let Some((verb, part)) = match kind {
                    "Import" | "FromImport" => Some(("import", "macros")),
                    "Include" | "Extends" => Some(("include", "text")),
                    _ => None,
                } {
                    let reason = format!(
                        "a chat template cannot {verb} another template, write its {part} here instead"
                    );
                    return Err(refused(span, &reason));
                }
                self.loops.visit(kind, content, span);
                if kind == "Slice" {
                    slices::edit(&mut self.edits, content, span)?;
                }
                operators::edit(&mut self.edits, kind, content, span, place.held)?;
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
                "{{- _pelton_concat(a[1|_pelton_tick:].b , f(x=_pelton_times(-c , 2))) -}}",
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
            ("{% set a = [b] -%}", "{% set a = _pelton_value([b]) -%}"),
            ("{%set a.b=c%}", "{%set a.b= _pelton_held((c))%}"),
            ("{% set (a, b.c) = 1, (2,) %}", "{% set (a, b.c) = _pelton_held(( 1, (2,))) %}"),
            ("{% set a, b = b, a %}", "{% set a, b = _pelton_value(( b, a)) %}"),
            ("{% set a, b = (b, a) %}", "{% set a, b = _pelton_value((b, a))|_pelton_tick %}"),
            ("{% set a, b = c %}", "{% set a, b = c|_pelton_tick %}"),
            ("{% set a %}b{% endset %}", "{% set a %}b{% endset %}"),
            (
                "{% set a.b | e %}c{% endset %}",
                "{% set a.b | e|_pelton_count|_pelton_held %}c{% endset %}",
            ),
            (
                "{% with (a, b) = (f()), (c) = 1 %}{% endwith %}",
                "{% with (a, b) = (f()|_pelton_tick), (c) = 1 %}{% endwith %}",
            ),
        ] {
            assert_eq!(rewrite(source, SyntaxConfig::default()).unwrap().source, expected);
        }
    }

    #[test]
    fn walks_are_rewritten() {
        for (source, expected) in [
            ("{{ a == 'b' or 'b' != a }}", "{{ a == 'b' or 'b' != a }}"),
            ("{{ a == (b) }}", "{{ a == (b|_pelton_tick) }}"),
            (
                "{{ a < (b.c or d[e]) < f }}",
                "{{ a < (b.c|_pelton_tick or d[e|_pelton_tick]|_pelton_tick) < f|_pelton_tick }}",
            ),
            (
                "{{ a in (b if c else d + e) }}",
                "{{ a in (b|_pelton_tick if c else _pelton_count(d + e)|_pelton_tick) }}",
            ),
            ("{{ a not in ['b', ('c',)] }}", "{{ a not in ['b', ('c',)]|_pelton_tick }}"),
            ("{{ [a, {'b': (a, [1])}] }}", "{{ _pelton_value([a, {'b': (a, [1])}]) }}"),
            (
                "{{ {a: 1, [b]: [a if b]} }}",
                "{{ _pelton_value({a|_pelton_key: 1, _pelton_value([b])|_pelton_key: [a if b]}) }}",
            ),
            (
                "{{ f(*a, **(b or c)) }}",
                "{{ f(*a|_pelton_splat, **(b|_pelton_splat or c|_pelton_splat)) }}",
            ),
            ("{{ a[1:][0] }}", "{{ a[1|_pelton_tick:][0] }}"),
            ("{{ a[1:] }}{{ a[:b] }}", "{{ a[1:]|_pelton_count }}{{ a[:b]|_pelton_count }}"),
            ("{{ (a)[::-1].b }}", "{{ (a)._pelton_slice(none,none,-1).b }}"),
            ("{{ a [ b : (c) : d ] }}", "{{ a ._pelton_slice( b , (c) , d ) }}"),
            ("{{ a['b'][:2:e[0:]] }}", "{{ a['b']._pelton_slice(none,2,e[0:]|_pelton_count) }}"),
            ("{{ loop.changed(a, 1) }}", "{{ loop.changed(a|_pelton_tick, 1) }}"),
        ] {
            assert_eq!(rewrite(source, SyntaxConfig::default()).unwrap().source, expected);
        }
    }

    #[test]
    fn bodies_are_rewritten() {
        for (source, expected) in [
            (
                "{% for a in (b(1)) if c %}{% endfor %}",
                "{% for a in (b(1)) if c|_pelton_tick %}{% do _pelton_tick() %}{% endfor %}",
            ),
            (
                "{%- for a in b recursive -%} c{% endfor %}",
                "{%- for a in b recursive %}{% do _pelton_tick() -%} c{% endfor %}",
            ),
            (
                "{% macro a(b, c=(1), ) -%}{% endmacro %}",
                "{% macro a(b, c=(1), ) %}{% do _pelton_tick() -%}{% endmacro %}",
            ),
            (
                "{% macro a( ) +%}{% endmacro %}",
                "{% macro a( ) %}{% do _pelton_tick() +%}{% endmacro %}",
            ),
            (
                "{% call(b) a(*c) -%}{% endcall %}",
                "{% call(b) a(*c|_pelton_splat) %}{% do _pelton_tick() -%}{% endcall %}",
            ),
            (
                "{% block a scoped -%}{% endblock %}",
                "{% block a scoped %}{% do _pelton_tick() -%}{% endblock %}",
            ),
        ] {
            assert_eq!(rewrite(source, SyntaxConfig::default()).unwrap().source, expected);
        }
    }
}
