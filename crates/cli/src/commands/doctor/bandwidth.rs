//! The rate at which the CPU reads memory.

use std::{
    hint::black_box,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

/// Bytes that all threads read together: more than caches hold.
const BYTES: u64 = 1 << 30;
/// The least bytes of a measurement.
const LEAST: u64 = 64 << 20;
/// The share of the free memory that the measurement takes.
const SHARE: u64 = 4;
/// The time of the measurement.
const TIME: Duration = Duration::from_millis(700);
/// Words between two looks at the clock.
const BLOCK: usize = 1 << 18;

/// Bytes a second that `threads` threads read together, each from memory of its own; `None` where too
/// little of it is `available`.
pub(super) fn measured(threads: usize, available: Option<u64>) -> Option<f64> {
    let bytes = available.map_or(BYTES, |available| available / SHARE).min(BYTES);
    if bytes < LEAST {
        return None;
    }
    let words = usize::try_from(bytes / 8).ok()? / threads.max(1);
    let ready = Barrier::new(threads);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(|| rate(words, &ready))).collect();
        readers.into_iter().map(|reader| reader.join().ok()).sum()
    })
}

/// Bytes a second that the calling thread reads, once all threads are `ready`.
fn rate(words: usize, ready: &Barrier) -> f64 {
    // other values than zero, so that each page is memory of its own
    let memory = vec![1_u64; words];
    ready.wait();
    let begun = Instant::now();
    let mut read = 0;
    while begun.elapsed() < TIME && words > 0 {
        for block in memory.chunks(BLOCK) {
            black_box(block.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
            read += size_of_val(block);
            if begun.elapsed() >= TIME {
                break;
            }
        }
    }
    read as f64 / begun.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_is_left_alone() {
        assert_eq!(measured(2, Some(LEAST)), None);
        // slower than any machine: a disk reads so
        assert!(measured(1, Some(LEAST * SHARE)).unwrap() > 1e7);
    }
}
