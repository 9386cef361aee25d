//! Any text as a grammar in Lark's notation.

#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use pelton_constraint::Constraint;

fuzz_target!(|text: &str| common::follow(&Constraint::Lark(text.to_owned())));
