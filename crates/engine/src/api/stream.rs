//! Tokens of one request as an iterator and as an asynchronous stream.
//!
//! Both read a queue that the request's callback fills. It holds at most the request's tokens,
//! which the context bounds.

use std::{
    collections::VecDeque,
    fmt,
    ops::ControlFlow,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use futures_core::Stream;

use crate::{
    Error,
    api::{Event, FinishReason, PromptToken, RequestHandle, Stats, Token},
};

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// The callback was dropped: no more events come.
    closed: bool,
    waker: Option<Waker>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let waker = {
            let mut state = self.lock();
            change(&mut state);
            state.waker.take()
        };
        self.changed.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Closes the queue when the callback is dropped.
struct Sender(Arc<Queue>);

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.change(|state| state.closed = true);
    }
}

/// The reading end of a request's events.
pub(crate) struct Receiver(Arc<Queue>);

/// A callback for a request, and the events that it receives.
pub(crate) fn channel() -> (impl FnMut(Event) -> ControlFlow<()> + Send + 'static, Receiver) {
    let queue = Arc::new(Queue::default());
    let sender = Sender(Arc::clone(&queue));
    let sink = move |event| {
        sender.0.change(|state| state.events.push_back(event));
        ControlFlow::Continue(())
    };
    (sink, Receiver(queue))
}

impl Receiver {
    /// The next event, for which the caller steps the model; `None` after the last.
    #[cfg(target_family = "wasm")]
    fn recv(&self, model: &dyn KeepAlive) -> Option<Event> {
        loop {
            {
                let mut state = self.0.lock();
                if state.closed || !state.events.is_empty() {
                    return state.events.pop_front();
                }
            }
            model.step();
        }
    }

    /// Waits for the next event; `None` after the last.
    #[cfg(not(target_family = "wasm"))]
    fn recv(&self, _: &dyn KeepAlive) -> Option<Event> {
        let mut state = self.0.lock();
        loop {
            match state.events.pop_front() {
                None if !state.closed => {
                    state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                event => return event,
            }
        }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.0.lock();
        match state.events.pop_front() {
            None if !state.closed => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
            event => Poll::Ready(event),
        }
    }
}

/// The parts of both kinds of streams.
struct Inner {
    events: Receiver,
    handle: RequestHandle,
    prompt: Vec<PromptToken>,
    reason: Option<FinishReason>,
    ended: bool,
    /// Keeps the model loaded, and knows its thread.
    model: Arc<dyn KeepAlive>,
}

/// The model behind a stream.
pub(crate) trait KeepAlive: Send + Sync {
    /// Whether the calling thread is the one that runs the model.
    fn is_own_thread(&self) -> bool;

    /// Takes a step of the model, where no thread does.
    #[cfg(target_family = "wasm")]
    fn step(&self);
}

impl Inner {
    /// The item that an event gives the caller: [`Poll::Pending`] if it is nothing,
    /// and another follows.
    fn item(&mut self, event: Option<Event>) -> Poll<Option<Result<Token, Error>>> {
        Poll::Ready(match event {
            Some(Event::Prompt(tokens)) => {
                self.prompt = tokens;
                return Poll::Pending;
            }
            Some(Event::Token(token)) => Some(Ok(token)),
            Some(Event::Finished { reason, .. }) => {
                (self.reason, self.ended) = (Some(reason), true);
                None
            }
            Some(Event::Failed(error)) => {
                self.ended = true;
                Some(Err(error))
            }
            None => {
                self.ended = true;
                Some(Err(Error::Stopped))
            }
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.handle.cancel();
    }
}

/// The tokens of one request as an iterator that waits for each.
///
/// It ends after the last token; then [`finish_reason`](Self::finish_reason) says why. Dropping it
/// cancels the request.
pub struct TokenStream(Inner);

impl TokenStream {
    pub(crate) fn new(events: Receiver, handle: RequestHandle, model: Arc<dyn KeepAlive>) -> Self {
        let prompt = Vec::new();
        Self(Inner { events, handle, prompt, reason: None, ended: false, model })
    }

    /// Why the text ended; `None` while it has not.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.0.reason
    }

    /// The tokens of the prompt with their log-probabilities, if the request
    /// [asks](crate::GenerateOptions::prompt_logprobs) for those. They are there with the first
    /// token, or with the end.
    pub fn prompt(&self) -> &[PromptToken] {
        &self.0.prompt
    }

    /// The sizes and times of the request, up to the token that was generated last.
    pub fn stats(&self) -> Stats {
        self.0.handle.stats()
    }

    /// The request's handle, for another thread.
    pub fn handle(&self) -> &RequestHandle {
        &self.0.handle
    }

    /// As [`prompt`](Self::prompt), at the end.
    pub(crate) fn into_prompt(mut self) -> Vec<PromptToken> {
        std::mem::take(&mut self.0.prompt)
    }

    /// Waits for all tokens that are left, and returns their text.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub fn text(&mut self) -> Result<String, Error> {
        let mut text = String::new();
        for token in self {
            text.push_str(&token?.text);
        }
        Ok(text)
    }
}

impl Iterator for TokenStream {
    type Item = Result<Token, Error>;

    /// Waits for the next token.
    fn next(&mut self) -> Option<Self::Item> {
        let inner = &mut self.0;
        if inner.ended {
            return None;
        }
        if inner.model.is_own_thread() {
            inner.ended = true;
            return Some(Err(Error::OwnThread));
        }
        loop {
            let event = inner.events.recv(&*inner.model);
            if let Poll::Ready(item) = inner.item(event) {
                return item;
            }
        }
    }
}

impl fmt::Debug for TokenStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenStream").field(&self.0.handle).finish()
    }
}

/// The tokens of one request as an asynchronous stream, for any executor.
///
/// It ends after the last token; then [`finish_reason`](Self::finish_reason) says why. Dropping it
/// cancels the request.
pub struct AsyncTokenStream(Inner);

impl AsyncTokenStream {
    pub(crate) fn new(stream: TokenStream) -> Self {
        Self(stream.0)
    }

    /// Why the text ended; `None` while it has not.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.0.reason
    }

    /// The tokens of the prompt with their log-probabilities, if the request
    /// [asks](crate::GenerateOptions::prompt_logprobs) for those. They are there with the first
    /// token, or with the end.
    pub fn prompt(&self) -> &[PromptToken] {
        &self.0.prompt
    }

    /// The sizes and times of the request, up to the token that was generated last.
    pub fn stats(&self) -> Stats {
        self.0.handle.stats()
    }

    /// The request's handle, for another thread.
    pub fn handle(&self) -> &RequestHandle {
        &self.0.handle
    }
}

impl Stream for AsyncTokenStream {
    type Item = Result<Token, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let inner = &mut self.get_mut().0;
        if inner.ended {
            return Poll::Ready(None);
        }
        loop {
            let event = ready!(inner.events.poll(context));
            if let Poll::Ready(item) = inner.item(event) {
                return Poll::Ready(item);
            }
        }
    }
}

impl fmt::Debug for AsyncTokenStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncTokenStream").field(&self.0.handle).finish()
    }
}
