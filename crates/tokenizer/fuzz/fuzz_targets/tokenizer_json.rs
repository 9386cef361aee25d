//! Opens arbitrary bytes as the `tokenizer.json` of a directory, encodes a text and decodes its
//! ids.
//!
//! The input is the file, a zero byte, and the text. Run in `crates/tokenizer`:
//!
//! ```text
//! cargo +nightly fuzz run tokenizer_json fuzz/corpus/tokenizer_json fuzz/seeds/tokenizer_json
//! ```

#![no_main]

#[path = "../../tests/common/exercise.rs"]
mod exercise;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    exercise::exercise(bytes);
});
