//! Identifiers of responses.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Keys that differ by process.
static KEYS: LazyLock<[RandomState; 2]> =
    LazyLock::new(|| [RandomState::new(), RandomState::new()]);
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A new identifier: a prefix and 24 hexadecimal digits.
pub(crate) fn new_id(prefix: &str) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let [first, second] = &*KEYS;
    let (a, b) = (first.hash_one(number), second.hash_one(number));
    format!("{prefix}{a:016x}{:08x}", b >> 32)
}

#[cfg(test)]
mod tests {
    #[test]
    fn identifiers_differ() {
        let all: std::collections::BTreeSet<_> = (0..1000).map(|_| super::new_id("x-")).collect();
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|id| id.len() == 26));
    }
}
