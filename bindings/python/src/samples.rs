//! Samples of audio, as arrays and buffers have them.

use pyo3::{buffer::PyBuffer, prelude::*};

use crate::arguments::wrong;

/// The samples of an argument, if it is an array with one dimension: of floating-point numbers, or
/// of 16-bit integers, which are in 32,768ths. Both orders of bytes are read.
pub(crate) fn floats(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<f32>>> {
    let py = value.py();
    let Some(kind) = array_type(value)? else {
        return match PyBuffer::<f32>::get(value) {
            Ok(buffer) if buffer.dimensions() == 1 => {
                let is_swapped = is_foreign(buffer.format().to_bytes());
                let mut values = buffer.to_vec(py)?;
                if is_swapped {
                    values.iter_mut().for_each(|x| *x = f32::from_bits(x.to_bits().swap_bytes()));
                }
                Ok(Some(values))
            }
            _ => Ok(None),
        };
    };
    let scale = match kind.get(1..) {
        Some("f2" | "f4" | "f8") => 1.0,
        Some("i2") => 1.0 / 32_768.0,
        _ => return Ok(None),
    };
    // numpy knows every order of bytes
    let native = value.call_method1("astype", ("=f4",))?;
    let buffer = PyBuffer::<f32>::get(&native)?;
    if buffer.dimensions() != 1 {
        return Ok(None);
    }
    let mut values = buffer.to_vec(py)?;
    values.iter_mut().for_each(|value| *value *= scale);
    Ok(Some(values))
}

/// Whether the first character of a format names another order of bytes than this machine's.
fn is_foreign(format: &[u8]) -> bool {
    let foreign: &[u8] = if cfg!(target_endian = "little") { b">!" } else { b"<" };
    format.first().is_some_and(|first| foreign.contains(first))
}

/// The type of an array's elements as numpy writes it, such as `>f4`; `None` of other values.
pub(crate) fn array_type(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Some(kind) = value.getattr_opt("dtype")? else { return Ok(None) };
    let Some(text) = kind.getattr_opt("str")? else { return Ok(None) };
    Ok(Some(text.extract::<String>()?))
}

/// The `TypeError` of an argument that has no samples, with the type of an array.
pub(crate) fn no_samples(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let shape = || -> PyResult<Option<String>> {
        let Some(kind) = array_type(value)? else { return Ok(None) };
        Ok(Some(format!("{kind} of {} dimensions", value.getattr("ndim")?.extract::<usize>()?)))
    };
    match shape() {
        Ok(Some(found)) => wrong(name, value, &format!("{expected}, not an array of {found}")),
        _ => wrong(name, value, expected),
    }
}
