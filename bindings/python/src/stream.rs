//! The tokens of a request, one by one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pelton::{Event, FinishReason, PromptToken};
use pyo3::prelude::*;

use crate::{
    bell::Bell,
    completion::{Usage, reason_word},
    error::Failure,
    request::{Request, Step},
    token::Token,
};

#[derive(Default)]
struct State {
    prompt: Vec<PromptToken>,
    reason: Option<FinishReason>,
    ended: bool,
}

/// The tokens of one text as an iterator, for `for` and for `async for`. Its deletion
/// cancels the request.
#[pyclass(frozen, module = "pelton")]
pub(crate) struct TokenStream {
    request: Request,
    state: Mutex<State>,
}

impl TokenStream {
    pub(crate) fn new(request: Request) -> Self {
        Self { request, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self) -> Step<Token> {
        let mut state = self.lock();
        if state.ended {
            return Step::End;
        }
        loop {
            match self.request.inbox.take() {
                Ok(Event::Prompt(tokens)) => state.prompt = tokens,
                Ok(Event::Token(token)) => return Step::Item(token.into()),
                Ok(Event::Finished { reason, .. }) => {
                    (state.reason, state.ended) = (Some(reason), true);
                    return Step::End;
                }
                Ok(Event::Failed(error)) => {
                    state.ended = true;
                    return Step::Failed(error.into());
                }
                Ok(_) => {}
                Err(false) => return Step::Pending,
                Err(true) => {
                    state.ended = true;
                    return Step::Failed(pelton::Error::Stopped.into());
                }
            }
        }
    }
}

/// What has come to a stream: its items, whether it has ended, and its error.
pub(crate) type Drained<T> = (Vec<T>, bool, Option<Py<PyAny>>);

/// Everything that a stream has now. The next event wakes its event loop.
pub(crate) fn drain<T>(
    py: Python<'_>,
    request: &Request,
    step: impl Fn() -> Step<T>,
) -> PyResult<Drained<T>> {
    request.check().map_err(|failure: Failure| failure.raise(py))?;
    request.inbox.arm();
    let mut items = Vec::new();
    loop {
        match step() {
            Step::Item(item) => items.push(item),
            Step::Pending => return Ok((items, false, None)),
            Step::End => return Ok((items, true, None)),
            Step::Failed(failure) => {
                return Ok((items, true, Some(failure.raise(py).into_value(py).into_any())));
            }
        }
    }
}

/// The asynchronous iterator of a stream.
pub(crate) fn asynchronous<'py>(stream: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    stream.py().import("pelton._aio")?.getattr("AsyncStream")?.call1((stream,))
}

#[pymethods]
impl TokenStream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Token>> {
        self.request.next(py, || self.step())
    }

    fn __aiter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        asynchronous(slf.as_any())
    }

    /// Cancels the request. Tokens that have come can still be read.
    fn cancel(&self) {
        self.request.handle.cancel();
    }

    /// Why the text ended, or None.
    #[getter]
    fn finish_reason(&self) -> Option<&'static str> {
        self.lock().reason.map(reason_word)
    }

    /// The sizes and times so far.
    #[getter]
    fn usage(&self) -> Usage {
        (&self.request.stats()).into()
    }

    /// The tokens of the prompt with their log-probabilities, once a token has come.
    #[getter]
    fn prompt_logprobs(&self) -> Vec<Token> {
        let state = self.lock();
        state.prompt.iter().map(|token| Token::of_prompt(token, String::new())).collect()
    }

    fn _drain(&self, py: Python<'_>) -> PyResult<Drained<Token>> {
        drain(py, &self.request, || self.step())
    }

    fn _connect(&self, bell: &Bell, key: u64) {
        self.request.inbox.set_wake(bell.wake(key));
    }

    fn __repr__(&self) -> String {
        let tokens = self.request.stats().generated_tokens;
        format!("TokenStream(tokens={tokens}, finish_reason={:?})", self.finish_reason())
    }
}
