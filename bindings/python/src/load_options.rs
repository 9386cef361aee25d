//! Keyword arguments as the options of a load.

use std::path::PathBuf;

use pelton::{DraftSource, EffortOptions, LoadKind, LoadOption, LoadOptions};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyDict, PyString, PyTuple},
};

use crate::{
    arguments::{get, path, repr, wrong},
    error::Failure,
};

/// The names of all options, for the stubs and their test.
pub(crate) fn names(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, LoadOptions::OPTIONS.iter().map(|option| option.python))
}

/// The options of a load. An argument that is `None` is as one that is not given.
pub(crate) fn read(
    context: Option<&Bound<'_, PyAny>>,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<LoadOptions> {
    let mut options = LoadOptions::default();
    if let (Some(option), Some(context)) = (LoadOption::find_python("context"), context) {
        set(option, &mut options, context)?;
    }
    for (key, value) in keywords.into_iter().flatten() {
        let key: String = key.extract()?;
        let option = LoadOption::find_python(&key).ok_or_else(|| {
            let unknown = format!("load() got an unexpected keyword argument '{key}'");
            PyTypeError::new_err(unknown)
        })?;
        if !value.is_none() {
            set(option, &mut options, &value)?;
        }
    }
    Ok(options)
}

/// Sets an option. Values with a type of their own in Python are not written as texts.
fn set(option: &LoadOption, options: &mut LoadOptions, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let name = option.python;
    match name {
        "loras" => {
            for (path, scale) in get::<Vec<(PathBuf, f32)>>(name, value, "pairs of path and scale")?
            {
                *options = std::mem::take(options).lora(path, scale);
            }
            return Ok(());
        }
        "draft" if value.extract::<String>().is_err() => {
            let path = path(name, value, "a path: str or os.PathLike")?;
            options.draft = Some(DraftSource::Model(path.into()));
            return Ok(());
        }
        // any effort, with 1 as the default
        "effort" if value.is_instance_of::<PyBool>() => {
            options.effort = value.is_truthy()?.then(|| EffortOptions::from(1.0));
            return Ok(());
        }
        _ => {}
    }
    let set = |options: &mut LoadOptions, value: &Bound<'_, PyAny>| {
        option.set(options, &text(option, value)?).map_err(|expected| {
            Failure::input(format!("{name} is {}, {expected}", repr(value))).raise(value.py())
        })
    };
    match option.kind {
        LoadKind::List(..) if !value.is_instance_of::<PyString>() => {
            let mut values =
                value.try_iter().map_err(|_| wrong(name, value, &option.expected()))?;
            values.try_for_each(|value| set(options, &value?))
        }
        _ => set(options, value),
    }
}

/// A value in words, as the table reads them.
fn text(option: &LoadOption, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let wrong = || Err(wrong(option.python, value, &option.expected()));
    let is_switch = matches!(option.kind, LoadKind::Switch(_));
    if value.is_instance_of::<PyBool>() || is_switch {
        return match value.extract::<bool>() {
            Ok(is_on) if is_switch => Ok(is_on.to_string()),
            _ => wrong(),
        };
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(text);
    }
    if let Ok(integer) = value.extract::<i64>() {
        return Ok(integer.to_string());
    }
    if let Ok(integer) = value.extract::<u64>() {
        return Ok(integer.to_string());
    }
    match (option.kind, value.extract::<f64>()) {
        (LoadKind::Time(_) | LoadKind::Text(..), Ok(number)) => Ok(number.to_string()),
        _ => wrong(),
    }
}
