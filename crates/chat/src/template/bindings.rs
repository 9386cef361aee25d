//! Rewriting of the statements that put values into namespaces, so that these are checked, and of
//! those that repeat others, so that the clock is looked at.
//!
//! The value of `set` becomes the argument of a function. The bodies of loops, macros and blocks
//! begin with a statement that looks at the clock.

use serde_json::Value as Json;

use super::edits::{Edits, end, offset, refused};
use super::operators::{is_bare, tick};
use super::sharing::{HELD, TICK, VALUE};
use crate::Error;

/// Rewrites a statement; other nodes stay as they are.
///
/// # Errors
/// If it assigns in a way that cannot be checked.
pub(super) fn edit(
    edits: &mut Edits<'_>,
    kind: &str,
    content: &Json,
    span: &Json,
) -> Result<(), Error> {
    match kind {
        "Set" => {
            let (target, value) = (&content["target"], &content["expr"]);
            let end = offset(span, "end_offset")?;
            let is_bare =
                value["expr"] == "Tuple" && is_bare(&value["inner"][0], &value["inner"][1])?;
            match (has_attribute(target), is_bare) {
                (true, _) => wrap(edits, target, end, HELD),
                (false, true) => wrap(edits, target, end, VALUE),
                (false, false) => unpacked(edits, target, value),
            }
        }
        "SetBlock" if !content["filter"].is_null() && has_attribute(&content["target"]) => {
            edits.end(end(&content["filter"])?, format!("|{HELD}"));
            Ok(())
        }
        "WithBlock" => {
            let mut assignments = content["assignments"].as_array().into_iter().flatten();
            assignments.try_for_each(|pair| unpacked(edits, &pair[0], &pair[1]))
        }
        "ForLoop" => {
            let condition = &content["filter_expr"];
            let last = if condition.is_null() { &content["iter"] } else { condition };
            if !condition.is_null() {
                tick(edits, condition)?;
            }
            body(edits, end(last)?, span)
        }
        "Macro" => {
            let last = [&content["args"], &content["defaults"]];
            let last = last.into_iter().filter_map(|list| list.as_array()?.last());
            match last.map(end).collect::<Result<Vec<_>, _>>()?.into_iter().max() {
                Some(at) => body(edits, at, span),
                None => {
                    let start = offset(span, "start_offset")?;
                    let open = edits.source[start..].find('(').unwrap_or(0);
                    body(edits, start + open + 1, span)
                }
            }
        }
        "CallBlock" => body(edits, offset(&content["call"]["inner"][1], "end_offset")?, span),
        "Block" => {
            let start = offset(span, "start_offset")?;
            let end = edits.source[start..].find("%}").unwrap_or(0);
            let tag = edits.source[start..start + end].trim_end_matches(['-', '+']);
            body(edits, start + tag.len(), span)
        }
        _ => Ok(()),
    }
}

/// Looks at the clock before a value is unpacked.
fn unpacked(edits: &mut Edits<'_>, target: &Json, value: &Json) -> Result<(), Error> {
    if target["expr"] == "Var" { Ok(()) } else { tick(edits, value) }
}

/// Makes the value of a `set` the argument of a function. The value begins after the sign that
/// follows the target, and ends at `to`. The inner parentheses keep a tuple one argument.
fn wrap(edits: &mut Edits<'_>, target: &Json, to: usize, function: &str) -> Result<(), Error> {
    let at = edits.skip(end(target)?, &[')', ',']);
    if !edits.source[at..].starts_with('=') {
        return Err(refused(&target["inner"][1], "an assignment is misplaced"));
    }
    edits.start(at + 1, format!(" {function}(("));
    edits.end(to, "))");
    Ok(())
}

/// Begins a body with a look at the clock. The tag before it ends after `from`.
fn body(edits: &mut Edits<'_>, from: usize, span: &Json) -> Result<(), Error> {
    let mut at = edits.skip(from, &[')', ',']);
    if edits.source[at..].starts_with("recursive") {
        at = edits.skip(at + "recursive".len(), &[]);
    }
    if !edits.source[at..].trim_start_matches(['-', '+']).starts_with("%}") {
        return Err(refused(span, "the tag of a body is misplaced"));
    }
    edits.end(at, format!("%}}{{% do {TICK}() "));
    Ok(())
}

/// Whether the target of an assignment is, or has in it, an attribute of a namespace.
fn has_attribute(target: &Json) -> bool {
    let items = target.pointer("/inner/0/items").and_then(Json::as_array);
    target["expr"] == "GetAttr" || items.into_iter().flatten().any(has_attribute)
}
