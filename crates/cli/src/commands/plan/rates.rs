//! The rates of a device: stated, or measured by four passes over the model.

use std::time::Duration;

use anyhow::{Result, ensure};
use pelton::{Engine, LoadOptions, graph::Profile};

use super::{
    args::Args,
    speed::{FEW, Rates, Work},
};
use crate::model;

/// Rows of the prompt that shows what further rows take.
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
    let (read, multiply) = (read * 1e9, multiply * 1e9);
    let step = args.step * 1e-6;
    Ok(Some(Rates { read, cache: read, few: multiply, multiply, step }))
}

/// The rates of the device, by passes over the model itself, which is loaded for them.
pub(super) fn measured(engine: &Engine, args: &Args) -> Result<Rates> {
    let options = LoadOptions::default().context(DEPTH + ROWS);
    let model = model::load_on(engine, &args.model, &args.load, options)?;
    let context = model.context();
    let depth = DEPTH.min(context.saturating_sub(ROWS));
    let mut session = model.into_session()?;
    let one = fastest(|| session.profile(&[0], PASSES))?;
    let few = fastest(|| session.profile_decode(&[0; FEW], PASSES))?;
    let many = fastest(|| session.profile(&[0; ROWS], PASSES))?;
    session.run(&vec![0; depth])?;
    let deep = fastest(|| session.profile(&[0], PASSES))?;
    let plan = session.plan().clone();
    let work = Work::new(&plan, args.load.kv());
    let read = work.weights(1) / one;
    // noise must not make a rate negative or endless
    let least = one / 100.0;
    // the results of the last row alone are wanted
    let rate = |rows: usize, time: f64| {
        (rows as f64 - 1.0) * work.of_prompt_row() / (time - work.weights(rows) / read).max(least)
    };
    let (few, multiply) = (rate(FEW, few), rate(ROWS, many));
    let cache = work.cache(depth) / (deep - one).max(least);
    Ok(Rates { read, cache, few, multiply, step: 0.0 })
}

/// Seconds of a pass: the least of three measurements.
fn fastest(mut measure: impl FnMut() -> Result<Profile, pelton::Error>) -> Result<f64> {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        best = best.min(measure()?.pass);
    }
    Ok(best.as_secs_f64())
}
