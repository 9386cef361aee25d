//! The options of an answer.

use pelton::{Constraint, GenerateOptions, Sampling};
use wasm_bindgen::prelude::*;

/// The options of an answer.
#[wasm_bindgen]
#[derive(Clone, Debug)]
pub struct Options {
    /// The most tokens.
    #[wasm_bindgen(js_name = maxTokens)]
    pub max_tokens: usize,
    /// The temperature of draws; 0 takes the likeliest token each time.
    pub temperature: f32,
    /// The effort of generated tokens, above 0 and at most 1.
    pub effort: f64,
    constraint: Option<Constraint>,
}

#[wasm_bindgen]
impl Options {
    /// Greedy answers of at most 256 tokens at effort 1.
    #[must_use]
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self { max_tokens: 256, temperature: 0.0, effort: 1.0, constraint: None }
    }

    /// Lets the text keep to a constraint: a JSON schema, an expression, or a grammar of Lark or
    /// GBNF, by the kinds `json_schema`, `regex`, `lark` and `gbnf`. The model compiles it when the
    /// answer begins.
    ///
    /// # Errors
    ///
    /// If the kind is another one, or the schema is no JSON.
    pub fn constrain(&mut self, kind: &str, source: String) -> Result<(), JsError> {
        self.constraint = Some(match kind {
            "json_schema" => Constraint::JsonSchema(
                serde_json::from_str(&source)
                    .map_err(|error| JsError::new(&format!("the schema is no JSON: {error}")))?,
            ),
            "regex" => Constraint::Regex(source),
            "lark" => Constraint::Lark(source),
            "gbnf" => Constraint::Gbnf(source),
            _ => {
                let found = format!(
                    "the constraint is of the kind '{kind}', expected json_schema, regex, lark or gbnf"
                );
                return Err(JsError::new(&found));
            }
        });
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    pub(crate) fn generate(&self) -> GenerateOptions {
        let sampling = Sampling::default().temperature(self.temperature);
        let mut options = GenerateOptions::default().max_tokens(self.max_tokens).sampling(sampling);
        options.constraint = self.constraint.clone();
        if self.effort < 1.0 { options.effort(self.effort) } else { options }
    }
}
