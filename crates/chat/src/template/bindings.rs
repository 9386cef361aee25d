//! Rewriting of the statements that put values into variables and namespaces, so that these are
//! checked.
//!
//! The value of `set`, `with`, `for` and `loop()` becomes the argument of a function. A macro begins with a
//! statement that checks its parameters.

use serde_json::Value as Json;

use super::edits::{Edits, end, offset, refused};
use super::nesting::{HELD, PARAMETERS, VARIABLE};
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
            let function = if has_attribute(&content["target"]) { HELD } else { VARIABLE };
            wrap(
                edits,
                &content["target"],
                "=",
                &content["expr"],
                offset(span, "end_offset")?,
                function,
            )
        }
        "SetBlock" if !content["filter"].is_null() => {
            let filter = if has_attribute(&content["target"]) { HELD } else { VARIABLE };
            edits.end(end(&content["filter"])?, format!("|{filter}"));
            Ok(())
        }
        "WithBlock" => {
            for assignment in content["assignments"].as_array().into_iter().flatten() {
                let at = edits.skip(end(&assignment[1])?, &[')']);
                wrap(edits, &assignment[0], "=", &assignment[1], at, VARIABLE)?;
            }
            Ok(())
        }
        "ForLoop" => {
            let at = edits.skip(end(&content["iter"])?, &[')']);
            wrap(edits, &content["target"], "in", &content["iter"], at, VARIABLE)
        }
        // the call of a recursive loop
        "Call" if content["expr"].pointer("/inner/0/id").is_some_and(|id| id == "loop") => {
            let to = offset(span, "end_offset")? - 1;
            match content["args"].as_array().is_some_and(|args| !args.is_empty()) {
                true => wrap(edits, &content["expr"], "(", &content["args"][0], to, VARIABLE),
                false => Ok(()),
            }
        }
        "Macro" => {
            let last = [&content["args"], &content["defaults"]];
            let last = last.into_iter().filter_map(|list| list.as_array()?.last());
            match last.map(end).collect::<Result<Vec<_>, _>>()?.into_iter().max() {
                Some(at) => parameters(edits, at, content, span),
                None => Ok(()),
            }
        }
        "CallBlock" => {
            let at = offset(&content["call"]["inner"][1], "end_offset")?;
            let [declared, span] =
                [&content["macro_decl"]["inner"][0], &content["macro_decl"]["inner"][1]];
            match declared["args"].as_array().is_some_and(|args| !args.is_empty()) {
                true => parameters(edits, at, declared, span),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Makes the value of an assignment the argument of a function. The value begins after `mark`,
/// which follows the target, and ends at `to`. The inner parentheses keep a tuple one argument.
fn wrap(
    edits: &mut Edits<'_>,
    target: &Json,
    mark: &str,
    value: &Json,
    to: usize,
    function: &str,
) -> Result<(), Error> {
    // A name, an item or a literal is no deeper than values that are there already.
    let is_known = matches!(value["expr"].as_str(), Some("Var" | "Const" | "GetAttr" | "GetItem"));
    if is_known && function == VARIABLE {
        return Ok(());
    }
    let at = edits.skip(end(target)?, &[')', ',']);
    if !edits.source[at..].starts_with(mark) {
        return Err(refused(&target["inner"][1], "an assignment is misplaced"));
    }
    edits.start(at + mark.len(), format!(" {function}(("));
    edits.end(to, "))");
    Ok(())
}

/// Begins the body of a macro with the check of its parameters, which end at `after`.
fn parameters(
    edits: &mut Edits<'_>,
    after: usize,
    declared: &Json,
    span: &Json,
) -> Result<(), Error> {
    let at = edits.skip(after, &[')', ',']);
    if !edits.source[at..].trim_start_matches(['-', '+']).starts_with("%}") {
        return Err(refused(span, "a macro is misplaced"));
    }
    let names = declared["args"].as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(|name| name.pointer("/inner/0/id")?.as_str()).collect();
    edits.end(at, format!("%}}{{% do {PARAMETERS}({}) ", names.join(",")));
    Ok(())
}

/// Whether the target of an assignment is, or has in it, an attribute of a namespace.
fn has_attribute(target: &Json) -> bool {
    let items = target.pointer("/inner/0/items").and_then(Json::as_array);
    target["expr"] == "GetAttr" || items.into_iter().flatten().any(has_attribute)
}
