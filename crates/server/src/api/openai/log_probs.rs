//! Log-probabilities in the shapes of completions and of chats.

use pelton::{TokenLogprob, Tokenizer};
use serde_json::{Map, Value, json};

use crate::generate::LogToken;

/// The text of a token; bytes that are no text are written as OpenAI does.
pub(super) fn text(tokenizer: &Tokenizer, id: u32) -> String {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            format!("bytes:{escaped}")
        }
    }
}

/// JSON has no infinity: the least number stands for it.
fn number(log_prob: f32) -> Value {
    f64::from(log_prob).max(-9999.0).into()
}

/// The `logprobs` of a completion.
#[derive(Clone, Debug, Default)]
pub(super) struct TextLogProbs {
    tokens: Vec<String>,
    log_probs: Vec<Value>,
    top: Vec<Value>,
    offsets: Vec<usize>,
    /// Characters so far.
    at: usize,
}

impl TextLogProbs {
    /// Adds a token with its log-probability and the likeliest ones.
    pub(super) fn add(
        &mut self,
        tokenizer: &Tokenizer,
        id: u32,
        log_prob: Option<f32>,
        likeliest: &[TokenLogprob],
    ) {
        let own = text(tokenizer, id);
        self.offsets.push(self.at);
        self.at += own.chars().count();
        match log_prob {
            None => {
                self.log_probs.push(Value::Null);
                self.top.push(Value::Null);
            }
            Some(log_prob) => {
                self.log_probs.push(number(log_prob));
                let mut top = Map::new();
                for one in likeliest {
                    top.entry(text(tokenizer, one.id)).or_insert_with(|| number(one.logprob));
                }
                top.entry(own.clone()).or_insert_with(|| number(log_prob));
                self.top.push(Value::Object(top));
            }
        }
        self.tokens.push(own);
    }

    /// The log-probabilities since the last call.
    pub(super) fn take(&mut self) -> Value {
        let next = Self { at: self.at, ..Self::default() };
        let all = std::mem::replace(self, next);
        json!({
            "tokens": all.tokens, "token_logprobs": all.log_probs, "top_logprobs": all.top,
            "text_offset": all.offsets,
        })
    }
}

/// An entry of llama.cpp's `completion_probabilities`: that of a chat, with ids.
pub(in crate::api) fn llama_cpp(tokenizer: &Tokenizer, token: &LogToken) -> Value {
    let mut entry = chat(tokenizer, token);
    entry["id"] = token.id.into();
    for (i, top) in token.top.iter().enumerate() {
        entry["top_logprobs"][i]["id"] = top.id.into();
    }
    entry
}

/// An entry of the `logprobs` of a chat, in the APIs of OpenAI and of Ollama.
pub(in crate::api) fn chat(tokenizer: &Tokenizer, token: &LogToken) -> Value {
    let one = |id: u32, log_prob: f32| {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        json!({"token": text(tokenizer, id), "logprob": number(log_prob), "bytes": bytes})
    };
    let mut entry = one(token.id, token.log_prob);
    entry["top_logprobs"] = token.top.iter().map(|top| one(top.id, top.logprob)).collect();
    entry
}
