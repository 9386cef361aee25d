//! The options of an answer.

use pelton::{GenerateOptions, Sampling};
use wasm_bindgen::prelude::*;

/// The options of an answer.
#[wasm_bindgen]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The most tokens.
    #[wasm_bindgen(js_name = maxTokens)]
    pub max_tokens: usize,
    /// The temperature of draws; 0 takes the likeliest token each time.
    pub temperature: f32,
    /// The effort of generated tokens, above 0 and at most 1.
    pub effort: f64,
}

#[wasm_bindgen]
impl Options {
    /// Greedy answers of at most 256 tokens at effort 1.
    #[must_use]
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self { max_tokens: 256, temperature: 0.0, effort: 1.0 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    pub(crate) fn generate(self) -> Result<GenerateOptions, JsError> {
        let sampling = Sampling::default().temperature(self.temperature);
        let options = GenerateOptions::default().max_tokens(self.max_tokens).sampling(sampling);
        Ok(if self.effort < 1.0 { options.effort(self.effort) } else { options })
    }
}
