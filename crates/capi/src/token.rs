//! Tokens as C sees them.

use std::{ffi::c_char, mem};

use pelton::TokenLogprob;

use crate::tokens::PELTON_NO_TOKEN;

/// A token that could have been drawn.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct pelton_logprob {
    /// Its id.
    pub id: u32,
    /// Its natural log-probability.
    pub logprob: f32,
}

/// The next piece of an answer. The caller sets `size`. Texts live until the next call with the
/// stream; a NUL follows them.
#[repr(C)]
pub struct pelton_token {
    /// `sizeof(pelton_token)`, set by the caller.
    pub size: u32,
    /// The token's id; `PELTON_NO_TOKEN` for text that became certain with the end.
    pub id: u32,
    /// The text that is certain since the token was drawn: whole characters, possibly none.
    pub text: *const c_char,
    /// Bytes of the text.
    pub text_length: usize,
    /// In the answer to a conversation: the text of the model's reasoning. `text`
    /// has the answer alone.
    pub reasoning: *const c_char,
    /// Bytes of the reasoning.
    pub reasoning_length: usize,
    /// The natural log-probability; NaN if the request does not ask for it.
    pub logprob: f32,
    /// Elements of `top`.
    pub top_count: u32,
    /// The likeliest tokens, in descending order.
    pub top: *const pelton_logprob,
}

/// The size of the struct's first version.
pub(crate) const FIRST_SIZE: usize = mem::size_of::<pelton_token>();

/// A token with the memory of its texts.
pub(crate) struct Piece {
    pub(crate) id: u32,
    pub(crate) text: String,
    pub(crate) reasoning: String,
    pub(crate) logprob: Option<f32>,
    pub(crate) top: Vec<pelton_logprob>,
}

impl Piece {
    pub(crate) fn end(text: String, reasoning: String) -> Self {
        Self { id: PELTON_NO_TOKEN, text, reasoning, logprob: None, top: Vec::new() }
    }

    /// The likeliest tokens as C sees them.
    pub(crate) fn top(list: &[TokenLogprob]) -> Vec<pelton_logprob> {
        list.iter().map(|one| pelton_logprob { id: one.id, logprob: one.logprob }).collect()
    }

    /// The view of C. It lives as long as the piece is not changed.
    pub(crate) fn view(&mut self) -> pelton_token {
        let lengths = [self.text.len(), self.reasoning.len()];
        self.text.push('\0');
        self.reasoning.push('\0');
        pelton_token {
            size: FIRST_SIZE as u32,
            id: self.id,
            text: self.text.as_ptr().cast(),
            text_length: lengths[0],
            reasoning: self.reasoning.as_ptr().cast(),
            reasoning_length: lengths[1],
            logprob: self.logprob.unwrap_or(f32::NAN),
            top_count: self.top.len() as u32,
            top: self.top.as_ptr(),
        }
    }
}
