//! Functions of the library as a whole.

use std::ffi::c_char;

use crate::handles;

/// The version of the library, such as `0.1.0`: a text that ends with NUL and is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn pelton_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Handles of all kinds that were opened and not closed, errors and texts included. It is for
/// tests.
#[unsafe(no_mangle)]
pub extern "C" fn pelton_live_handles() -> u64 {
    handles::live() as u64
}
