//! Tokens of one HTTP request, for its log line and for the limits of its key.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// Counts the tokens of one HTTP request.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    prompt: AtomicUsize,
    generated: AtomicUsize,
    model: Mutex<Option<String>>,
}

impl Usage {
    pub(crate) fn add_prompt(&self, tokens: usize) {
        self.prompt.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(crate) fn add_generated(&self, tokens: usize) {
        self.generated.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(crate) fn set_model(&self, name: &str) {
        *self.model.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.to_owned());
    }

    pub(crate) fn model(&self) -> Option<String> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tokens of prompts and of texts.
    pub(crate) fn tokens(&self) -> (usize, usize) {
        (self.prompt.load(Ordering::Relaxed), self.generated.load(Ordering::Relaxed))
    }
}
