//! Rewriting of operators that make texts and lists, so that these are counted.
//!
//! minijinja has no hook for operators. `a ~ b` becomes a call of a function, as does `a * b`; the
//! results of `a + b`, of filters and of slices are passed on to one.

use minijinja::value::ValueKind;
use minijinja::{Environment, ErrorKind, Value};
use serde_json::Value as Json;

use super::charge;
use super::edits::{self, Edits, offset, refused};
use crate::Error;

const CONCAT: &str = "_pelton_concat";
const TIMES: &str = "_pelton_times";
const COUNT: &str = "_pelton_count";

/// The functions that a rewritten template calls.
pub(super) fn add_functions(environment: &mut Environment<'static>) {
    environment.add_function(CONCAT, concat);
    environment.add_function(TIMES, times);
    environment.add_function(COUNT, charge::value);
    environment.add_filter(COUNT, charge::value);
}

/// Rewrites an operation; other nodes stay as they are.
///
/// # Errors
/// If it has no position.
pub(super) fn edit(
    edits: &mut Edits<'_>,
    kind: &str,
    content: &Json,
    span: &Json,
) -> Result<(), Error> {
    let end = offset(span, "end_offset")?;
    match kind {
        "Filter" => edits.end(end, "|_pelton_count"),
        // An operation after a slice is one of its own, and is counted.
        "Slice" if !edits.source[end..].starts_with(['.', '[', '(']) => {
            edits.end(end, "|_pelton_count");
        }
        "BinOp" => {
            let (name, operator) = match content["op"].as_str() {
                Some("Concat") => (CONCAT, Some('~')),
                Some("Mul") => (TIMES, Some('*')),
                Some("Add") => (COUNT, None),
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
            edits.end(end, ")");
        }
        _ => {}
    }
    Ok(())
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
