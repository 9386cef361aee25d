//! Panics of decoders, which malformed files could cause, as errors.

use crate::AudioError;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether a decoder runs, whose panic becomes an error.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs code of decoders. A panic there becomes an error, and is not printed.
pub(super) fn guard<T>(name: &str, run: impl FnOnce() -> T) -> Result<T, AudioError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                before(panic);
            }
        }));
    });
    let before = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    GUARDED.set(before);
    outcome.map_err(|_| AudioError::Malformed {
        name: name.to_owned(),
        problem: "its decoder gave up on it".to_owned(),
    })
}
