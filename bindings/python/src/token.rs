//! Tokens as Python sees them.

use pelton::{PromptToken, TokenLogprob};
use pyo3::prelude::*;

/// One token of a text.
#[pyclass(frozen, get_all, module = "pelton")]
pub(crate) struct Token {
    /// Its id.
    pub(crate) id: u32,
    /// The text that is certain since it was drawn: whole characters, or nothing.
    pub(crate) text: String,
    /// Its natural log-probability, if the request asks for those.
    pub(crate) logprob: Option<f32>,
    /// The likeliest tokens, as pairs of an id and a natural log-probability, in descending order.
    pub(crate) top: Vec<(u32, f32)>,
}

fn pairs(top: &[TokenLogprob]) -> Vec<(u32, f32)> {
    top.iter().map(|one| (one.id, one.logprob)).collect()
}

impl From<pelton::Token> for Token {
    fn from(token: pelton::Token) -> Self {
        let top = pairs(&token.top);
        Self { id: token.id, text: token.text, logprob: token.logprob, top }
    }
}

impl Token {
    /// A token of a prompt, with its text.
    pub(crate) fn of_prompt(token: &PromptToken, text: String) -> Self {
        Self { id: token.id, text, logprob: token.logprob, top: pairs(&token.top) }
    }
}

#[pymethods]
impl Token {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        match self.logprob {
            Some(logprob) => format!("Token({}, {:?}, logprob={logprob})", self.id, self.text),
            None => format!("Token({}, {:?})", self.id, self.text),
        }
    }
}
