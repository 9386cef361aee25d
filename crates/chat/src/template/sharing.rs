//! Limits of the values that a template builds: their size, their depth and what they hold.
//!
//! minijinja prints, compares, hashes and drops a value by recursion through all its parts. A part
//! that is shared is walked each time that it is reached, so a list that holds another twice, 60
//! times over, takes 2^60 steps. So a value is measured as if nothing in it were shared, where it
//! is built. One that is nested too deeply overflows the stack. A namespace in a value could grow
//! after the value is measured, or hold itself.

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};

use super::charge::{self, Excess};
use super::deadline;

/// The function that counts the value of an operation, and the filter; they return the value.
pub(super) const COUNT: &str = "_pelton_count";

/// The function that checks a list, a tuple or a dict that is written in the template.
pub(super) const VALUE: &str = "_pelton_value";

/// The function and the filter whose argument a namespace may hold; they return the argument.
pub(super) const HELD: &str = "_pelton_held";

/// The filter of the keys of a dict that is written in the template.
pub(super) const KEY: &str = "_pelton_key";

/// The filter of a value whose items become arguments of a call.
pub(super) const SPLAT: &str = "_pelton_splat";

/// The function that looks at the clock, and the filter that does so and returns its argument.
pub(super) const TICK: &str = "_pelton_tick";

/// The greatest size of a value in bytes, with each shared part as often as it is reached.
pub(super) const VALUE_BYTES: usize = 64 << 20;

/// The greatest depth of a value: more than the 128 of a request's JSON.
const DEPTH: usize = 256;

/// The most arguments that one value becomes.
const ARGUMENTS: usize = 1000;

/// Defines the functions that a rewritten template calls.
pub(super) fn add_functions(environment: &mut Environment<'static>) {
    environment.add_function(COUNT, counted);
    environment.add_filter(COUNT, counted);
    environment.add_function(VALUE, checked);
    environment.add_function(HELD, held);
    environment.add_filter(HELD, held);
    environment.add_filter(KEY, key);
    environment.add_filter(SPLAT, splat);
    environment.add_function(TICK, deadline::check);
    environment.add_filter(TICK, |value: Value| deadline::check().map(|()| value));
}

/// Counts a value that an operation made. A lazy list becomes one of its items: it could hold what
/// it is made of unseen, or many others like it within each other.
///
/// # Errors
/// If the text or the list is too long, or as [`size`].
pub(super) fn counted(mut value: Value) -> Result<Value, Error> {
    deadline::check()?;
    if value.kind() == ValueKind::Iterable {
        let mut all = Vec::new();
        for item in value.try_iter()? {
            charge::items(all.len())?;
            all.push(item);
        }
        value = Value::from(all);
    }
    match value.as_str() {
        Some(text) => charge::bytes(text.len())?,
        None => {
            size(&value)?;
            if value.kind() == ValueKind::Seq {
                charge::list(value.len().unwrap_or(0))?;
            }
        }
    }
    Ok(value)
}

fn checked(value: Value) -> Result<Value, Error> {
    size(&value)?;
    Ok(value)
}

fn held(value: Value) -> Result<Value, Error> {
    refuse_namespace(&value)?;
    checked(value)
}

/// Counts a key, all of which a dict hashes.
///
/// # Errors
/// If it is too large.
pub(super) fn key(value: Value) -> Result<Value, Error> {
    charge::steps(size(&value)?)?;
    Ok(value)
}

fn splat(value: Value) -> Result<Value, Error> {
    let is_long = |value: &Value| {
        value.try_iter().is_ok_and(|items| items.take(ARGUMENTS + 1).count() > ARGUMENTS)
    };
    match is_long(&value) {
        true => Err(failed(format!("a call has more than {ARGUMENTS} arguments"))),
        false => Ok(value),
    }
}

/// The bytes of a value, with each shared part as often as it is reached.
///
/// # Errors
/// If it is too large or nested too deeply, holds a namespace, or if the time is over.
pub(super) fn size(value: &Value) -> Result<usize, Error> {
    deadline::check()?;
    let mut size = 0;
    measure(value, 0, &mut size)?;
    Ok(size)
}

fn measure(value: &Value, depth: usize, size: &mut usize) -> Result<(), Error> {
    *size = size.saturating_add(charge::ITEM + value.as_str().map_or(0, str::len));
    if *size > VALUE_BYTES {
        return Err(charge::exceeded(Excess::Value));
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    deadline::step()?;
    if depth > DEPTH {
        return Err(failed(format!("a value is nested more than {DEPTH} deep")));
    }
    if depth > 0 {
        refuse_namespace(value)?;
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter()?.try_for_each(|item| measure(&item, depth + 1, size))
        }
        ValueKind::Map => {
            let pairs = object.try_iter_pairs().into_iter().flatten();
            pairs.into_iter().try_for_each(|(key, value)| {
                measure(&key, depth + 1, size)?;
                measure(&value, depth + 1, size)
            })
        }
        _ => Ok(()),
    }
}

/// Refuses a namespace, whose type is a private one of minijinja that is known by its name.
fn refuse_namespace(value: &Value) -> Result<(), Error> {
    let is_namespace =
        value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"));
    match is_namespace {
        true => Err(failed(
            "a value cannot hold a namespace, set each attribute of a namespace to a plain value",
        )),
        false => Ok(()),
    }
}

fn failed(reason: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}
