//! One test body for every backend, op by op: plans of a few steps at odd shapes, compared with the
//! reference backend.
//!
//! Whole models hide a small mistake of one kernel in the tolerance of all of them. Here each op
//! has the tolerance of its own arithmetic.

mod builder;
mod case;
mod cases;
mod passes;
mod routes;

use std::sync::Arc;

use pelton_graph::{
    Backend, Error, Executable, Limits, Op, PAGE, Pass, Phase, Plan, Row, TableEdit, Want,
    pages_for,
};

use crate::backend::{relative_difference, rows};
use builder::CONTEXT;
use case::Case;
use passes::{ROWS, RowsOfPass, SEQUENCES, SHORT, passes};

pub use routes::check_routes;

/// The coverage of a test.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Plans that were compared.
    pub compared: usize,
    /// Plans of fused ops that the backend does not accept: the name of the op and the plan.
    pub skipped: Vec<(&'static str, String)>,
    /// Plans with an elementary op that the backend does not accept: the name of the op and the
    /// plan.
    pub refused: Vec<(&'static str, String)>,
}

/// Compares every op of a backend with the reference: the elementary ones and the fused ones that
/// it accepts.
///
/// # Panics
/// If a result differs by more than the op's tolerance.
pub fn check(backend: &dyn Backend, reference: &dyn Backend) -> Outcome {
    check_every(backend, reference, 0, 1)
}

/// As [`check`], of every `step`-th plan from number `first` on: tests of a slow backend run in
/// parallel.
///
/// # Panics
/// As [`check`].
pub fn check_every(
    backend: &dyn Backend,
    reference: &dyn Backend,
    first: usize,
    step: usize,
) -> Outcome {
    let mut outcome = Outcome::default();
    for case in cases::all().into_iter().skip(first).step_by(step) {
        let plan = case.builder.plan();
        if let Some(step) = plan.steps.iter().find(|step| !backend.accepts(&step.op, plan)) {
            outcome.refused.push((step.op.name(), case.name.clone()));
            continue;
        }
        let passes = passes(plan);
        // whole sequences run in one phase
        let phases = match plan.whole_sequences {
            true => &[Phase::Prompt][..],
            false => &[Phase::Prompt, Phase::Decode],
        };
        let expected = run(&case, reference, plan.clone(), &[Phase::Prompt], &passes);
        let Some(expected) = expected.and_then(|mut phases| phases.pop()) else {
            panic!("{}: the reference has no such cache", case.name);
        };
        let mut compare = |plan: Plan, op: &str| {
            let Some(results) = run(&case, backend, plan, phases, &passes) else { return false };
            for (phase, got) in phases.iter().zip(&results) {
                let all = expected.iter().zip(got).zip(&passes);
                for (i, ((expected, got), pass)) in all.enumerate() {
                    let difference = relative_difference(expected, got);
                    assert!(
                        // a NaN is no small difference
                        difference <= case.tolerance,
                        "{}, {op}, {phase:?}, pass {i} of {} rows: {difference}",
                        case.name,
                        pass.rows.len()
                    );
                }
            }
            outcome.compared += 1;
            true
        };
        if !compare(plan.clone(), "unfused") {
            outcome.skipped.push(("cache", case.name.clone()));
            continue;
        }
        for &name in case.fused {
            let is_fused = |op: &Op| op.name() == name;
            let fused = |plan: &Plan| plan.steps.iter().any(|step| is_fused(&step.op));
            assert!(fused(&plan.clone().fuse(&|op, _| is_fused(op))), "{}: no {name}", case.name);
            let accepted = plan.clone().fuse(&|op, plan| is_fused(op) && backend.accepts(op, plan));
            match fused(&accepted) {
                true => {
                    compare(accepted, name);
                }
                false => outcome.skipped.push((name, case.name.clone())),
            }
        }
    }
    outcome
}

/// Asserts that the results of a row are the same bits in any batch, with all accepted ops fused.
/// Each of `backends`, which differ in their number of threads, also runs every row (or every whole
/// sequence) in a pass of its own.
///
/// # Panics
/// If a result differs.
pub fn check_bits(backends: &[&dyn Backend]) {
    for case in cases::all() {
        let together = passes(case.builder.plan());
        let alone: Vec<RowsOfPass> = together.iter().flat_map(|pass| pass.alone(&case)).collect();
        let mut first: Option<Vec<f32>> = None;
        for (i, backend) in backends.iter().enumerate() {
            for passes in [&together, &alone] {
                let plan = case.builder.plan().clone().fuse(&|op, plan| backend.accepts(op, plan));
                let results = run(&case, *backend, plan, &[Phase::Prompt], passes);
                let Some(results) = results.and_then(|mut phases| phases.pop()) else { continue };
                let found = results.concat();
                let expected = first.get_or_insert_with(|| found.clone());
                let same =
                    expected.iter().map(|x| x.to_bits()).eq(found.iter().map(|x| x.to_bits()));
                assert!(same, "{}, backend {i}, {} passes", case.name, passes.len());
            }
        }
    }
}

/// Runs a pass of so many rows.
pub type RunRows<'a> = dyn FnMut(usize) + 'a;

/// Calls `test` with each plan, and a function that runs a pass of some rows from position 0 on.
///
/// # Panics
/// If a plan cannot be loaded or run.
pub fn each_executable(backend: &dyn Backend, test: &mut dyn FnMut(&str, &mut RunRows<'_>)) {
    for case in cases::all() {
        let plan = case.builder.plan().clone().fuse(&|op, plan| backend.accepts(op, plan));
        let limits = Limits {
            rows: WARM,
            wants: 1,
            sequences: 1,
            context: CONTEXT,
            pages: vec![pages_for(WARM)],
            snapshots: 0,
            kv: case.kv,
            tokens: plan.vocab,
            bias: 0,
        };
        let checkpoint = Arc::new(case.builder.checkpoint());
        let mut executable = backend.load(plan, checkpoint, limits, &mut |_, _| {}).unwrap();
        let tokens = [1; WARM];
        let all = rows(&tokens, 0, 0);
        let pages: Vec<u32> = (0..pages_for(WARM) as u32).collect();
        let edits = [TableEdit { group: 0, slot: 0, first: 0, pages: &pages }];
        test(&case.name, &mut |len| {
            let wants = [Want::Logits { row: len as u32 - 1 }];
            let pass = Pass { tables: &edits, ..Pass::new(Phase::Prompt, &all[..len], &wants) };
            let ticket = executable.submit(&pass).unwrap();
            executable.take(ticket).unwrap();
        });
    }
}

/// Rows of the longest pass of [`each_executable`].
pub const WARM: usize = 100;

/// The results of each pass, in each of the phases, which have slots of their own.
fn run(
    case: &Case,
    backend: &dyn Backend,
    plan: Plan,
    phases: &[Phase],
    passes: &[RowsOfPass],
) -> Option<Vec<Vec<Vec<f32>>>> {
    let most = passes.iter().map(|pass| pass.rows.len()).max().unwrap_or(0);
    let pages = pages_for(ROWS.iter().sum::<usize>() + SHORT) as u32;
    assert!(pages as usize * PAGE <= CONTEXT, "sequences are longer than the context");
    // a sequence of `pages`, and one of a page
    let pages_of_phase = pages + 1;
    let limits = Limits {
        rows: most,
        wants: most,
        sequences: 1 + phases.len() * SEQUENCES as usize,
        context: CONTEXT,
        pages: vec![2 * pages_of_phase as usize],
        snapshots: 0,
        kv: case.kv,
        tokens: plan.vocab,
        bias: 0,
    };
    let checkpoint = Arc::new(case.builder.checkpoint());
    let loaded = backend.load(plan, checkpoint, limits, &mut |_, _| {});
    let mut executable: Box<dyn Executable> = match loaded {
        Ok(executable) => executable,
        // a type of the cache that this backend does not have
        Err(Error::Kv { .. }) => return None,
        Err(error) => panic!("{}: {error}", case.name),
    };
    let mut in_phase = |index: u32, phase: Phase| -> Vec<Vec<f32>> {
        let slot = |sequence: u32| 1 + SEQUENCES * index + sequence;
        // pages out of order, so that a mistake in the table shows
        let page = |page: u32| 2 * page + index % 2;
        let first: Vec<u32> = (0..pages).rev().map(page).collect();
        let second = [page(pages)];
        let edits = [(0, &first[..]), (1, &second)].map(|(sequence, pages)| TableEdit {
            group: 0,
            slot: slot(sequence),
            first: 0,
            pages,
        });
        let mut results = |pass: &RowsOfPass| {
            let rows: Vec<Row> =
                pass.rows.iter().map(|row| Row { slot: slot(row.slot), ..*row }).collect();
            let wants: Vec<Want<'_>> =
                pass.wanted.iter().map(|&row| Want::Logits { row }).collect();
            let submitted = executable.submit(&Pass {
                tables: &edits,
                places: &pass.places,
                embeddings: &pass.embeddings,
                ..Pass::new(pass.phase(phase), &rows, &wants)
            });
            submitted
                .and_then(|ticket| Ok(executable.take(ticket)?.logits.to_vec()))
                .unwrap_or_else(|error| panic!("{}: {error}", case.name))
        };
        passes.iter().map(&mut results).collect()
    };
    Some((0..).zip(phases).map(|(index, &phase)| in_phase(index, phase)).collect())
}
