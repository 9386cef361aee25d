//! Opens a changed ggml file of Whisper and reads all metadata and tensors.
//!
//! `tests/common/bin_case.rs` describes the input. Run in `crates/weights`:
//!
//! ```text
//! cargo +nightly fuzz run ggml fuzz/corpus/ggml fuzz/seeds/ggml
//! ```

#![no_main]

#[path = "../../tests/common/bin_case.rs"]
mod bin_case;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    bin_case::read_case(bytes);
});
