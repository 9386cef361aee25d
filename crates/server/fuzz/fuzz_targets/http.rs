//! Requests to a server in this process: each gets a response in time, with a documented status.
//!
//! `tests/common/case.rs` describes the input, `mutate.rs` how it changes. Run in `crates/server`:
//!
//! ```text
//! cargo +nightly fuzz run http fuzz/corpus/http fuzz/seeds/http -- -detect_leaks=0
//! ```

#![no_main]

#[path = "../../tests/common/case.rs"]
mod case;
mod mutate;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use case::Subject;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use mutate::Mutator;

/// The server, and what its OpenAPI document says.
struct Fuzz {
    subject: Subject,
    mutator: Mutator,
}

fn fuzz() -> MutexGuard<'static, Fuzz> {
    static FUZZ: OnceLock<Mutex<Fuzz>> = OnceLock::new();
    let start = || {
        let mut subject = Subject::start().expect("a server");
        let document = subject.exercise(b"GET /openapi.json\n\n").expect("a document");
        let document = serde_json::from_slice(&document.body).expect("JSON");
        Mutex::new(Fuzz { subject, mutator: Mutator::new(&document) })
    };
    FUZZ.get_or_init(start).lock().unwrap_or_else(PoisonError::into_inner)
}

fuzz_target!(|bytes: &[u8]| {
    let _ = fuzz().subject.exercise(bytes);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut rng = fastrand::Rng::with_seed(u64::from(seed));
    // bytes of any kind, sometimes
    if rng.u32(..8) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let changed = fuzz().mutator.mutate(&data[..size], &mut rng);
    if changed.len() > max_size {
        return fuzzer_mutate(data, size, max_size);
    }
    data[..changed.len()].copy_from_slice(&changed);
    changed.len()
});
