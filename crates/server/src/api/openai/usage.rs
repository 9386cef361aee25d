//! Counts of tokens.

use pelton::{FinishReason, Stats};
use serde_json::{Value, json};

/// Tokens of a response.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::api) struct Count {
    pub(super) prompt: usize,
    pub(super) cached: usize,
    pub(super) generated: usize,
    pub(super) reasoning: usize,
    /// Tokens that were drafted, by a prediction or otherwise, and those that were right.
    pub(super) drafted: usize,
    pub(super) accepted: usize,
}

impl Count {
    /// Adds a text. Texts of the same prompt count it once: `first` is one of them.
    pub(super) fn add(&mut self, stats: &Stats, reasoning: usize, first: bool) {
        if first {
            self.prompt += stats.prompt_tokens;
            self.cached += stats.cached_tokens;
        }
        self.generated += stats.generated_tokens;
        self.reasoning += reasoning;
        self.drafted += stats.speculation.drafted as usize;
        self.accepted += stats.speculation.accepted as usize;
    }

    /// Adds the tokens of other texts.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.prompt += other.prompt;
        self.cached += other.cached;
        self.generated += other.generated;
        self.reasoning += other.reasoning;
        self.drafted += other.drafted;
        self.accepted += other.accepted;
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.generated,
            "total_tokens": self.prompt + self.generated,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {
                "reasoning_tokens": self.reasoning,
                "accepted_prediction_tokens": self.accepted,
                "rejected_prediction_tokens": self.drafted.saturating_sub(self.accepted),
            },
        })
    }
}

/// Times of a text, under llama.cpp's names.
pub(in crate::api) fn timings(stats: &Stats) -> Value {
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    json!({
        "cache_n": stats.cached_tokens,
        "prompt_n": stats.prompt_tokens - stats.cached_tokens.min(stats.prompt_tokens),
        "image_ms": milliseconds(stats.pictures),
        "prompt_ms": milliseconds(stats.prefill),
        "prompt_per_second": stats.prefill_tokens_per_second(),
        "predicted_n": stats.generated_tokens,
        "predicted_ms": milliseconds(stats.decode),
        "predicted_per_second": stats.decode_tokens_per_second(),
        "draft_n": stats.speculation.drafted,
        "draft_n_accepted": stats.speculation.accepted,
    })
}

/// The word for the end of a text.
pub(super) fn finish_reason(reason: FinishReason, called: bool) -> &'static str {
    match reason {
        FinishReason::Length => "length",
        _ if called => "tool_calls",
        _ => "stop",
    }
}

/// Seconds since 1970.
pub(in crate::api) fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}
