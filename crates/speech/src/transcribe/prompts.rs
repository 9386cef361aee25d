//! The text so far, as the prompt of the next window.

use crate::text::last;
use crate::vocabulary::Vocabulary;

use super::options::TranscribeOptions;

/// All tokens of a file so far, and the part that is a prompt.
#[derive(Clone, Debug)]
pub(super) struct History {
    tokens: Vec<u32>,
    /// The number of tokens of the initial prompt.
    initial: usize,
    /// Index of the first token that later windows get to know.
    reset: usize,
    carries: bool,
    /// Tokens of a prompt besides those of the initial one.
    room: isize,
}

impl History {
    /// The history before the first window, for a model of `context` tokens.
    pub(super) fn new(
        vocabulary: &Vocabulary,
        options: &TranscribeOptions,
        context: usize,
    ) -> Self {
        let tokens = match &options.initial_prompt {
            Some(prompt) => vocabulary.prompt(prompt),
            None => Vec::new(),
        };
        let initial = tokens.len();
        let room = (context / 2) as isize - 1 - initial as isize;
        Self { tokens, initial, reset: 0, carries: options.carry_initial_prompt, room }
    }

    /// The prompt of the next window.
    pub(super) fn prompt(&self) -> Vec<u32> {
        let from = |start: usize| &self.tokens[start.min(self.tokens.len())..];
        match self.carries {
            true => {
                let recent = last(from(self.initial.max(self.reset)), self.room);
                [&self.tokens[..self.initial], recent].concat()
            }
            false => from(self.reset).to_vec(),
        }
    }

    /// Appends the tokens of a window.
    pub(super) fn extend(&mut self, tokens: &[u32]) {
        self.tokens.extend(tokens);
    }

    /// Makes later windows forget the text so far.
    pub(super) fn forget(&mut self) {
        self.reset = self.tokens.len();
    }

    /// The tokens after the initial prompt.
    pub(super) fn text(&self) -> &[u32] {
        &self.tokens[self.initial..]
    }
}
