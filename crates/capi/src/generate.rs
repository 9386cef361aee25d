//! Generation in one call.

use std::ffi::c_void;

use crate::{
    error::pelton_error,
    fault::Fault,
    guard::guard,
    handles,
    model::pelton_model,
    reading::{self, Next},
    request::pelton_request,
    status::pelton_status,
    token::pelton_token,
};

/// A function that receives each token; it returns whether the text goes on. It runs on the thread
/// that called, and may call the library. The token's texts live until it returns.
pub type pelton_token_fn =
    Option<unsafe extern "C" fn(token: *const pelton_token, user_data: *mut c_void) -> bool>;

/// Runs a request to its end, and passes each token to a function. If the function returns false,
/// the request is cancelled, which is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_generate(
    model: *const pelton_model,
    request: *const pelton_request,
    callback: pelton_token_fn,
    user_data: *mut c_void,
    error: *mut *mut pelton_error,
) -> pelton_status {
    let call = || {
        let (model, request) = (handles::get(model)?, handles::get(request)?);
        let call = callback.ok_or_else(|| Fault::null("callback"))?;
        let (queue, handle, mut reading) = reading::start(model.text()?, request.values())?;
        loop {
            match reading.next(&queue, None)? {
                Next::End | Next::TimedOut => return Ok(()),
                Next::Piece(mut piece) => {
                    let view = piece.view();
                    // SAFETY: the caller's function follows the header; the view
                    // lives while it runs.
                    if !unsafe { call(&raw const view, user_data) } {
                        handle.cancel();
                        return Ok(());
                    }
                }
            }
        }
    };
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe { guard(error, call) }
}
