//! The rates of a device: stated, or measured by three passes over the model.

use std::time::Duration;

use anyhow::{Result, ensure};
use pelton::{Engine, LoadOptions, Session};

use super::{
    args::Args,
    speed::{Rates, Work},
};
use crate::model;

/// Rows of the pass that shows what further rows take.
const ROWS: usize = 64;
/// Positions before the pass that shows what keys and values take.
const DEPTH: usize = 512;
/// Passes of a measurement. The fastest of three means counts.
const PASSES: usize = 8;

/// The rates that the options state.
pub(super) fn stated(args: &Args) -> Result<Option<Rates>> {
    let (Some(read), Some(multiply)) = (args.read, args.multiply) else { return Ok(None) };
    for (name, value) in [("--read", read), ("--multiply", multiply)] {
        ensure!(value.is_finite() && value > 0.0, "{name} is {value}, expected a number above 0");
    }
    ensure!(
        args.step.is_finite() && args.step >= 0.0,
        "--step is {}, expected a number of at least 0",
        args.step
    );
    let read = read * 1e9;
    Ok(Some(Rates { read, cache: read, multiply: multiply * 1e9, step: args.step * 1e-6 }))
}

/// The rates of the device, by passes over the model itself, which is loaded for them.
pub(super) fn measured(engine: &Engine, args: &Args) -> Result<Rates> {
    let options = LoadOptions::default().context(DEPTH + ROWS);
    let model = model::load_on(engine, &args.model, &args.load, options)?;
    let context = model.context();
    let depth = DEPTH.min(context.saturating_sub(ROWS));
    let mut session = model.into_session()?;
    let one = fastest(&mut session, 1)?;
    let many = fastest(&mut session, ROWS)?;
    session.run(&vec![0; depth])?;
    let deep = fastest(&mut session, 1)?;
    let plan = session.plan().clone();
    let work = Work::new(&plan, args.load.kv());
    let read = work.weights(1) / one;
    let weights = work.weights(ROWS) / read;
    // noise must not make a rate negative or endless
    let multiply = (ROWS as f64 - 1.0) * work.of_prompt_row() / (many - weights).max(one / 100.0);
    let cache = work.cache(depth) / (deep - one).max(one / 100.0);
    Ok(Rates { read, cache, multiply, step: 0.0 })
}

/// Seconds of a pass.
fn fastest(session: &mut Session, rows: usize) -> Result<f64> {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        best = best.min(session.profile(&vec![0; rows], PASSES)?.pass);
    }
    Ok(best.as_secs_f64())
}
