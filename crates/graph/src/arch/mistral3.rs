//! Ministral 3, Mistral Small 3.1 and later.

use super::architecture::{Architecture, Temper};
use super::llama::LLAMA;

pub(super) const MISTRAL3: Architecture =
    Architecture { name: "mistral3", temper: Temper::Key, ..LLAMA };
