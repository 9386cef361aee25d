//! The reply to a chat or to a text: content, reasoning and tool calls.

use std::collections::VecDeque;

use pelton::{
    PromptToken, TokenLogprob, Tokenizer,
    chat::{Event, ReplyParser},
};

use super::tokens::{End, TokenRun};
use crate::{error::ApiError, models::Encoded};

/// A token with its log-probabilities.
#[derive(Clone, Debug)]
pub(crate) struct LogToken {
    pub(crate) id: u32,
    pub(crate) log_prob: f32,
    pub(crate) top: Vec<TokenLogprob>,
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

/// A reply as pieces. Dropping it cancels the request.
pub(crate) struct ReplyRun {
    run: TokenRun,
    /// `None` where all is content.
    parser: Option<ReplyParser>,
    pieces: VecDeque<Piece>,
    ended: bool,
    /// Whether a tool call is complete.
    pub(crate) called: bool,
    /// The tokens of the prompt of a chat and of the reply so far; empty for a text.
    pub(crate) tokens: Vec<u32>,
    /// Whether the prompt has pictures, which the tokens do not show.
    pub(crate) has_pictures: bool,
}

impl ReplyRun {
    pub(crate) fn new(run: TokenRun, parser: ReplyParser, prompt: Encoded) -> Self {
        let has_pictures = prompt.pictured.is_some();
        Self { parser: Some(parser), tokens: prompt.tokens, has_pictures, ..Self::text(run) }
    }

    /// The text after a prompt as it is.
    pub(crate) fn text(run: TokenRun) -> Self {
        let (pieces, tokens) = (VecDeque::new(), Vec::new());
        Self { run, parser: None, pieces, ended: false, called: false, tokens, has_pictures: false }
    }

    /// The tokenizer of the model.
    pub(crate) fn tokenizer(&self) -> Result<&Tokenizer, ApiError> {
        self.run.tokenizer()
    }

    /// Tokens of the reasoning so far.
    pub(crate) fn reasoning_tokens(&self) -> usize {
        self.parser.as_ref().map_or(0, ReplyParser::reasoning_tokens)
    }

    /// The sizes and times so far.
    pub(crate) fn stats(&self) -> pelton::Stats {
        let stats = self.run.stats();
        match &self.parser {
            Some(parser) => parser.stats(stats),
            None => stats,
        }
    }

    /// The tokens of the prompt with their log-probabilities, which come with the first piece.
    pub(crate) async fn prompt(&mut self) -> Result<&[PromptToken], ApiError> {
        self.fill().await?;
        Ok(self.run.prompt())
    }

    /// The next piece; `None` after [`Piece::End`].
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>, ApiError> {
        self.fill().await?;
        Ok(self.pieces.pop_front())
    }

    /// Waits for the next piece.
    async fn fill(&mut self) -> Result<(), ApiError> {
        while self.pieces.is_empty() && !self.ended {
            // one call was allowed, and the model would write more
            let is_done = self.parser.as_ref().is_some_and(ReplyParser::is_done);
            let next = if is_done { self.run.stop() } else { self.run.next().await? };
            match next {
                Some(token) => {
                    if self.parser.is_some() {
                        self.tokens.push(token.id);
                    }
                    if let Some(log_prob) = token.logprob {
                        let token = LogToken { id: token.id, log_prob, top: token.top.clone() };
                        self.pieces.push_back(Piece::Token(token));
                    }
                    let events = match &mut self.parser {
                        Some(parser) => parser.push(&token),
                        None if token.text.is_empty() => Vec::new(),
                        None => vec![Event::Content(token.text)],
                    };
                    self.take(events);
                }
                None => {
                    self.ended = true;
                    let reason = self.run.finish_reason();
                    let events = self.parser.as_mut().map(|parser| parser.finish(reason));
                    self.take(events.unwrap_or_default());
                    self.run.called = self.called;
                    let end = self.run.end();
                    let end = End { stats: self.stats(), ..end };
                    self.pieces.push_back(Piece::End(Box::new(end)));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, events: Vec<Event>) {
        for event in events {
            self.called |= matches!(event, Event::ToolCallEnd { .. });
            self.pieces.push_back(Piece::Event(event));
        }
    }
}
