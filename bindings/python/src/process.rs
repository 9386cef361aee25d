//! Values that belong to the process that made them.
//!
//! The threads of a model do not survive a `fork`. A child that used the model would wait for ever,
//! and so would one that dropped it: the copy in a child is refused, and forgotten.

use std::{mem, process};

use pyo3::prelude::*;

use crate::error::Failure;

/// A value of one process. Its drop lets other threads of Python run.
pub(crate) struct Owned<T: Send> {
    value: Option<T>,
    process: u32,
}

impl<T: Send> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), process: process::id() }
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// In a child of the process that made it.
    pub(crate) fn get(&self) -> Result<&T, Failure> {
        let here = process::id();
        match &self.value {
            Some(value) if self.process == here => Ok(value),
            _ => Err(Failure::forked(format!(
                "the model was loaded by process {}, and this is its child {here}: threads do not \
                 survive a fork, expected a load in the child, or multiprocessing's 'spawn'",
                self.process
            ))),
        }
    }
}

impl<T: Send> Drop for Owned<T> {
    fn drop(&mut self) {
        let mut value = self.value.take();
        if self.process != process::id() {
            return mem::forget(value);
        }
        // the last handle of a model waits for the thread that runs it
        Python::try_attach(|py| py.detach(|| drop(value.take())));
    }
}
