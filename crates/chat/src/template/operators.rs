//! Rewriting of operators that make texts and lists, so that these are counted, and of those that
//! walk values, so that the clock is looked at.
//!
//! minijinja has no hook for operators. `a ~ b` becomes a call of a function, as does `a * b`; the
//! results of `a + b` and of filters are passed on to one, as are lists and dicts that are written
//! in the template. `a == b` becomes `a == b|_pelton_tick`: the filter binds to the last part of
//! `b`, which is all of it or made before the comparison.

use minijinja::value::ValueKind;
use minijinja::{Environment, ErrorKind, Value};
use serde_json::Value as Json;

use super::charge;
use super::edits::{self, Edits, offset, refused};
use super::sharing::{COUNT, KEY, SPLAT, TICK, VALUE};
use crate::Error;

const CONCAT: &str = "_pelton_concat";
const TIMES: &str = "_pelton_times";

/// The functions that a rewritten template calls.
pub(super) fn add_functions(environment: &mut Environment<'static>) {
    environment.add_function(CONCAT, concat);
    environment.add_function(TIMES, times);
}

/// Rewrites an operation; other nodes stay as they are. `held` is set for a value that is written
/// as a part of another.
///
/// # Errors
/// If it has no position.
pub(super) fn edit(
    edits: &mut Edits<'_>,
    kind: &str,
    content: &Json,
    span: &Json,
    held: bool,
) -> Result<(), Error> {
    match kind {
        "Filter" => {
            splats(edits, &content["args"])?;
            edits.end(offset(span, "end_offset")?, format!("|{COUNT}"));
        }
        "Test" => splats(edits, &content["args"])?,
        "Call" => {
            splats(edits, &content["args"])?;
            if content["expr"]["expr"] == "GetAttr" {
                changed(edits, content)?;
            }
        }
        "Do" | "CallBlock" => splats(edits, &content["call"]["inner"][0]["args"])?,
        "GetItem" => tick(edits, &content["subscript_expr"])?,
        "BinOp" => binary(edits, content, span)?,
        "Compare" => {
            for operand in content["ops"].as_array().into_iter().flatten() {
                append(edits, &operand["expr"], TICK)?;
            }
        }
        "List" | "Tuple" | "Map" => {
            for key in content["keys"].as_array().into_iter().flatten() {
                if !is_constant(key) {
                    append(edits, key, KEY)?;
                }
            }
            let is_bare = kind == "Tuple" && is_bare(content, span)?;
            if !held && !is_bare && !has_constants(content) {
                edits.start(offset(span, "start_offset")?, format!("{VALUE}("));
                edits.end(offset(span, "end_offset")?, ")");
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether a tuple has no parentheses: then its span begins after its first item.
///
/// # Errors
/// If it has no position.
pub(super) fn is_bare(content: &Json, span: &Json) -> Result<bool, Error> {
    match content["items"].get(0) {
        Some(first) => Ok(edits::end(first)? <= offset(span, "start_offset")?),
        None => Ok(false),
    }
}

fn is_constant(node: &Json) -> bool {
    match node["expr"].as_str() {
        Some("Const") => true,
        Some("List" | "Tuple" | "Map") => has_constants(&node["inner"][0]),
        _ => false,
    }
}

/// Whether all parts of a list, a tuple or a dict are constants.
fn has_constants(content: &Json) -> bool {
    let lists = ["items", "keys", "values"].map(|field| content[field].as_array());
    lists.into_iter().flatten().flatten().all(is_constant)
}

fn binary(edits: &mut Edits<'_>, content: &Json, span: &Json) -> Result<(), Error> {
    let (name, operator) = match content["op"].as_str() {
        Some("Concat") => (CONCAT, Some('~')),
        Some("Mul") => (TIMES, Some('*')),
        Some("Add") => (COUNT, None),
        Some("In") => return append(edits, &content["right"], TICK),
        Some("Eq" | "Ne" | "Lt" | "Lte" | "Gt" | "Gte") => {
            return match content["left"]["expr"] == "Const" {
                true => Ok(()),
                false => tick(edits, &content["right"]),
            };
        }
        _ => return Ok(()),
    };
    if let Some(operator) = operator {
        let at = edits.skip(edits::end(&content["left"])?, &[')']);
        if !edits.source[at..].starts_with(operator) {
            return Err(refused(span, "an operator is misplaced"));
        }
        edits.replace(at, ",");
    }
    edits.start(offset(span, "start_offset")?, format!("{name}("));
    edits.end(offset(span, "end_offset")?, ")");
    Ok(())
}

/// Looks at the clock before each argument of `loop.changed`, which compares them.
fn changed(edits: &mut Edits<'_>, content: &Json) -> Result<(), Error> {
    let method = &content["expr"]["inner"][0];
    if method["name"] != "changed" {
        return Ok(());
    }
    for argument in content["args"].as_array().into_iter().flatten() {
        if !argument["Pos"].is_null() {
            tick(edits, &argument["Pos"])?;
        }
    }
    Ok(())
}

/// Checks the values whose items become arguments.
fn splats(edits: &mut Edits<'_>, arguments: &Json) -> Result<(), Error> {
    for argument in arguments.as_array().into_iter().flatten() {
        for kind in ["PosSplat", "KwargSplat"] {
            if !argument[kind].is_null() {
                append(edits, &argument[kind], SPLAT)?;
            }
        }
    }
    Ok(())
}

/// Looks at the clock when a value is made, unless it is a constant.
///
/// # Errors
/// If it has no position.
pub(super) fn tick(edits: &mut Edits<'_>, value: &Json) -> Result<(), Error> {
    if is_constant(value) { Ok(()) } else { append(edits, value, TICK) }
}

/// Applies a filter to a value, or to each value that it may be.
///
/// # Errors
/// If it has no position.
pub(super) fn append(edits: &mut Edits<'_>, value: &Json, filter: &str) -> Result<(), Error> {
    let content = &value["inner"][0];
    match value["expr"].as_str() {
        // true, false or a number
        Some("Test" | "Compare" | "UnaryOp") => Ok(()),
        Some("IfExpr") => {
            append(edits, &content["true_expr"], filter)?;
            match content["false_expr"].is_null() {
                true => Ok(()),
                false => append(edits, &content["false_expr"], filter),
            }
        }
        Some("BinOp") => match content["op"].as_str() {
            Some("ScAnd" | "ScOr") => {
                append(edits, &content["left"], filter)?;
                append(edits, &content["right"], filter)
            }
            Some("Add" | "Concat" | "Mul") => {
                edits.end(edits::end(value)?, format!("|{filter}"));
                Ok(())
            }
            _ => Ok(()),
        },
        _ => {
            edits.end(edits::end(value)?, format!("|{filter}"));
            Ok(())
        }
    }
}

/// `left ~ right`.
fn concat(left: &Value, right: &Value) -> Result<String, minijinja::Error> {
    charge::text(format_args!("{left}{right}"))
}

/// `left * right`.
fn times(left: &Value, right: &Value) -> Result<Value, minijinja::Error> {
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

fn product(left: &Value, right: &Value) -> Result<Value, minijinja::Error> {
    let whole = |value: &Value| value.is_integer() || value.kind() == ValueKind::Bool;
    if whole(left) && whole(right) {
        let (left, right) = (i128::try_from(left.clone())?, i128::try_from(right.clone())?);
        let product = left.checked_mul(right).ok_or_else(|| failed("a product is too large"))?;
        return Ok(i64::try_from(product).map_or_else(|_| Value::from(product), Value::from));
    }
    Ok(Value::from(f64::try_from(left.clone())? * f64::try_from(right.clone())?))
}

fn failed(reason: &'static str) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, reason)
}
