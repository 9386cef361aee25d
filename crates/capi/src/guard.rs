//! The frame of each function: no panic leaves it, and errors become objects.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use crate::{callback, error::pelton_error, fault::Fault, handles, status::pelton_status};

/// Runs a call. A panic of it becomes [`pelton_status::PELTON_PANIC`]; handles that it
/// has used are poisoned.
///
/// # Safety
///
/// `error` is NULL, or a handle can be written there.
pub(crate) unsafe fn guard(
    error: *mut *mut pelton_error,
    call: impl FnOnce() -> Result<(), Fault>,
) -> pelton_status {
    // SAFETY: the caller promises the same.
    match unsafe { attempt(error, call) } {
        Ok(()) => pelton_status::PELTON_OK,
        Err(status) => status,
    }
}

/// As [`guard`], for functions with another result.
///
/// # Safety
///
/// As [`guard`].
pub(crate) unsafe fn attempt<R>(
    error: *mut *mut pelton_error,
    call: impl FnOnce() -> Result<R, Fault>,
) -> Result<R, pelton_status> {
    let outcome = caught(call);
    let (outcome, object) = match outcome {
        Ok(result) => (Ok(result), ptr::null_mut()),
        Err(fault) if error.is_null() => (Err(fault.status), ptr::null_mut()),
        Err(fault) => (Err(fault.status), handles::open::<pelton_error>(fault.into())),
    };
    if !error.is_null() {
        // SAFETY: the caller promises that a handle can be written there; it may lie at any
        // address.
        unsafe { error.write_unaligned(object) };
    }
    outcome
}

fn caught<R>(call: impl FnOnce() -> Result<R, Fault>) -> Result<R, Fault> {
    if callback::is_inside() {
        return Err(Fault::new(
            pelton_status::PELTON_CALLBACK,
            "a callback has called the library, expected a callback that only wakes another thread",
        ));
    }
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let status = pelton_status::PELTON_PANIC;
        Err(Fault::new(status, format_args!("the library has panicked: {}", message(&*payload))))
    })
}

/// The text of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it has no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let mut error = ptr::null_mut();
        // SAFETY: the place of the error lives as long as the calls.
        unsafe {
            let status = guard(&raw mut error, || panic!("a test {}", 7));
            assert_eq!(status, pelton_status::PELTON_PANIC);
            let object = handles::close(error).unwrap();
            assert_eq!(object.text.to_str(), Ok("the library has panicked: a test 7"));
            assert_eq!(guard(ptr::null_mut(), || panic!("a test")), pelton_status::PELTON_PANIC);
            assert_eq!(guard(&raw mut error, || Ok(())), pelton_status::PELTON_OK);
            assert!(error.is_null());
        }
    }

    #[test]
    fn a_callback_cannot_call_the_library() {
        // SAFETY: there is no place of an error.
        let status = callback::inside(|| unsafe { guard(ptr::null_mut(), || Ok(())) });
        assert_eq!(status, pelton_status::PELTON_CALLBACK);
    }
}
