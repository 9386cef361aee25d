//! Texts that the library makes.

use std::{ffi::c_char, ptr};

use crate::{
    guard::{attempt, guard},
    handles::{self, handle},
    memory::{Out, out},
    status::pelton_status,
};

/// A text of the library. The caller closes it with `pelton_text_free`.
pub struct pelton_text;

/// UTF-8 with a NUL after it.
pub(crate) struct TextObject(String);

handle!(pelton_text, TextObject);

/// Hands a text to the caller.
pub(crate) fn give(place: Out<*mut pelton_text>, mut text: String) {
    text.push('\0');
    place.set(handles::open(TextObject(text)));
}

/// The bytes of a text, UTF-8, which live until `pelton_text_free`. A NUL follows them. NULL if the
/// text is not live. `length` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_text_data(
    text: *const pelton_text,
    length: *mut usize,
) -> *const c_char {
    let call = || {
        let text = handles::get(text)?;
        if !length.is_null() {
            // SAFETY: the caller keeps the header's rules of pointers.
            unsafe { out(length, "length")? }.set(text.0.len() - 1);
        }
        Ok(text.0.as_ptr().cast())
    };
    // SAFETY: there is no place for an error.
    unsafe { attempt(ptr::null_mut(), call) }.unwrap_or(ptr::null())
}

/// Closes a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_text_free(text: *mut pelton_text) -> pelton_status {
    // SAFETY: there is no place for an error.
    unsafe { guard(ptr::null_mut(), || handles::close(text).map(drop)) }
}
