//! Parts of a result on several threads.

use std::{
    num::NonZero,
    sync::{Mutex, PoisonError},
    thread,
};

use crate::ImageError;

/// Threads of a result at most: a server has many requests at once.
const THREADS: usize = 4;
/// Values of a result from which threads are worth their start.
const LEAST: usize = 1 << 18;

/// Fills a result of whole units of `unit` values, in parts of neighbouring units. `fill` has the
/// first unit of its part, and the part. The caller's thread takes parts too, so a system that
/// starts no more threads only makes it slower.
///
/// # Errors
///
/// The error of a part.
pub(crate) fn fill<T: Send>(
    out: &mut [T],
    unit: usize,
    fill: impl Fn(usize, &mut [T]) -> Result<(), ImageError> + Sync,
) -> Result<(), ImageError> {
    let threads = match out.len() < LEAST {
        true => 1,
        false => thread::available_parallelism().map_or(1, NonZero::get).min(THREADS),
    };
    let units = out.len().checked_div(unit).unwrap_or(0);
    let each = units.div_ceil(threads).max(1);
    if threads == 1 {
        return fill(0, out);
    }
    let parts = Mutex::new(out.chunks_mut(each * unit).enumerate());
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((part, out)) = next() {
            fill(part * each, out)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let begun: Vec<_> = (1..threads).filter_map(start).collect();
        let own = work();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        begun.into_iter().map(join).fold(own, Result::and)
    })
}
