//! Log-probabilities of given texts.

use pelton::{GenerateOptions, LogitRows, Prompt};
use pyo3::prelude::*;

use crate::{
    array::Array,
    error::Failure,
    inbox::Wakes,
    request::{Finished, Request, run_all},
    wait::until,
};

/// A context and its continuation, as ids.
pub(crate) struct Pair {
    pub(crate) tokens: Vec<u32>,
    /// The first token of the continuation.
    pub(crate) start: usize,
}

impl Pair {
    /// The ids of two prompts. Texts are encoded as one, and divided where the context's own tokens
    /// end; spaces at the end of the context belong to the continuation. (These are the rules of
    /// lm-evaluation-harness.)
    pub(crate) fn new(
        model: &pelton::Model,
        context: Prompt,
        continuation: Prompt,
    ) -> Result<Self, Failure> {
        match (context, continuation) {
            (Prompt::Text(context), Prompt::Text(continuation)) => {
                let tokenizer = model.tokenizer()?;
                let encode = |text: &str| {
                    tokenizer
                        .encode_prompt(text)
                        .map_err(|error| Failure::from(pelton::Error::from(error)))
                };
                let whole = encode(&format!("{context}{continuation}"))?;
                let start = encode(context.trim_end_matches(' '))?.len();
                Ok(Self { tokens: whole, start })
            }
            (Prompt::Tokens(mut tokens), Prompt::Tokens(continuation)) => {
                let start = tokens.len();
                tokens.extend(continuation);
                Ok(Self { tokens, start })
            }
            _ => Err(Failure::input(
                "one of context and continuation is a text and the other ids, expected two of a kind",
            )),
        }
    }

    fn check(&self) -> Result<(), Failure> {
        match (self.start, self.tokens.len().saturating_sub(self.start)) {
            (0, _) => Err(Failure::input(
                "the context has no token, expected one at least: nothing precedes the continuation",
            )),
            (_, 0) => Err(Failure::input("the continuation has no token, expected one at least")),
            _ => Ok(()),
        }
    }

    /// The sum of the continuation's log-probabilities, and whether each of its
    /// tokens is the likeliest.
    fn score(&self, finished: &Finished) -> Result<(f64, bool), Failure> {
        let tokens = finished.prompt.get(self.start..).unwrap_or_default();
        let sum = tokens.iter().map(|token| token.logprob.map(f64::from)).sum::<Option<f64>>();
        let is_greedy =
            tokens.iter().all(|token| token.top.first().is_some_and(|top| top.id == token.id));
        match sum {
            Some(sum) if !tokens.is_empty() => Ok((sum, is_greedy)),
            _ => Err(Failure::internal("a token of the prompt has no log-probability")),
        }
    }
}

/// The scores of pairs, in their order.
pub(crate) fn score(
    py: Python<'_>,
    model: &pelton::Model,
    pairs: &[Pair],
) -> PyResult<Vec<(f64, bool)>> {
    pairs.iter().try_for_each(Pair::check).map_err(|failure| failure.raise(py))?;
    run_all(
        py,
        pairs.len(),
        |i| {
            let options = GenerateOptions::default().max_tokens(0).prompt_logprobs(1);
            let prompt = Prompt::Tokens(pairs[i].tokens.clone());
            Ok(Request::submit(model, prompt, options, Wakes::Last))
        },
        |i, _, finished| pairs[i].score(&finished).map_err(|failure| failure.raise(py)),
    )
}

/// The logits `[tokens, vocab]` after each token, or `[vocab]` after the last.
pub(crate) fn logits(
    py: Python<'_>,
    model: &pelton::Model,
    prompt: Prompt,
    rows: LogitRows,
) -> PyResult<Array> {
    let tokens = match &prompt {
        Prompt::Tokens(tokens) => tokens.len(),
        Prompt::Text(text) => {
            let ids = model.tokenizer().map(|tokenizer| tokenizer.encode_prompt(text));
            match ids.map_err(Failure::from) {
                Ok(Ok(ids)) => ids.len(),
                Ok(Err(error)) => return Err(Failure::from(pelton::Error::from(error)).raise(py)),
                Err(failure) => return Err(failure.raise(py)),
            }
        }
        _ => 1,
    };
    let (sender, receiver) = std::sync::mpsc::channel();
    let done = move |values| {
        // the caller may have been interrupted
        let _ = sender.send(values);
    };
    let submitted = model.submit_logits(prompt, rows, done);
    let handle = submitted.map_err(|error| Failure::from(error).raise(py))?;
    let waited = until(py, move |tick| match receiver.recv_timeout(tick) {
        Ok(outcome) => Some(outcome),
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => None,
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Some(Err(pelton::Error::Stopped)),
    });
    let values = match waited {
        Ok(outcome) => outcome.map_err(|error| Failure::from(error).raise(py))?,
        Err(interrupt) => {
            handle.cancel();
            return Err(interrupt);
        }
    };
    Ok(match rows {
        LogitRows::Each => {
            let width = values.len() / tokens.max(1);
            Array::new(values, width, true)
        }
        _ => {
            let width = values.len();
            Array::new(values, width, false)
        }
    })
}
