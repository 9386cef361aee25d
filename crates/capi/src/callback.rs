//! Calls of the caller's functions.

use std::{cell::Cell, ffi::c_void};

/// A function that is called when something can be read: it wakes the reader and does nothing else.
/// It runs on a thread of the library.
pub type pelton_ready_fn = Option<unsafe extern "C" fn(user_data: *mut c_void)>;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the thread is within a callback that may not call the library.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// Marks the thread while a callback runs that may not call the library.
pub(crate) fn inside<R>(call: impl FnOnce() -> R) -> R {
    let before = INSIDE.replace(true);
    let result = call();
    INSIDE.set(before);
    result
}

/// A function of the caller with its data.
#[derive(Clone, Copy)]
pub(crate) struct Wake {
    call: unsafe extern "C" fn(*mut c_void),
    user_data: *mut c_void,
}

// SAFETY: the header requires data that any thread can use.
unsafe impl Send for Wake {}

impl Wake {
    /// # Safety
    ///
    /// Until the function is unset, it can be called with the data on any thread.
    pub(crate) unsafe fn new(call: pelton_ready_fn, user_data: *mut c_void) -> Option<Self> {
        call.map(|call| Self { call, user_data })
    }

    pub(crate) fn wake(self) {
        // SAFETY: `new` has got the promise.
        inside(|| unsafe { (self.call)(self.user_data) });
    }
}
