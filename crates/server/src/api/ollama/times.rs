//! Times and ends in Ollama's words.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use pelton::{FinishReason, Stats};
use serde_json::{Value, json};

/// The time now, as RFC 3339.
pub(super) fn now() -> String {
    Timestamp::now().to_string()
}

/// A time in nanoseconds.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Adds the end of a text to its last line.
pub(super) fn end(line: &mut Value, reason: FinishReason, stats: &Stats, begun: Instant) {
    line["created_at"] = now().into();
    line["done"] = true.into();
    line["done_reason"] = match reason {
        FinishReason::Length => "length",
        _ => "stop",
    }
    .into();
    line["total_duration"] = nanoseconds(begun.elapsed()).into();
    line["load_duration"] = 0.into();
    line["prompt_eval_count"] = stats.prompt_tokens.into();
    line["prompt_eval_duration"] = nanoseconds(stats.prefill).into();
    line["eval_count"] = stats.generated_tokens.into();
    line["eval_duration"] = nanoseconds(stats.decode).into();
}

/// The one line of a request that loads or unloads a model.
pub(super) fn only(model: &str, reason: &str) -> Value {
    json!({"model": model, "created_at": now(), "done": true, "done_reason": reason})
}
