//! Any JSON as a schema.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use pelton_constraint::Constraint;

fuzz_target!(|text: &str| {
    if let Ok(schema) = serde_json::from_str(text) {
        common::follow(&Constraint::JsonSchema(schema));
    }
});
