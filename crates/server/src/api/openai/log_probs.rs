//! Log-probabilities in the shapes of completions and of chats.

use std::mem::take;

use pelton::{
    PromptToken, TokenLogprob, Tokenizer,
    tokenizer::{DecodeState, TokenType},
};
use serde_json::{Map, Value, json};

use crate::generate::LogToken;

/// The text of a token; bytes that are no text are written as OpenAI does.
pub(in crate::api) fn text(tokenizer: &Tokenizer, id: u32) -> String {
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
pub(in crate::api) fn number(log_prob: f32) -> Value {
    f64::from(log_prob).max(-9999.0).into()
}

/// The `logprobs` of a completion. An offset is the number of characters of the returned text
/// before the token. A token that goes on with a character has that character's, as in tiktoken's
/// `decode_with_offsets`.
#[derive(Clone, Debug)]
pub(super) struct TextLogProbs {
    tokens: Vec<String>,
    log_probs: Vec<Value>,
    top: Vec<Value>,
    offsets: Vec<usize>,
    /// Complete characters so far, and the bytes after them.
    at: usize,
    text: DecodeState,
}

impl TextLogProbs {
    pub(super) fn new() -> Self {
        let (tokens, log_probs, top, offsets) = Default::default();
        Self { tokens, log_probs, top, offsets, at: 0, text: DecodeState::continuing(false) }
    }

    /// Adds the tokens of a prompt, whose text is returned.
    pub(super) fn add_prompt(
        &mut self,
        tokenizer: &Tokenizer,
        prompt: &[PromptToken],
        returned: &str,
    ) {
        let (mut rest, mut text) = (returned.chars(), DecodeState::new(false));
        for token in prompt {
            self.push(tokenizer, token.id, token.logprob, &token.top);
            let mut piece = text.push(tokenizer, token.id);
            // one that was added to the text, such as BOS, is not in it
            if tokenizer.token_type(token.id) == Some(TokenType::Control)
                && let Some(control) = tokenizer.token_text(token.id)
                && rest.as_str().starts_with(control)
            {
                piece.push_str(control);
            }
            self.at += rest.by_ref().take(piece.chars().count()).count();
        }
        self.at += rest.count();
    }

    /// Adds a generated token with its log-probability and the likeliest ones.
    pub(super) fn add(&mut self, tokenizer: &Tokenizer, token: &LogToken) {
        self.push(tokenizer, token.id, Some(token.log_prob), &token.top);
        self.at += self.text.push(tokenizer, token.id).chars().count();
    }

    fn push(
        &mut self,
        tokenizer: &Tokenizer,
        id: u32,
        log_prob: Option<f32>,
        likeliest: &[TokenLogprob],
    ) {
        let own = text(tokenizer, id);
        self.offsets.push(self.at);
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
        json!({
            "tokens": take(&mut self.tokens), "token_logprobs": take(&mut self.log_probs),
            "top_logprobs": take(&mut self.top), "text_offset": take(&mut self.offsets),
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
