//! Any text as a chat template, with conversations of each kind.
//!
//! Run in `crates/chat`:
//!
//! ```text
//! cargo +nightly fuzz run template fuzz/corpus/template fuzz/seeds/template
//! ```

#![no_main]

#[path = "../../tests/common/exercise.rs"]
mod exercise;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    exercise::exercise(source);
});
