//! Opens arbitrary bytes as a GGUF file and reads all metadata and tensors.
//!
//! Run in `crates/weights`, with the test files as seed corpus:
//!
//! ```text
//! cargo +nightly fuzz run gguf fuzz/corpus/gguf fuzz/seeds/gguf tests/fixtures/hf
//! ```

#![no_main]

#[path = "../../tests/common/exercise.rs"]
mod exercise;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    exercise::exercise(bytes.to_vec());
});
