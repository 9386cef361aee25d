//! Lists of options by name, which the calls read that they are given to.

use std::{
    ffi::c_char,
    ptr,
    sync::{Mutex, PoisonError},
};

use crate::{
    error::pelton_error,
    fault::Fault,
    guard::guard,
    handles::{self, handle},
    memory::{out, text},
    settings::{Setting, set},
    status::pelton_status,
};

/// Options by name: of an engine, a load, embeddings or a transcription. A call reads those that it
/// is given; later changes do not concern it.
pub struct pelton_options;

/// Names and values.
#[derive(Default)]
pub(crate) struct OptionsObject(Mutex<Vec<(String, String)>>);

handle!(pelton_options, OptionsObject);

/// Reads options of a table; NULL has none.
pub(crate) fn read<T: Default>(
    options: *const pelton_options,
    settings: &[Setting<T>],
) -> Result<T, Fault> {
    read_with(options, |values, name, value| set(settings, values, name, value))
}

/// Reads options, each of which `set` sets by its name and value; NULL has none.
pub(crate) fn read_with<T: Default>(
    options: *const pelton_options,
    set: impl Fn(&mut T, &str, &str) -> Result<(), Fault>,
) -> Result<T, Fault> {
    let mut values = T::default();
    let Some(options) = handles::get_optional(options)? else { return Ok(values) };
    let list = options.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (name, value) in list {
        set(&mut values, &name, &value)?;
    }
    Ok(values)
}

/// Makes an empty list of options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_options_new(
    options: *mut *mut pelton_options,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            out(options, "options")?.set(handles::open(OptionsObject::default()));
            Ok(())
        })
    }
}

/// Sets an option to a text. The option is checked by the call that reads it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_options_set(
    options: *mut pelton_options,
    name: *const c_char,
    name_length: usize,
    value: *const c_char,
    value_length: usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let options = handles::get(options)?;
            let (name, value) =
                (text(name, name_length, "name")?, text(value, value_length, "value")?);
            let mut list = options.0.lock().unwrap_or_else(PoisonError::into_inner);
            list.push((name.to_owned(), value.to_owned()));
            Ok(())
        })
    }
}

/// Sets an option to a number; 1 is yes and 0 no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_options_set_number(
    options: *mut pelton_options,
    name: *const c_char,
    name_length: usize,
    value: f64,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let options = handles::get(options)?;
            let name = text(name, name_length, "name")?;
            let mut list = options.0.lock().unwrap_or_else(PoisonError::into_inner);
            list.push((name.to_owned(), value.to_string()));
            Ok(())
        })
    }
}

/// Closes a list of options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_options_free(options: *mut pelton_options) -> pelton_status {
    // SAFETY: there is no place for an error.
    unsafe { guard(ptr::null_mut(), || handles::close(options).map(drop)) }
}
