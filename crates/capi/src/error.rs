//! The object of an error.

use std::ffi::CString;

use crate::{fault::Fault, handles::handle, status::pelton_status};

/// Why a call has failed. The caller closes it with `pelton_error_free`.
pub struct pelton_error;

/// A code, and a text that ends with NUL for C.
pub(crate) struct ErrorObject {
    pub(crate) status: pelton_status,
    pub(crate) text: CString,
}

handle!(pelton_error, ErrorObject);

impl From<Fault> for ErrorObject {
    fn from(fault: Fault) -> Self {
        // files write parts of it, and callers print it; no NUL is left
        let text = pelton_printable::line(&fault.text).into_owned();
        let text = CString::new(text).unwrap_or_default();
        Self { status: fault.status, text }
    }
}
