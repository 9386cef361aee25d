//! Gives arbitrary bytes to the parsers of names, lists of files, entity tags and journals.
//!
//! Run in `crates/hub`:
//!
//! ```text
//! cargo +nightly fuzz run hub fuzz/corpus/hub fuzz/seeds/hub
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    pelton_hub::untrusted::exercise(bytes);
});
