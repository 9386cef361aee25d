//! The scores of the inputs of a model's matrices on a text, whose quantiles are the
//! thresholds of live ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pelton_graph::{
    Backend, EffortForm, Error, InputScores, KvType, Limits, MatrixScores, Pass, Phase, Plan, Row,
    ScoreCounts, TableEdit, Want, Weight, pages_for,
};
use pelton_weights::Checkpoint;

use crate::executable::Cpu;
use crate::observe::MatrixInput;
use crate::pool::Pool;

/// The column norms of a matrix, and the scores of the rows that have reached it.
struct Observed {
    norms: Vec<f32>,
    counts: ScoreCounts,
}

/// Runs windows of tokens densely, each from position 0, and counts the scores of the inputs of all
/// matrices of [`EffortForm::Nested`] that can be marked. `plan` is not fused. `progress` is called
/// with the windows that are done and their number.
///
/// # Errors
/// [`Error::Effort`] if the text gives a matrix no scores; other errors if the model does not
/// load or a pass fails.
pub fn effort_scores(
    plan: Plan,
    checkpoint: &Arc<Checkpoint>,
    windows: &[Vec<u32>],
    threads: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<MatrixScores>, Error> {
    let marked = plan.clone().with_effort(&|form| form == EffortForm::Nested).weights;
    let marked: Vec<Weight> = marked.into_iter().filter(|weight| weight.marked).collect();
    let norms = column_norms(&marked, checkpoint, threads)?;
    let all: HashMap<(String, usize), Observed> = marked
        .iter()
        .zip(norms)
        .map(|(weight, norms)| {
            let counts = ScoreCounts::default();
            ((weight.name.clone(), weight.first()), Observed { norms, counts })
        })
        .collect();
    let all = Arc::new(Mutex::new(all));
    let seen = Arc::clone(&all);
    let observe = move |input: MatrixInput<'_>| {
        let mut all = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of) = all.get_mut(&(input.weight.name.clone(), input.weight.first())) {
            of.counts.add(input.values, &of.norms);
        }
    };
    let backend = Cpu::new(threads).in_file_order().observing(observe);
    run(&backend, plan, checkpoint, windows, progress)?;
    let all = all.lock().unwrap_or_else(PoisonError::into_inner);
    let scores = marked.into_iter().map(|weight| {
        let first = weight.first();
        let of = all.get(&(weight.name.clone(), first));
        let scores = of.map_or_else(|| ScoreCounts::default().scores(), |of| of.counts.scores());
        MatrixScores { tensor: weight.name, first, scores }
    });
    let scores: Vec<MatrixScores> = scores.collect();
    match scores.iter().find(|one| *one.scores.quantiles() == [0.0; InputScores::COUNT]) {
        None => Ok(scores),
        Some(MatrixScores { tensor, .. }) => Err(Error::Effort(format!(
            "the inputs of '{tensor}' are all zero or not finite on the text of the calibration"
        ))),
    }
}

/// Rows for one of which logits are wanted: the last steps of a plan run on wanted rows alone.
const WANTED: usize = 4;

/// Runs each window in a pass of its own.
fn run(
    backend: &Cpu,
    plan: Plan,
    checkpoint: &Arc<Checkpoint>,
    windows: &[Vec<u32>],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    let plan = plan.fuse(&|op, plan| backend.accepts(op, plan));
    let longest = windows.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let groups = plan.groups.len();
    let limits = Limits {
        rows: longest,
        wants: longest.div_ceil(WANTED),
        sequences: 1,
        context: longest,
        pages: vec![pages_for(longest); groups],
        snapshots: 0,
        kv: KvType::F16,
        tokens: plan.vocab,
        bias: 0,
    };
    let mut executable = backend.load(plan, Arc::clone(checkpoint), limits, &mut |_, _| {})?;
    let pages: Vec<u32> = (0..pages_for(longest) as u32).collect();
    let edit = |group| TableEdit { group, slot: 0, first: 0, pages: &pages };
    let tables: Vec<TableEdit<'_>> = (0..groups as u32).map(edit).collect();
    for (i, window) in windows.iter().enumerate() {
        let row = |(position, &token): (usize, &u32)| Row {
            input: pelton_graph::Input::Token(token),
            position: position as u32,
            slot: 0,
        };
        let rows: Vec<Row> = window.iter().enumerate().map(row).collect();
        let wanted = (0..rows.len() as u32).step_by(WANTED);
        let wants: Vec<Want<'_>> = wanted.map(|row| Want::Logits { row }).collect();
        let tables = if i == 0 { &tables[..] } else { &[] };
        let ticket =
            executable.submit(&Pass { tables, ..Pass::new(Phase::Prompt, &rows, &wants) })?;
        executable.take(ticket)?;
        progress(i as u64 + 1, windows.len() as u64);
    }
    Ok(())
}

/// The Euclidean norms `[cols]` of the columns of each matrix: squares are summed in f64
/// in the order of rows.
fn column_norms(
    marked: &[Weight],
    checkpoint: &Checkpoint,
    threads: usize,
) -> Result<Vec<Vec<f32>>, Error> {
    let pool = Pool::new(threads).map_err(|error| Error::Threads { threads, error })?;
    let all = Mutex::new(vec![Ok(Vec::new()); marked.len()]);
    pool.run(|worker| {
        for i in worker.split(marked.len(), 1) {
            let norms = norms_of(&marked[i], checkpoint).map_err(|error| error.to_string());
            all.lock().unwrap_or_else(PoisonError::into_inner)[i] = norms;
        }
    });
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.into_iter().map(|norms| norms.map_err(Error::Effort)).collect()
}

fn norms_of(weight: &Weight, checkpoint: &Checkpoint) -> Result<Vec<f32>, Error> {
    let tensor = weight.tensor(checkpoint)?;
    let cols = weight.row_len;
    let row_bytes = tensor.bytes.len() / weight.tensor_rows().max(1);
    let mut squares = vec![0.0_f64; cols];
    let mut values = vec![0.0_f32; cols];
    for row in tensor.bytes.chunks_exact(row_bytes).skip(weight.first()).take(weight.rows) {
        pelton_quant::decode(tensor.dtype, row, &mut values)?;
        for (square, &value) in squares.iter_mut().zip(&values) {
            *square += f64::from(value) * f64::from(value);
        }
    }
    Ok(squares.into_iter().map(|square| square.sqrt() as f32).collect())
}
