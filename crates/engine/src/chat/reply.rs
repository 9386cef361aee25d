//! From the tokens of an answer to its parts.

use std::sync::Arc;

use pelton_chat::{Event, Parser};
use pelton_tokenizer::{TokenType, Tokenizer};

use crate::api::{FinishReason, Stats, Token};

/// A streaming parser of the tokens of one answer.
///
/// Malformed calls become content; nothing is an error.
#[derive(Debug)]
pub struct ReplyParser {
    tokenizer: Arc<Tokenizer>,
    parser: Parser,
    /// Tokens so far, up to the one that completes the answer.
    tokens: usize,
    reasoning_tokens: usize,
}

impl ReplyParser {
    pub(super) fn new(tokenizer: Arc<Tokenizer>, parser: Parser) -> Self {
        Self { tokenizer, parser, tokens: 0, reasoning_tokens: 0 }
    }

    /// Parses the next token.
    pub fn push(&mut self, token: &Token) -> Vec<Event> {
        self.tokens += usize::from(!self.is_done());
        let mut events = self.parser.push(&token.text);
        if self.tokenizer.token_type(token.id) == Some(TokenType::Control)
            && let Some(text) = self.tokenizer.token_text(token.id)
        {
            events.extend(match self.tokenizer.is_end(token.id) {
                true => self.parser.push_end(text),
                false => self.parser.push_control(text),
            });
        }
        self.reasoning_tokens += usize::from(self.parser.is_reasoning());
        events
    }

    /// Parses the end of the answer: a call is complete only if the model has ended it. The parser
    /// is not used after it.
    pub fn finish(&mut self, reason: FinishReason) -> Vec<Event> {
        match self.reason(reason) {
            FinishReason::End => self.parser.finish(),
            _ => self.parser.cut(),
        }
    }

    /// Whether the answer is complete before its request ends: it has the one tool call that it may
    /// have. The request is to be cancelled then.
    pub fn is_done(&self) -> bool {
        self.parser.is_done()
    }

    /// Why the answer ends, where its request ends for a reason.
    pub fn reason(&self, reason: FinishReason) -> FinishReason {
        if self.is_done() { FinishReason::End } else { reason }
    }

    /// The sizes of the request, without the generated tokens after the one call that the answer
    /// may have: a model may have computed more before its request was cancelled.
    pub fn stats(&self, mut stats: Stats) -> Stats {
        if self.is_done() {
            stats.generated_tokens = self.tokens;
        }
        stats
    }

    /// Tokens so far after which the answer was within reasoning.
    pub fn reasoning_tokens(&self) -> usize {
        self.reasoning_tokens
    }

    /// Whether the answer so far ends within reasoning.
    pub fn is_reasoning(&self) -> bool {
        self.parser.is_reasoning()
    }
}
