//! Whether an effort is faster than the whole model where a model is loaded.

use std::time::Duration;

use pelton_graph::{
    Effort, Executable, Input, Limits, Pass, Phase, Plan, Row, Sample, TableEdit, Want,
};
use pelton_sampling::Draw;
use web_time::Instant;

use crate::Error;

/// The most tokens of a measurement, and measurements of each effort.
const TOKENS: u32 = 16;
const TURNS: usize = 3;
/// A first token that takes as long is the measurement: the GPU is a software driver.
const SLOW: Duration = Duration::from_millis(100);

/// The times of a token of the whole model and of one at an effort: the least of some. `None` where
/// no token can be generated alone.
pub(super) fn of(
    executable: &mut dyn Executable,
    plan: &Plan,
    limits: &Limits,
    effort: Effort,
) -> Result<Option<[Duration; 2]>, Error> {
    let effort = if effort.is_full() { Effort::new(0.5).unwrap_or(effort) } else { effort };
    if plan.whole_sequences || limits.pages.contains(&0) {
        return Ok(None);
    }
    let most = TOKENS.min(executable.pipeline().repeat).min(limits.context as u32).max(1);
    let edit = |group| TableEdit { group, slot: 0, first: 0, pages: &[0] };
    let tables: Vec<TableEdit<'_>> = (0..plan.groups.len() as u32).map(edit).collect();
    let rows = [Row { input: Input::Token(0), position: 0, slot: 0 }];
    let want = Sample { row: 0, draw: Draw::GREEDY, recent: &[], pending: 0 };
    let wants = [Want::Sample(want)];
    let mut time = |effort, repeat| -> Result<Duration, Error> {
        let (efforts, tables) = ([effort], &tables[..]);
        let pass = Pass::new(Phase::Decode, &rows, &wants);
        let pass = Pass { efforts: &efforts, tables, repeat, ..pass };
        let begun = Instant::now();
        let ticket = executable.submit(&pass)?;
        executable.take(ticket)?;
        Ok(begun.elapsed() / repeat)
    };
    // the first passes wait for memory and clocks
    let first = [time(Effort::FULL, 1)?, time(effort, 1)?];
    if first.iter().any(|&time| time > SLOW) {
        return Ok(Some(first));
    }
    let mut best = [Duration::MAX; 2];
    for _ in 0..TURNS {
        for (best, effort) in best.iter_mut().zip([Effort::FULL, effort]) {
            *best = time(effort, most)?.min(*best);
        }
    }
    Ok(Some(best))
}
