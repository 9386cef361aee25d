//! The time that the renderings of a prompt may take, on the thread that runs them.
//!
//! A rewritten template looks at the clock at each turn of a loop, each call of a macro and before
//! each operation that walks a value. Our own walks look at it too.

use std::cell::Cell;
use std::time::{Duration, Instant};

use minijinja::{Error, ErrorKind};

/// The steps of a walk between two looks at the clock.
const STEPS: u32 = 256;

thread_local! {
    /// The end of the time, if there is one.
    static END: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The steps since the last look at the clock.
    static TAKEN: Cell<u32> = const { Cell::new(0) };
}

/// The time of the renderings that follow, until it is dropped.
pub(super) struct Deadline {
    before: Option<Instant>,
}

impl Deadline {
    /// Begins the time. Within the time of a prompt it is that of the prompt.
    pub(super) fn open(time: Duration) -> Self {
        let before = END.get();
        END.set(before.or_else(|| Instant::now().checked_add(time)));
        Self { before }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        END.set(self.before);
    }
}

/// Whether the time is over.
pub(super) fn is_over() -> bool {
    END.get().is_some_and(|end| Instant::now() >= end)
}

/// Looks at the clock.
///
/// # Errors
/// If the time is over.
pub(super) fn check() -> Result<(), Error> {
    match is_over() {
        true => Err(Error::new(ErrorKind::InvalidOperation, "the rendering takes too long")),
        false => Ok(()),
    }
}

/// Counts a step of a walk and looks at the clock now and then.
///
/// # Errors
/// If the time is over.
pub(super) fn step() -> Result<(), Error> {
    let taken = TAKEN.get() + 1;
    TAKEN.set(taken % STEPS);
    if taken == STEPS { check() } else { Ok(()) }
}
