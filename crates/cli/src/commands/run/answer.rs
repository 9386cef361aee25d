//! One generated text, as it is printed.

use std::io::Write;

use anyhow::Result;
use pelton::{Error, ErrorKind, FinishReason, Stats, Token, TokenStream, Tokenizer};
use serde_json::{Value, json};

use crate::{
    output::{self, note},
    speculate,
};

/// The least log-probability in JSON, which has no infinity.
const LOG_PROB_MIN: f32 = -9999.0;

/// A generated text with its tokens.
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) tokens: Vec<Token>,
    pub(super) reason: Option<FinishReason>,
    pub(super) stats: Stats,
}

impl Answer {
    /// Waits for all tokens of a stream; each is passed to `visit`.
    pub(super) fn read(
        stream: &mut TokenStream,
        mut visit: impl FnMut(&Token) -> Result<()>,
    ) -> Result<Self> {
        let (mut text, mut tokens) = (String::new(), Vec::new());
        for token in &mut *stream {
            let token = token?;
            visit(&token)?;
            text.push_str(&token.text);
            tokens.push(token);
        }
        Ok(Self { text, tokens, reason: stream.finish_reason(), stats: stream.stats() })
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.reason == Some(FinishReason::Cancelled)
    }

    pub(super) fn reason_name(&self) -> &'static str {
        match self.reason {
            Some(FinishReason::End) => "end",
            Some(FinishReason::Stop) => "stop",
            Some(FinishReason::Length) => "length",
            // nothing but Ctrl-C cancels the request
            Some(_) | None => "interrupted",
        }
    }

    /// All of it as one object; with log-probabilities if the tokens have some.
    pub(super) fn to_json(&self, prompt: &str, tokenizer: Option<&Tokenizer>) -> Value {
        let stats = &self.stats;
        let mut object = json!({
            "prompt": prompt,
            "text": self.text,
            "finish_reason": self.reason_name(),
            "seed": stats.seed,
            "prompt_tokens": stats.prompt_tokens,
            "generated_tokens": stats.generated_tokens,
            "time_to_first_token_ms": stats.time_to_first_token.map(|t| rounded(t.as_secs_f64() * 1e3)),
            "prefill_tokens_per_second": prefill_speed(stats).map(rounded),
            "decode_tokens_per_second": stats.decode_tokens_per_second().map(rounded),
            "drafted_tokens": stats.speculation.drafted,
            "accepted_tokens": stats.speculation.accepted,
            "speculation_gain": stats.speculation.gain(),
        });
        if self.tokens.iter().any(|token| token.logprob.is_some()) {
            let one = |id: u32, log_prob: f32| {
                let log_prob = log_prob.max(LOG_PROB_MIN);
                json!({ "id": id, "text": text_of(tokenizer, id), "log_prob": log_prob })
            };
            let tokens = self.tokens.iter().map(|token| {
                let mut object = one(token.id, token.logprob.unwrap_or(LOG_PROB_MIN));
                object["top"] = token.top.iter().map(|top| one(top.id, top.logprob)).collect();
                object
            });
            object["tokens"] = tokens.collect();
        }
        object
    }

    /// A line for each token with log-probabilities: its text, its own, and the
    /// likeliest tokens with theirs.
    pub(super) fn write_log_probs_if_any(
        &self,
        out: &mut impl Write,
        tokenizer: Option<&Tokenizer>,
    ) -> Result<()> {
        let shown = |id: u32| format!("{:?}", text_of(tokenizer, id));
        for token in &self.tokens {
            let Some(log_prob) = token.logprob else { continue };
            write!(out, "{}\t{log_prob:.4}", shown(token.id))?;
            for top in &token.top {
                write!(out, "\t{} {:.4}", shown(top.id), top.logprob)?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// Writes sizes and speeds to standard error; those of drafts too, if `verbose`.
    pub(super) fn print_stats(&self, context: usize, verbose: bool) {
        let stats = &self.stats;
        let first = match stats.time_to_first_token {
            Some(time) => format!(", first token after {:.0} ms", time.as_secs_f64() * 1e3),
            None => String::new(),
        };
        let seen = match stats.pictures.is_zero() {
            true => String::new(),
            false => format!(", pictures seen in {:.0} ms", stats.pictures.as_secs_f64() * 1e3),
        };
        let full = self.reason == Some(FinishReason::Length)
            && stats.prompt_tokens + stats.generated_tokens >= context;
        let reason = match full {
            true => format!("the context of {context} tokens is full (--context N sets it)"),
            false => self.reason_name().to_owned(),
        };
        let drafts = if verbose { speculate::summary(&stats.speculation) } else { String::new() };
        note!(
            "\n{} prompt tokens{}{seen}{first}; {} tokens{}; {reason}, seed {}{drafts}",
            stats.prompt_tokens,
            output::prompt_rate(stats),
            stats.generated_tokens,
            output::rate(stats),
            stats.seed,
        );
    }
}

/// Whether a request may succeed once others have ended.
pub(super) fn is_busy(error: &Error) -> bool {
    error.kind() == ErrorKind::Busy
}

fn text_of(tokenizer: Option<&Tokenizer>, id: u32) -> String {
    let bytes = tokenizer.and_then(|tokenizer| tokenizer.token_bytes(id)).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// Prompt tokens per second; `None` for a prompt that was not finished.
fn prefill_speed(stats: &Stats) -> Option<f64> {
    stats.time_to_first_token.and_then(|_| stats.prefill_tokens_per_second())
}

/// A measured number with three digits after the point.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
