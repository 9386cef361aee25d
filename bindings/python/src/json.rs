//! JSON between Python and Rust.

use pyo3::{
    IntoPyObjectExt,
    exceptions::PyValueError,
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple},
};
use serde_json::{Map, Number, Value};

use crate::arguments::wrong;

/// Nested values of an argument at most.
const DEPTH: usize = 100;

/// A value of Python as JSON.
///
/// # Errors
///
/// `TypeError` for a value that JSON does not have.
pub(crate) fn from_python(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    convert(name, value, DEPTH)
}

fn convert(name: &str, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(PyValueError::new_err(format!(
            "{name} is nested more than {DEPTH} levels deep, expected fewer"
        )));
    };
    let refuse = || wrong(name, value, "values of JSON");
    Ok(if value.is_none() {
        Value::Null
    } else if value.is_instance_of::<PyBool>() {
        Value::Bool(value.extract()?)
    } else if value.is_instance_of::<PyInt>() {
        match (value.extract::<i64>(), value.extract::<u64>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            _ => return Err(refuse()),
        }
    } else if value.is_instance_of::<PyFloat>() {
        Value::Number(Number::from_f64(value.extract()?).ok_or_else(refuse)?)
    } else if value.is_instance_of::<PyString>() {
        Value::String(value.extract()?)
    } else if let Ok(dict) = value.cast::<PyDict>() {
        let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let key: String = key.extract().map_err(|_| wrong(name, &key, "a key of text"))?;
            Ok((key, convert(name, &value, depth)?))
        };
        Value::Object(dict.iter().map(pair).collect::<PyResult<Map<_, _>>>()?)
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| convert(name, &item?, depth));
        Value::Array(items.collect::<PyResult<_>>()?)
    } else {
        return Err(refuse());
    })
}

/// JSON as a value of Python.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_bound_py_any(py),
            (None, Some(number)) => number.into_bound_py_any(py),
            (None, None) => number.as_f64().into_bound_py_any(py),
        },
        Value::String(text) => text.into_bound_py_any(py),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            Ok(list.into_any())
        }
        Value::Object(map) => {
            let dict = PyDict::new(py);
            for (key, value) in map {
                dict.set_item(key, to_python(py, value)?)?;
            }
            Ok(dict.into_any())
        }
    }
}
