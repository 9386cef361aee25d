//! Any text as a regular expression.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use pelton_constraint::Constraint;

fuzz_target!(|text: &str| common::follow(&Constraint::Regex(text.to_owned())));
