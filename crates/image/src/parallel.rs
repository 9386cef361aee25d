//! Parts of a result on several threads.

use std::{num::NonZero, thread};

use crate::ImageError;

/// Threads of a result at most: a server has many requests at once.
const THREADS: usize = 4;
/// Values of a result from which threads are worth their start.
const LEAST: usize = 1 << 18;

/// Fills a result of whole units of `unit` values, in parts of neighbouring units. `fill` has the
/// first unit of its part, and the part. A machine without threads fills it at once.
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
    let fill = &fill;
    thread::scope(|scope| {
        let parts = out.chunks_mut(each * unit).enumerate();
        let begun: Vec<_> =
            parts.map(|(i, part)| scope.spawn(move || fill(i * each, part))).collect();
        begun.into_iter().try_for_each(|part| match part.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}
