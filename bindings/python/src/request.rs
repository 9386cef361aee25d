//! One submitted request.

use std::sync::Arc;

use pelton::{
    Event, FinishReason, GenerateOptions, Prompt, PromptToken, RequestHandle, Stats, Token,
};
use pyo3::prelude::*;

use crate::{
    error::Failure,
    inbox::{Inbox, Wakes},
    process::Owned,
    wait::until,
};

/// What the next step of a stream is.
pub(crate) enum Step<T> {
    /// An item.
    Item(T),
    /// None yet.
    Pending,
    /// None any more.
    End,
    /// None any more, as the request failed.
    Failed(Failure),
}

/// A request; its drop cancels it.
pub(crate) struct Request {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) handle: RequestHandle,
    /// Keeps the model loaded.
    model: Owned<pelton::Model>,
}

/// A request that has ended.
#[derive(Default)]
pub(crate) struct Finished {
    pub(crate) tokens: Vec<Token>,
    pub(crate) prompt: Vec<PromptToken>,
    pub(crate) reason: Option<FinishReason>,
}

impl Request {
    pub(crate) fn submit(
        model: &pelton::Model,
        prompt: Prompt,
        options: GenerateOptions,
        wakes: Wakes,
    ) -> Result<Self, pelton::Error> {
        let (inbox, fill) = Inbox::new(wakes);
        let handle = model.submit(prompt, options, fill)?;
        Ok(Self { inbox, handle, model: Owned::new(model.clone()) })
    }

    /// Refuses the use in a child of the process.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.model.get().map(drop)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.handle.stats()
    }

    /// The next item of `step`, which takes events of the inbox and never waits.
    pub(crate) fn next<T>(
        &self,
        py: Python<'_>,
        step: impl Fn() -> Step<T>,
    ) -> PyResult<Option<T>> {
        self.check().map_err(|failure| failure.raise(py))?;
        loop {
            match step() {
                Step::Item(item) => return Ok(Some(item)),
                Step::End => return Ok(None),
                Step::Failed(failure) => return Err(failure.raise(py)),
                Step::Pending => {
                    py.detach(|| self.inbox.wait(crate::wait::TICK));
                    py.check_signals()?;
                }
            }
        }
    }

    /// Waits for the end, and returns everything that came.
    pub(crate) fn finish(&self, py: Python<'_>) -> PyResult<Finished> {
        self.check().map_err(|failure| failure.raise(py))?;
        until(py, |tick| self.inbox.wait_for_end(tick).then_some(()))?;
        let mut finished = Finished::default();
        while let Ok(event) = self.inbox.take() {
            match event {
                Event::Prompt(tokens) => finished.prompt = tokens,
                Event::Token(token) => finished.tokens.push(token),
                Event::Finished { reason, .. } => finished.reason = Some(reason),
                Event::Failed(error) => return Err(Failure::from(error).raise(py)),
                _ => {}
            }
        }
        match finished.reason {
            Some(_) => Ok(finished),
            None => Err(Failure::from(pelton::Error::Stopped).raise(py)),
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.handle.cancel();
    }
}

/// Submits `count` requests and waits for all of them. As many wait in the queue of the model as
/// that allows; the next one takes the place of one that has finished.
pub(crate) fn run_all<T>(
    py: Python<'_>,
    count: usize,
    mut submit: impl FnMut(usize) -> PyResult<Result<Request, pelton::Error>>,
    mut done: impl FnMut(usize, &Request, Finished) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    let mut running = std::collections::VecDeque::new();
    let mut results = Vec::with_capacity(count);
    let mut next = 0;
    while results.len() < count {
        while next < count {
            match submit(next)? {
                Ok(request) => running.push_back(request),
                Err(pelton::Error::Busy { .. }) if !running.is_empty() => break,
                Err(error) => return Err(Failure::from(error).raise(py)),
            }
            next += 1;
        }
        let Some(request) = running.pop_front() else { break };
        let finished = request.finish(py)?;
        results.push(done(results.len(), &request, finished)?);
    }
    Ok(results)
}
