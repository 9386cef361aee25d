//! Decodes arbitrary bytes as an audio file, twice, and computes features of the samples.
//!
//! Run in `crates/audio`, with the seeds and the test files as seed corpus:
//!
//! ```text
//! cargo +nightly fuzz run -O decode fuzz/corpus/decode fuzz/seeds/decode tests/fixtures/containers -- \
//!     -max_len=8000 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=256
//! ```

#![no_main]

#[path = "../../tests/common/exercise.rs"]
mod exercise;

use libfuzzer_sys::fuzz_target;

// A panic of a decoder is caught in the crate, but libFuzzer's hook would end the process before
// that.
fuzz_target!(
    init: exercise::quiet(),
    |bytes: &[u8]| {
        exercise::exercise(bytes);
    }
);
