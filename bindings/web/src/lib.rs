//! Pelton in a browser: the built-in model through WebGPU, for a worker of the page.
//!
//! Calls that wait for the GPU are suspended and return promises (JavaScript Promise Integration),
//! so the engine is the same as elsewhere. `worker.js` has the messages between it and the page.

#![cfg(target_family = "wasm")]
#![expect(deprecated, reason = "wasm-bindgen calls its attribute `jspi` experimental by this mark")]

mod options;

use std::cell::Cell;

use js_sys::Function;
use pelton::{
    Device, EffortOptions, EffortTables, Engine, Error, LoadOptions, ModelSource, TokenStream,
    chat::{Event, Message},
};
use wasm_bindgen::prelude::*;

pub use options::Options;

/// The built-in model on the browser's GPU.
#[wasm_bindgen]
pub struct Model {
    model: pelton::Model,
    /// Why there is no effort below 1, if there is none.
    no_effort: Option<String>,
    stopped: Cell<bool>,
}

/// The sizes and times of an answer.
#[wasm_bindgen]
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Tokens of the prompt.
    #[wasm_bindgen(readonly, js_name = promptTokens)]
    pub prompt_tokens: usize,
    /// Tokens that were generated.
    #[wasm_bindgen(readonly)]
    pub tokens: usize,
    /// Seconds from the call to the first token.
    #[wasm_bindgen(readonly, js_name = firstToken)]
    pub first_token: f64,
    /// Seconds from the first token to the last.
    #[wasm_bindgen(readonly)]
    pub decode: f64,
}

impl From<pelton::Stats> for Stats {
    fn from(stats: pelton::Stats) -> Self {
        Self {
            prompt_tokens: stats.prompt_tokens,
            tokens: stats.generated_tokens,
            first_token: stats.time_to_first_token.unwrap_or_default().as_secs_f64(),
            decode: stats.decode.as_secs_f64(),
        }
    }
}

/// Loads the built-in model.
///
/// # Errors
///
/// If the browser has no GPU that fits, or too little of its memory.
#[wasm_bindgen(jspi)]
pub fn load() -> Result<Model, JsError> {
    // the adapter that the browser chose, be it one in software
    let engine = Engine::builder().device(Device::Gpu(Some(0))).build().map_err(error)?;
    let load = |options: LoadOptions| engine.load(ModelSource::BuiltIn, &options);
    let effort = EffortOptions::new(1.0).tables(EffortTables::BuiltIn);
    let (model, no_effort) = match load(LoadOptions::default().effort(effort)) {
        Ok(model) => (model, None),
        Err(reason) => (load(LoadOptions::default()).map_err(error)?, Some(reason.to_string())),
    };
    Ok(Model { model, no_effort, stopped: Cell::new(false) })
}

#[wasm_bindgen]
impl Model {
    /// The model and its device in words.
    #[must_use]
    pub fn summary(&self) -> String {
        self.model.summary().to_string()
    }

    /// Why answers have no effort below 1, if they have none.
    #[must_use]
    #[wasm_bindgen(getter, js_name = noEffort)]
    pub fn no_effort(&self) -> Option<String> {
        self.no_effort.clone()
    }

    /// Answers a conversation; `on_text` is called with each part of the text.
    ///
    /// # Errors
    ///
    /// If there are not as many roles as texts, or the request fails.
    #[wasm_bindgen(jspi)]
    pub fn chat(
        &self,
        roles: Vec<String>,
        texts: Vec<String>,
        options: &Options,
        on_text: &Function,
    ) -> Result<Stats, JsError> {
        if roles.len() != texts.len() {
            let found =
                format!("{} roles and {} texts, expected as many", roles.len(), texts.len());
            return Err(JsError::new(&found));
        }
        let messages: Vec<Message> = roles
            .iter()
            .zip(&texts)
            .map(|(role, text)| Message::new(role, text.as_str()))
            .collect();
        self.stopped.set(false);
        let chat = pelton::chat::Chat::new(messages);
        let mut reply = self.model.chat_with(&chat, options.generate()).map_err(error)?;
        for event in &mut reply {
            if let Event::Content(text) = event.map_err(error)? {
                call(on_text, &text)?;
            }
            if self.stopped.get() {
                break;
            }
        }
        Ok(reply.stats().into())
    }

    /// Continues a text with the likeliest tokens, and returns their ids.
    ///
    /// # Errors
    ///
    /// If the request fails.
    #[wasm_bindgen(jspi)]
    pub fn tokens(&self, prompt: String, options: &Options) -> Result<Vec<u32>, JsError> {
        let stream: TokenStream = self.model.generate(prompt, options.generate()).map_err(error)?;
        stream.map(|token| token.map(|token| token.id).map_err(error)).collect()
    }

    /// Ends the answer after its next token.
    pub fn stop(&self) {
        self.stopped.set(true);
    }
}

fn call(on_text: &Function, text: &str) -> Result<(), JsError> {
    match on_text.call1(&JsValue::NULL, &JsValue::from_str(text)) {
        Ok(_) => Ok(()),
        Err(_) => Err(JsError::new("the function for texts has thrown an exception")),
    }
}

fn error(error: Error) -> JsError {
    JsError::new(&error.to_string())
}
