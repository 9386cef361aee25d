//! Log-probabilities in the shapes of completions and of chats.

use pelton::Tokenizer;
use serde_json::{Map, Value, json};

use crate::run::{LogToken, Scored};

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
    /// Continues after some characters.
    pub(super) fn from(at: usize) -> Self {
        Self { at, ..Self::default() }
    }

    pub(super) fn add(&mut self, tokenizer: &Tokenizer, token: &Scored) {
        let own = text(tokenizer, token.id);
        self.offsets.push(self.at);
        self.at += own.chars().count();
        match token.log_prob {
            None => {
                self.log_probs.push(Value::Null);
                self.top.push(Value::Null);
            }
            Some(log_prob) => {
                self.log_probs.push(number(log_prob));
                let mut top = Map::new();
                for &(id, log_prob) in &token.top {
                    top.entry(text(tokenizer, id)).or_insert_with(|| number(log_prob));
                }
                top.entry(own.clone()).or_insert_with(|| number(log_prob));
                self.top.push(Value::Object(top));
            }
        }
        self.tokens.push(own);
    }

    /// Characters so far.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn json(self) -> Value {
        json!({
            "tokens": self.tokens, "token_logprobs": self.log_probs, "top_logprobs": self.top,
            "text_offset": self.offsets,
        })
    }
}

/// An entry of llama.cpp's `completion_probabilities`: that of a chat, with ids.
pub(in crate::api) fn native(tokenizer: &Tokenizer, token: &LogToken) -> Value {
    let mut entry = chat(tokenizer, token);
    entry["id"] = token.id.into();
    for (i, (id, _)) in token.top.iter().enumerate() {
        entry["top_logprobs"][i]["id"] = (*id).into();
    }
    entry
}

/// An entry of the `logprobs` of a chat.
pub(super) fn chat(tokenizer: &Tokenizer, token: &LogToken) -> Value {
    let one = |id: u32, log_prob: f32| {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        json!({"token": text(tokenizer, id), "logprob": number(log_prob), "bytes": bytes})
    };
    let mut entry = one(token.id, token.log_prob);
    entry["top_logprobs"] = token.top.iter().map(|&(id, log_prob)| one(id, log_prob)).collect();
    entry
}
