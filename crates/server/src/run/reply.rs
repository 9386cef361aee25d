//! The reply to a chat: content, reasoning and tool calls.

use std::collections::VecDeque;

use pelton::chat::{Event, ReplyParser};

use super::tokens::{End, TokenRun};
use crate::error::ApiError;

/// A token with its log-probabilities.
#[derive(Clone, Debug)]
pub(crate) struct LogToken {
    pub(crate) id: u32,
    pub(crate) log_prob: f32,
    pub(crate) top: Vec<(u32, f32)>,
}

/// The next piece of a reply.
#[derive(Debug)]
pub(crate) enum Piece {
    Event(Event),
    /// The log-probabilities of a token of the events that follow.
    Token(LogToken),
    /// The last piece.
    End(Box<End>),
}

/// The reply to a chat as pieces. Dropping it cancels the request.
pub(crate) struct ReplyRun {
    run: TokenRun,
    parser: ReplyParser,
    pieces: VecDeque<Piece>,
    ended: bool,
    /// Whether a complete tool call was sent.
    pub(crate) called: bool,
    /// The tokens of the prompt and of the reply so far.
    pub(crate) tokens: Vec<u32>,
}

impl ReplyRun {
    pub(crate) fn new(run: TokenRun, parser: ReplyParser, tokens: Vec<u32>) -> Self {
        Self { run, parser, pieces: VecDeque::new(), ended: false, called: false, tokens }
    }

    /// Tokens of the reasoning so far.
    pub(crate) fn reasoning_tokens(&self) -> usize {
        self.parser.reasoning_tokens()
    }

    /// The sizes and times so far.
    pub(crate) fn stats(&self) -> pelton::Stats {
        self.run.stats()
    }

    /// The next piece; `None` after [`Piece::End`].
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, ApiError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            if self.ended {
                return Ok(None);
            }
            match self.run.next().await? {
                Some(token) => {
                    self.tokens.push(token.id);
                    if let Some(log_prob) = token.log_prob {
                        let token = LogToken { id: token.id, log_prob, top: token.top.clone() };
                        self.pieces.push_back(Piece::Token(token));
                    }
                    let events = self.parser.push(&token);
                    self.take(events);
                }
                None => {
                    self.ended = true;
                    let events = self.parser.finish();
                    self.take(events);
                    self.run.called = self.called;
                    let end = self.run.end();
                    self.pieces.push_back(Piece::End(Box::new(end)));
                }
            }
        }
    }

    fn take(&mut self, events: Vec<Event>) {
        for event in events {
            self.called |= matches!(event, Event::ToolCallEnd { .. });
            self.pieces.push_back(Piece::Event(event));
        }
    }
}
