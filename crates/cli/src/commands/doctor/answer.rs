//! The trial: one token of the built-in model.

use pelton::{Device, Engine, Error, GenerateOptions, LoadOptions, ModelSource, Sampling};
use serde_json::{Value, json};

/// The answer of the built-in model.
pub(super) struct Answer {
    device: Device,
    /// The backend and the text.
    outcome: Result<(String, String), Error>,
}

/// Asks the built-in model for a token.
pub(super) fn of(device: Device) -> Answer {
    Answer { device, outcome: token(device) }
}

fn token(device: Device) -> Result<(String, String), Error> {
    let engine = Engine::builder().device(device).build()?;
    let backend = engine.backend().to_owned();
    let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default().context(64))?;
    let options = GenerateOptions::default().max_tokens(1).sampling(Sampling::greedy());
    let text = model.generate("Once upon a", options)?.text()?;
    Ok((backend, text))
}

impl Answer {
    /// Whether there was one.
    pub(super) fn is_ok(&self) -> bool {
        matches!(&self.outcome, Ok((_, text)) if !text.is_empty())
    }

    /// The last line of the report.
    pub(super) fn sentence(&self) -> String {
        match &self.outcome {
            Ok((backend, text)) if !text.is_empty() => {
                format!("ok: the built-in model answers on {backend}")
            }
            Ok((backend, _)) => format!("failed: the built-in model answers nothing on {backend}"),
            Err(error) if self.device == Device::Cpu => format!("failed: {error}"),
            Err(error) => format!("failed: {error}; --device cpu tries the CPU"),
        }
    }

    pub(super) fn json(&self) -> Value {
        match &self.outcome {
            Ok((backend, text)) => json!({"ok": self.is_ok(), "device": backend, "text": text}),
            Err(error) => json!({"ok": false, "error": error.to_string()}),
        }
    }
}
