//! Ctrl-C: the first press cancels the running request, the second one ends the process.

use std::{
    process::exit,
    sync::{Arc, Mutex, PoisonError},
};

use pelton::RequestHandle;

/// The exit code after Ctrl-C: 128 and the number of the signal, as shells have it.
pub(crate) const EXIT_CODE: u8 = 130;

#[derive(Default)]
struct State {
    request: Option<RequestHandle>,
    cancelled: bool,
}

/// The handler of Ctrl-C and the request that it cancels.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<Mutex<State>>);

impl Interrupt {
    /// Installs the handler. Until [`cancels`](Self::cancels) names a request, Ctrl-C ends the
    /// process at once.
    pub(crate) fn install() -> Self {
        let interrupt = Self::default();
        let handler = interrupt.clone();
        // without a handler Ctrl-C ends the process, which loses the statistics only
        let _ = ctrlc::set_handler(move || handler.press());
        interrupt
    }

    /// Sets the request that the next Ctrl-C cancels.
    pub(crate) fn cancels(&self, request: &RequestHandle) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).request = Some(request.clone());
    }

    /// Cancels the request: the passes that are submitted end, which leaves the GPU idle, and no
    /// other is submitted.
    ///
    /// During a load and at the second press the process ends without waiting for the GPU: a
    /// submitted pass cannot be stopped, and for the user of a second press the first one takes
    /// too long. The GPU's driver then finishes or aborts the few passes in flight and frees the
    /// memory.
    fn press(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(request) = &state.request
            && !state.cancelled
        {
            request.cancel();
            state.cancelled = true;
            return;
        }
        drop(state);
        exit(i32::from(EXIT_CODE));
    }
}
