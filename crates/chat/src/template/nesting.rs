//! Limits of the values that a template puts into variables and namespaces.
//!
//! minijinja prints, compares and drops a value by recursion, so a value that is nested too deeply
//! overflows the stack. A namespace that holds itself is nested without end, and is never freed.

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

use super::charge;

/// The function and the filter whose argument a variable may hold; they return the argument.
pub(super) const VARIABLE: &str = "_pelton_variable";

/// The function and the filter whose argument a namespace may hold; they return the argument.
pub(super) const HELD: &str = "_pelton_held";

/// The function that checks the parameters of a macro.
pub(super) const PARAMETERS: &str = "_pelton_parameters";

/// The greatest depth of a value in a variable: more than the 128 of a request's JSON.
const DEPTH: usize = 256;

/// Bytes that the check of one value within another is counted as.
const CHECK: usize = 16;

/// Defines the functions that a rewritten template calls.
pub(super) fn add_functions(environment: &mut Environment<'static>) {
    environment.add_function(VARIABLE, variable);
    environment.add_filter(VARIABLE, variable);
    environment.add_function(HELD, held);
    environment.add_filter(HELD, held);
    environment.add_function(PARAMETERS, parameters);
}

fn variable(value: Value) -> Result<Value, Error> {
    check(&value, 0, &|_| Ok(()))?;
    Ok(value)
}

fn held(value: Value) -> Result<Value, Error> {
    check(&value, 0, &refuse_namespace)?;
    Ok(value)
}

fn parameters(values: Rest<Value>) -> Result<(), Error> {
    values.iter().try_for_each(|value| check(value, 0, &|_| Ok(())))
}

/// Checks the depth of a value, and each value of type map in it.
fn check(
    value: &Value,
    depth: usize,
    check_map: &dyn Fn(&str) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(object) = value.as_object() else { return Ok(()) };
    if depth > DEPTH {
        return Err(failed(format!("a value is nested more than {DEPTH} deep")));
    }
    let below = |value: &Value| {
        charge::bytes(CHECK)?;
        check(value, depth + 1, check_map)
    };
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => value.try_iter()?.try_for_each(|item| below(&item)),
        ValueKind::Map => {
            check_map(object.type_name())?;
            let pairs = object.try_iter_pairs().into_iter().flatten();
            pairs.into_iter().try_for_each(|(key, value)| {
                below(&key)?;
                below(&value)
            })
        }
        _ => Ok(()),
    }
}

/// Refuses the type of namespaces, a private one of minijinja that is known by its name.
fn refuse_namespace(type_name: &str) -> Result<(), Error> {
    match type_name.ends_with("::Namespace") {
        true => Err(failed(
            "a namespace cannot hold a namespace, set each of its attributes to a plain value",
        )),
        false => Ok(()),
    }
}

fn failed(reason: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}
