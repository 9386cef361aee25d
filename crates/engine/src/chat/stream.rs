//! The parts of one answer as an iterator.

use std::{collections::VecDeque, fmt};

use pelton_chat::{Event, Message, Reply};

use super::{ids::call_id, reply::ReplyParser};
use crate::{
    Error,
    api::{FinishReason, RequestHandle, Stats, TokenStream},
};

/// The parts of one answer as an iterator that waits for each: see
/// [`Model::chat`](crate::Model::chat). Dropping it cancels the request.
pub struct ChatStream {
    tokens: TokenStream,
    parser: ReplyParser,
    pending: VecDeque<Event>,
    seen: Vec<Event>,
    ended: bool,
}

impl ChatStream {
    pub(crate) fn new(tokens: TokenStream, parser: ReplyParser) -> Self {
        Self { tokens, parser, pending: VecDeque::new(), seen: Vec::new(), ended: false }
    }

    /// Why the answer ended; `None` while it has not.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        match self.parser.is_done() {
            true => Some(FinishReason::End),
            false => self.tokens.finish_reason(),
        }
    }

    /// The sizes and times of the request so far: see [`ReplyParser::stats`].
    pub fn stats(&self) -> Stats {
        self.parser.stats(self.tokens.stats())
    }

    /// The request's handle, for another thread.
    pub fn handle(&self) -> &RequestHandle {
        self.tokens.handle()
    }

    /// Tokens of reasoning so far.
    pub fn reasoning_tokens(&self) -> usize {
        self.parser.reasoning_tokens()
    }

    /// Waits for the parts that are left, and returns all of them, joined.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub fn wait(&mut self) -> Result<Reply, Error> {
        self.by_ref().try_for_each(|event| event.map(drop))?;
        Ok(self.reply())
    }

    /// The parts so far, joined.
    pub fn reply(&self) -> Reply {
        Reply::from_events(self.seen.iter().cloned())
    }

    /// The parts so far as the message that belongs in the next prompt. Its calls have identifiers
    /// that depend on the request's seed.
    pub fn message(&self) -> Message {
        let first = self.stats().seed;
        self.reply().into_message(|index| call_id(first.wrapping_add(index as u64)))
    }
}

impl Iterator for ChatStream {
    type Item = Result<Event, Error>;

    /// Waits for the next part.
    fn next(&mut self) -> Option<Self::Item> {
        while self.pending.is_empty() {
            if self.ended {
                return None;
            }
            match self.tokens.next() {
                Some(Ok(token)) => {
                    self.pending.extend(self.parser.push(&token));
                    if self.parser.is_done() {
                        self.tokens.handle().cancel();
                        self.ended = true;
                    }
                }
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                None => {
                    self.ended = true;
                    let reason = self.tokens.finish_reason().unwrap_or(FinishReason::Cancelled);
                    self.pending.extend(self.parser.finish(reason));
                }
            }
        }
        let event = self.pending.pop_front()?;
        self.seen.push(event.clone());
        Some(Ok(event))
    }
}

impl fmt::Debug for ChatStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ChatStream").field(&self.tokens).finish()
    }
}
