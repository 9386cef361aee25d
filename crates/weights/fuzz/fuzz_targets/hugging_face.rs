//! Opens arbitrary bytes as the files of a Hugging Face directory and reads all of it.
//!
//! `tests/common/folder_case.rs` describes the input. Run in `crates/weights`:
//!
//! ```text
//! cargo +nightly fuzz run hugging_face fuzz/corpus/hugging_face fuzz/seeds/hugging_face
//! ```

#![no_main]

#[path = "../../tests/common/folder_case.rs"]
mod folder_case;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    folder_case::read_case(bytes);
});
