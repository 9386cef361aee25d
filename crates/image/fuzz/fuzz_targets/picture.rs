//! Decodes arbitrary bytes as a picture, resizes and prepares it.
//!
//! Run in `crates/image`, with the seeds and the test files as seed corpus:
//!
//! ```text
//! cargo +nightly fuzz run -O picture fuzz/corpus/picture fuzz/seeds/picture \
//!     tests/fixtures/pictures -- \
//!     -max_len=20000 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=96
//! ```

#![no_main]

#[path = "../../tests/common/exercise.rs"]
mod exercise;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    exercise::exercise(bytes);
});
