//! Slices: those with a step become calls of a method of ours, as minijinja fails on some of them,
//! such as `[][::-1]`.

use minijinja::value::{Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, Value};
use serde_json::Value as Json;

use super::charge;
use super::edits::{Edits, end, offset, refused};
use super::operators::append;
use super::sharing::{COUNT, TICK};

/// The method of a value that a slice with a step becomes.
pub(super) const METHOD: &str = "_pelton_slice";

/// Rewrites a slice. The clock is looked at before one that an operation follows at once, which is
/// counted itself.
///
/// # Errors
/// If it has no position, or has no bounds and is followed by an operation.
pub(super) fn edit(edits: &mut Edits<'_>, content: &Json, span: &Json) -> Result<(), crate::Error> {
    let close = offset(span, "end_offset")?;
    if !content["step"].is_null() {
        return with_step(edits, content, span, close - 1);
    }
    if !edits.source[close..].starts_with(['.', '[', '(']) {
        edits.end(close, format!("|{COUNT}"));
        return Ok(());
    }
    match ["start", "stop"].map(|bound| &content[bound]).into_iter().find(|bound| !bound.is_null())
    {
        Some(bound) => append(edits, bound, TICK),
        None => Err(refused(span, "a slice has no bounds, leave it out")),
    }
}

/// `value[start:stop:step]` becomes `value._pelton_slice(start,stop,step)`.
fn with_step(
    edits: &mut Edits<'_>,
    content: &Json,
    span: &Json,
    close: usize,
) -> Result<(), crate::Error> {
    let mut at = edits.skip(end(&content["expr"])?, &[')']);
    let replace = |edits: &mut Edits<'_>, at: usize, sign: char, text| {
        if !edits.source[at..].starts_with(sign) {
            return Err(refused(span, "a slice is misplaced"));
        }
        edits.replace(at, text);
        Ok(())
    };
    replace(edits, at, '[', "._pelton_slice(")?;
    for bound in ["start", "stop"] {
        let from = match content[bound].is_null() {
            true => {
                edits.end(at + 1, "none");
                at + 1
            }
            false => end(&content[bound])?,
        };
        at = edits.skip(from, &[')']);
        replace(edits, at, ':', ",")?;
    }
    replace(edits, close, ']', ")")
}

/// The items or characters of a slice, as in Python.
///
/// # Errors
/// If the value has none, or a bound is no integer.
pub(super) fn slice(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let (start, stop, step): (&Value, &Value, &Value) = from_args(args)?;
    let bound = |bound: &Value| match bound.is_none() || bound.is_undefined() {
        true => Ok(None),
        false => i64::try_from(bound.clone()).map(Some),
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(failed("a slice has the step 0"));
    }
    if let Some(text) = value.as_str() {
        charge::steps(text.len())?;
        let all: Vec<char> = text.chars().collect();
        let kept = places(all.len(), start, stop, step).map(|at| all[at]);
        return Ok(Value::from(kept.collect::<String>()));
    }
    let all: Vec<Value> = match value.kind() {
        ValueKind::Undefined | ValueKind::None => Vec::new(),
        ValueKind::Seq | ValueKind::Iterable => value.try_iter()?.collect(),
        kind => {
            let reason = format!("a value of type {kind} cannot be sliced");
            return Err(Error::new(ErrorKind::InvalidOperation, reason));
        }
    };
    let kept: Vec<Value> = places(all.len(), start, stop, step).map(|at| all[at].clone()).collect();
    Ok(if value.is_tuple() { Value::from(Tuple::from(kept)) } else { Value::from(kept) })
}

/// The places of a slice among so many, by CPython's `PySlice_AdjustIndices`.
fn places(
    len: usize,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
) -> impl Iterator<Item = usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let (least, most) = if step < 0 { (-1, len - 1) } else { (0, len) };
    let adjust = |bound: i64| match bound < 0 {
        true => bound.saturating_add(len).max(least),
        false => bound.min(most),
    };
    let (first, end) = if step < 0 { (most, least) } else { (least, most) };
    let (start, stop) = (start.map_or(first, adjust), stop.map_or(end, adjust));
    let distance = if step < 0 { start - stop } else { stop - start };
    let count = match distance > 0 {
        true => (distance as u64 - 1) / step.unsigned_abs() + 1,
        false => 0,
    };
    (0..count).filter_map(move |i| usize::try_from(start + i as i64 * step).ok())
}

fn failed(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}
