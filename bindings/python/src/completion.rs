//! A generated text with what belongs to it.

use pelton::{FinishReason, Stats, Tokenizer};
use pyo3::prelude::*;

use crate::{request::Finished, token::Token};

/// The word for the reason why a text ended, as OpenAI's APIs have it.
pub(crate) fn reason_word(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::End | FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        _ => "cancelled",
    }
}

/// The sizes and times of a request.
#[pyclass(frozen, get_all, module = "pelton")]
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// Tokens of the prompt.
    prompt_tokens: usize,
    /// Tokens of the prompt that were cached, so that they were not run.
    cached_tokens: usize,
    /// Tokens that were generated, the one that ended the text included.
    completion_tokens: usize,
    /// The seed with which the same request gives the same text again.
    seed: u64,
    /// Seconds from the call to the start of the prompt.
    queue_time: Option<f64>,
    /// Seconds from the call to the first token.
    time_to_first_token: Option<f64>,
    /// Prompt tokens run per second.
    prompt_tokens_per_second: Option<f64>,
    /// Tokens per second after the first.
    tokens_per_second: Option<f64>,
}

impl From<&Stats> for Usage {
    fn from(stats: &Stats) -> Self {
        Self {
            prompt_tokens: stats.prompt_tokens,
            cached_tokens: stats.cached_tokens,
            completion_tokens: stats.generated_tokens,
            seed: stats.seed,
            queue_time: stats.queued.map(|time| time.as_secs_f64()),
            time_to_first_token: stats.time_to_first_token.map(|time| time.as_secs_f64()),
            prompt_tokens_per_second: stats.prefill_tokens_per_second(),
            tokens_per_second: stats.decode_tokens_per_second(),
        }
    }
}

#[pymethods]
impl Usage {
    fn __repr__(&self) -> String {
        let speed = self.tokens_per_second.unwrap_or(0.0);
        format!(
            "Usage(prompt_tokens={}, cached_tokens={}, completion_tokens={}, tokens_per_second={speed:.1})",
            self.prompt_tokens, self.cached_tokens, self.completion_tokens
        )
    }
}

/// A generated text.
#[pyclass(frozen, get_all, module = "pelton")]
pub(crate) struct Completion {
    /// The text after the prompt.
    text: String,
    /// The ids of its tokens.
    tokens: Vec<u32>,
    /// `stop` (the model ended it, or a stop string came), `length` or `cancelled`.
    finish_reason: &'static str,
    /// The sizes and times of the request.
    usage: Usage,
    /// The tokens with their log-probabilities, if the request asks for those.
    logprobs: Option<Vec<Py<Token>>>,
    /// The tokens of the prompt with their log-probabilities, if the request asks for those.
    prompt_logprobs: Option<Vec<Py<Token>>>,
}

impl Completion {
    /// The completion of a finished request.
    pub(crate) fn new(
        py: Python<'_>,
        finished: Finished,
        stats: &Stats,
        tokenizer: Option<&Tokenizer>,
        (logprobs, prompt_logprobs): (bool, bool),
    ) -> PyResult<Self> {
        let text = finished.tokens.iter().map(|token| token.text.as_str()).collect();
        let tokens = finished.tokens.iter().map(|token| token.id).collect();
        let prompt = finished.prompt.iter().map(|token| {
            let text = tokenizer.map(|tokenizer| tokenizer.decode(&[token.id], true));
            Py::new(py, Token::of_prompt(token, text.unwrap_or_default()))
        });
        let prompt: Option<PyResult<_>> = prompt_logprobs.then(|| prompt.collect());
        let generated = finished.tokens.into_iter().map(|token| Py::new(py, Token::from(token)));
        let generated: Option<PyResult<_>> = logprobs.then(|| generated.collect());
        Ok(Self {
            text,
            tokens,
            finish_reason: finished.reason.map_or("cancelled", reason_word),
            usage: stats.into(),
            logprobs: generated.transpose()?,
            prompt_logprobs: prompt.transpose()?,
        })
    }
}

#[pymethods]
impl Completion {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        let (text, reason) = (&self.text, self.finish_reason);
        format!("Completion({text:?}, finish_reason={reason:?}, tokens={})", self.tokens.len())
    }
}
