//! Arguments of Python as values of the engine.

use std::{fs::File, io::Read, path::PathBuf};

use pelton::{
    Prompt,
    chat::{IMAGE_BYTES_MAX, IMAGES_MAX},
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyByteArray, PyBytes, PyList, PyMemoryView, PyString, PyTuple},
};

/// A value as Python writes it, at most 80 characters.
pub(crate) fn repr(value: &Bound<'_, PyAny>) -> String {
    let found = value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
    match found.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &found[..end]),
        None => found,
    }
}

/// The `TypeError` of an argument.
pub(crate) fn wrong(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let hint = if is_bytes(value) { "; bytes are decoded to a text first" } else { "" };
    PyTypeError::new_err(format!("{name} is {}, expected {expected}{hint}", repr(value)))
}

/// An argument of a type.
pub(crate) fn get<'py, T>(name: &str, value: &Bound<'py, PyAny>, expected: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    value.extract().map_err(|_| wrong(name, value, expected))
}

/// Whether a value is bytes. Python takes them for a sequence of numbers, which nobody means.
fn is_bytes(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance_of::<PyMemoryView>()
}

/// The numbers of a sequence that is no bytes.
pub(crate) fn numbers<T>(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyResult<Vec<T>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py>,
{
    match is_bytes(value) {
        true => Err(wrong(name, value, expected)),
        false => value.extract().map_err(|_| wrong(name, value, expected)),
    }
}

/// A path of text that may have bytes which are no UTF-8, as `os.fsdecode` writes them.
pub(crate) fn path(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyResult<PathBuf> {
    value.extract().map_err(|_| wrong(name, value, expected))
}

/// The files of pictures, each as its bytes or its path.
pub(crate) fn images(value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    const EXPECTED: &str = "a list of pictures, each the bytes of a file or its path";
    if is_bytes(value) || value.is_instance_of::<PyString>() {
        return Err(wrong("images", value, EXPECTED));
    }
    let list: Vec<Bound<'_, PyAny>> = get("images", value, EXPECTED)?;
    if list.len() > IMAGES_MAX {
        let count = list.len();
        let message = format!("images has {count} pictures, expected at most {IMAGES_MAX}");
        return Err(PyValueError::new_err(message));
    }
    list.iter().map(image).collect()
}

fn image(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if is_bytes(value) {
        let bytes = value.py().get_type::<PyBytes>().call1((value,))?;
        return Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec());
    }
    let file = path("images", value, "the bytes of a picture's file or its path")?;
    let shown = file.display().to_string();
    let mut bytes = Vec::new();
    let most = IMAGE_BYTES_MAX as u64 + 1;
    File::open(&file)?.take(most).read_to_end(&mut bytes)?;
    match bytes.len() > IMAGE_BYTES_MAX {
        true => Err(PyValueError::new_err(format!(
            "{shown} has more than {IMAGE_BYTES_MAX} bytes, the limit of a picture"
        ))),
        false => Ok(bytes),
    }
}

/// Prompts of an argument, and whether it is one prompt and no list of them.
pub(crate) struct Prompts {
    pub(crate) list: Vec<Prompt>,
    pub(crate) is_one: bool,
}

const EXPECTED: &str = "a text, a list of token ids, or a list of those";

fn prompt(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Prompt> {
    if value.is_instance_of::<PyString>() {
        return Ok(Prompt::Text(value.extract()?));
    }
    Ok(Prompt::Tokens(numbers(name, value, EXPECTED)?))
}

/// A prompt of text or of ids.
pub(crate) fn one_prompt(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Prompt> {
    prompt(name, value)
}

/// A text, token ids, or a list of texts and lists of ids.
pub(crate) fn prompts(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Prompts> {
    let is_list = value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    // a list of ids begins with a number; an empty list is one of no prompts
    let is_many = is_list
        && match value.try_iter()?.next().transpose()? {
            None => true,
            Some(first) => first.extract::<u32>().is_err(),
        };
    if !is_many {
        return Ok(Prompts { list: vec![prompt(name, value)?], is_one: true });
    }
    let list = value.try_iter()?.map(|item| prompt(name, &item?)).collect::<PyResult<_>>()?;
    Ok(Prompts { list, is_one: false })
}

/// One text, or a list of texts.
pub(crate) fn texts(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    match value.is_instance_of::<PyString>() {
        true => Ok(vec![value.extract()?]),
        false => get(name, value, "a text or a list of texts"),
    }
}
