//! Any text as a grammar in GBNF.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use pelton_constraint::Constraint;

fuzz_target!(|text: &str| common::follow(&Constraint::Gbnf(text.to_owned())));
