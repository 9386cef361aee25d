//! The use of one HTTP request: tokens, for its log line and its key's limits, and memory.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use crate::{http::Permit, input::Held};

/// The use of one HTTP request, until the last part of its work has ended.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    permit: Option<Permit>,
    memory: Mutex<Vec<Held>>,
    prompt: AtomicUsize,
    generated: AtomicUsize,
    /// Milliseconds of audio.
    audio: AtomicUsize,
    model: Mutex<Option<String>>,
}

impl Usage {
    /// The usage of a request whose key has permitted it.
    pub(crate) fn new(permit: Option<Permit>) -> Self {
        Self { permit, ..Self::default() }
    }

    /// Keeps memory of the request taken.
    pub(crate) fn hold(&self, memory: Held) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }

    pub(crate) fn add_prompt(&self, tokens: usize) {
        self.prompt.fetch_add(tokens, Ordering::Relaxed);
        self.charge(tokens);
    }

    pub(crate) fn add_generated(&self, tokens: usize) {
        self.generated.fetch_add(tokens, Ordering::Relaxed);
        self.charge(tokens);
    }

    /// Adds seconds of audio that were heard.
    pub(crate) fn add_audio(&self, seconds: f64) {
        self.audio.fetch_add((seconds * 1e3).round() as usize, Ordering::Relaxed);
    }

    /// Seconds of audio; none for requests without.
    pub(crate) fn audio(&self) -> Option<f64> {
        let milliseconds = self.audio.load(Ordering::Relaxed);
        (milliseconds > 0).then_some(milliseconds as f64 / 1e3)
    }

    /// Charges the key at once, so that parallel requests see what others use.
    fn charge(&self, tokens: usize) {
        if let Some(permit) = &self.permit {
            permit.charge(tokens);
        }
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
