//! LoRA adapters as PEFT saves them: `adapter_config.json` and `adapter_model.safetensors`.

mod base;
mod factors;
mod pattern;
mod read;
mod settings;

pub(crate) use base::Base;
pub(crate) use read::{Pair, open};
pub(crate) use settings::SETTINGS;
