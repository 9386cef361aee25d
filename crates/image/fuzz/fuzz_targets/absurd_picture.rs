//! Decodes pictures with legal and absurd headers, which a generator makes of the fuzzer's bytes.
//!
//! ```text
//! cargo +nightly fuzz run -O absurd_picture -- \
//!     -max_len=4000 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=96
//! ```

#![no_main]

#[path = "../../tests/common/absurd.rs"]
#[allow(dead_code, reason = "tests make files of single kinds")]
mod absurd;
#[path = "../../tests/common/exercise.rs"]
mod exercise;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|choices: &[u8]| {
    exercise::exercise(&absurd::file(&mut absurd::Choices(choices)));
});
