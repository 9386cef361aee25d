//! Ctrl-C: the first press cancels the running request, the second one ends the process.

use std::{
    process::exit,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use pelton::RequestHandle;

/// The exit code after Ctrl-C: 128 and the number of the signal, as shells have it.
pub(crate) const EXIT_CODE: u8 = 130;

/// The action of the first press.
type Cancel = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    cancel: Option<Cancel>,
    /// Presses that are ignored before one ends the process, in all.
    patience: u32,
    /// Those that are left.
    left: u32,
}

/// A flag that is set when Ctrl-C is pressed.
#[derive(Clone, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    /// Whether Ctrl-C was pressed.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The handler of Ctrl-C and the request that it cancels.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<Mutex<State>>);

impl Interrupt {
    /// Installs the handler. Until [`cancels`](Self::cancels) names a request or
    /// [`flag`](Self::flag) is called, Ctrl-C ends the process at once.
    pub(crate) fn install() -> Self {
        let interrupt = Self::default();
        let handler = interrupt.clone();
        // without a handler Ctrl-C ends the process, which loses the statistics only
        let _ = ctrlc::set_handler(move || handler.press());
        interrupt
    }

    /// From now on presses without a request to cancel are ignored, up to this many in a row.
    pub(crate) fn ignore(&self, presses: u32) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (state.patience, state.left) = (presses, presses);
    }

    /// The request that is to be cancelled has ended.
    pub(crate) fn release(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.cancel = None;
        state.left = state.patience;
    }

    /// Sets the request that the next Ctrl-C cancels.
    pub(crate) fn cancels(&self, request: &RequestHandle) {
        let request = request.clone();
        self.set(Box::new(move || request.cancel()));
    }

    /// A flag that the next Ctrl-C sets.
    pub(crate) fn flag(&self) -> Flag {
        let flag = Flag::default();
        let set = flag.clone();
        self.set(Box::new(move || set.0.store(true, Ordering::Relaxed)));
        flag
    }

    fn set(&self, cancel: Cancel) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).cancel = Some(cancel);
    }

    /// Cancels the request: the passes that are submitted end, which leaves the GPU idle, and no
    /// other is submitted.
    ///
    /// During a load and at the second press the process ends without waiting for the GPU. A
    /// submitted pass cannot be stopped, and for the user of a second press the first one takes too
    /// long. The GPU's driver then finishes or aborts the few passes in flight and frees the
    /// memory.
    fn press(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.cancel.take() {
            Some(cancel) => cancel(),
            None if state.left > 0 => state.left -= 1,
            None => exit(i32::from(EXIT_CODE)),
        }
    }
}
