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
        // a path can have no NUL, and a text with one is shown without it
        let text = CString::new(fault.text.replace('\0', "")).unwrap_or_default();
        Self { status: fault.status, text }
    }
}
