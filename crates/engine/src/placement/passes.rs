//! The rates of a device that passes over a model show: of its products and of its attention.

use std::time::Duration;

use pelton_graph::{Profile, Rates};
use pelton_place::{FEW, Work};

use crate::{Error, session::Session};

/// Rows of the prompt that shows what further rows take.
const ROWS: usize = 64;
/// Positions before the pass that shows what keys and values take.
const DEPTH: usize = 512;
/// The context that a measurement needs.
pub(crate) const CONTEXT: usize = DEPTH + ROWS;
/// Passes of a measurement. The fastest of three means counts.
const PASSES: usize = 8;

/// The rates that four passes over a model show: a row, [`FEW`] rows of decoding, a prompt, and a
/// row behind many positions. A device's own rates tell the time of a step, and the most that
/// weights are read at.
pub(crate) fn measure(
    session: &mut Session,
    context: usize,
    of_device: Option<Rates>,
) -> Result<Rates, Error> {
    let depth = DEPTH.min(context.saturating_sub(ROWS));
    let one = fastest(|| session.profile(&[0], PASSES))?;
    let few = fastest(|| session.profile_decode(&[0; FEW], PASSES))?;
    let many = fastest(|| session.profile(&[0; ROWS], PASSES))?;
    session.run(&vec![0; depth])?;
    let deep = fastest(|| session.profile(&[0], PASSES))?;
    let (plan, kv) = (session.plan(), session.kv());
    let decode = |streams, depth| Work::of(plan, streams, depth, kv);
    let (own, behind) = (decode(1, 0), decode(1, depth));
    let device = of_device.unwrap_or_else(|| Rates::reading(f64::INFINITY));
    // noise must not make a rate negative or endless
    let least = one / 100.0;
    let of_weights = (one - own.steps as f64 * device.step).max(one / 2.0);
    let read = (own.bytes / of_weights).min(device.read);
    // the results of the last row alone are wanted
    let further = |rows: usize, time: f64| {
        let more = decode(rows, 0);
        let read = (more.bytes - more.cached - own.bytes + own.cached) / read;
        (rows as f64 - 1.0) * own.operations / (time - one - read).max(least)
    };
    let cached = behind.cached - own.cached;
    Ok(Rates {
        read,
        cache: (cached > 0.0).then(|| cached / (deep - one).max(least)),
        few: Some(further(FEW, few)),
        multiply: Some(further(ROWS, many)),
        ..device
    })
}

/// Seconds of a pass: the least of three measurements.
fn fastest(mut measure: impl FnMut() -> Result<Profile, Error>) -> Result<f64, Error> {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        best = best.min(measure()?.pass);
    }
    Ok(best.as_secs_f64())
}
