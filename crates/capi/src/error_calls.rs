//! Functions of errors.

use std::{ffi::c_char, ptr};

use crate::{
    error::pelton_error,
    guard::{attempt, guard},
    handles,
    memory::out,
    status::pelton_status,
};

/// The code of an error; `PELTON_CLOSED` or `PELTON_NULL` if it is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_error_code(error: *const pelton_error) -> pelton_status {
    // SAFETY: there is no place for another error.
    unsafe { attempt(ptr::null_mut(), || Ok(handles::get(error)?.status)) }
        .unwrap_or_else(|status| status)
}

/// The text of an error, which ends with NUL and lives until `pelton_error_free`. NULL if it is
/// none. `length` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_error_text(
    error: *const pelton_error,
    length: *mut usize,
) -> *const c_char {
    let call = || {
        let error = handles::get(error)?;
        if !length.is_null() {
            // SAFETY: the caller keeps the header's rules of pointers.
            unsafe { out(length, "length")? }.set(error.text.as_bytes().len());
        }
        Ok(error.text.as_ptr())
    };
    // SAFETY: there is no place for another error.
    unsafe { attempt(ptr::null_mut(), call) }.unwrap_or(ptr::null())
}

/// Closes an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_error_free(error: *mut pelton_error) -> pelton_status {
    // SAFETY: there is no place for another error.
    unsafe { guard(ptr::null_mut(), || handles::close(error).map(drop)) }
}
