//! Rows of logits on several threads: a step of many beams takes longer on the host than on a GPU.

use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

/// The most threads: more wait for memory.
const MOST: usize = 8;
/// Logits of a thread at least, which take longer than its start.
const LEAST: usize = 1 << 16;

/// The results of `work` on all items, in their order. Each item has as many logits.
pub(super) fn map<T: Sync, R: Send>(
    items: &[T],
    logits: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let useful = items.len().saturating_mul(logits) / LEAST;
    map_by(items, useful.clamp(1, threads()), work)
}

/// The same by a number of threads, of which the caller's is one.
fn map_by<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (first, others) = items.split_at(items.len().div_ceil(threads).min(items.len()));
    if others.is_empty() {
        return first.iter().map(work).collect();
    }
    let work = &work;
    thread::scope(|scope| {
        let started: Vec<_> = others
            .chunks(first.len())
            .map(|items| scope.spawn(move || items.iter().map(work).collect::<Vec<R>>()))
            .collect();
        let mut all: Vec<R> = first.iter().map(work).collect();
        for thread in started {
            match thread.join() {
                Ok(results) => all.extend(results),
                Err(panic) => resume_unwind(panic),
            }
        }
        all
    })
}

/// Threads to use, asked once: the answer takes longer than a row.
fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from).min(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results are in the order of items, for any number of threads.
    #[test]
    fn results_are_in_order() {
        for count in [0, 1, 2, 7, 30] {
            let items: Vec<usize> = (0..count).collect();
            let expected: Vec<usize> = items.iter().map(|i| i * i).collect();
            for threads in [1, 2, 3, 8, 40] {
                assert_eq!(map_by(&items, threads, |i| i * i), expected);
            }
        }
    }
}
