//! Efforts: what every backend that has them must compute, by thresholds that its caller measures.

use std::sync::Arc;

use pelton_graph::Phase::{Decode, Prompt};
use pelton_graph::{
    Backend, Effort, EffortTable, Executable, MatrixScores, Pass, Phase, Plan, Row, TableEdit,
    Want, build, pages_for,
};
use pelton_quant::DType;
use pelton_weights::Checkpoint;

use crate::ModelSpec;
use crate::backend::{Subject, assert_same, limits, relative_difference, rows, tokens};

const LEN: usize = 72;

fn fraction(effort: f64) -> Effort {
    Effort::new(effort).unwrap()
}

/// Measures the scores of a plan's matrices on windows of tokens.
type Calibrate = dyn Fn(Plan, &Arc<Checkpoint>, &[Vec<u32>]) -> Vec<MatrixScores>;

/// A random model, `marked` for rows of an effort or not.
fn load(
    backend: &dyn Backend,
    calibrate: &Calibrate,
    spec: &ModelSpec,
    marked: bool,
) -> Box<dyn Executable> {
    let checkpoint = Arc::new(spec.checkpoint());
    let built = build(&checkpoint).unwrap();
    let mut plan = built.clone().fuse(&|op, plan| backend.accepts(op, plan));
    if marked {
        plan = plan.with_effort(&|form| backend.has_effort(form));
        assert!(plan.has_effort(), "{}", spec.dtype);
        let table = EffortTable::new(calibrate(built, &checkpoint, &[tokens(spec, LEN)]));
        plan.marks.table = Some(Arc::new(table));
    }
    backend.load(plan, checkpoint, limits(spec), &mut |_, _| {}).unwrap()
}

/// The logits of all rows of a pass.
fn run(
    executable: &mut dyn Executable,
    phase: Phase,
    rows: &[Row],
    tables: &[TableEdit<'_>],
    efforts: &[Effort],
) -> Vec<f32> {
    let wants: Vec<Want<'_>> = (0..rows.len() as u32).map(|row| Want::Logits { row }).collect();
    let pass = Pass { tables, efforts, ..Pass::new(phase, rows, &wants) };
    let ticket = executable.submit(&pass).unwrap();
    executable.take(ticket).unwrap().logits.to_vec()
}

/// The logits of a sequence in chunks, each of one effort.
fn logits(
    executable: &mut dyn Executable,
    tokens: &[u32],
    chunks: &[(Phase, usize)],
    effort: Effort,
) -> Vec<f32> {
    let pages: Vec<u32> = (0..pages_for(tokens.len()) as u32).rev().collect();
    let mut edits = &[TableEdit { group: 0, slot: 1, first: 0, pages: &pages }][..];
    let (mut all, mut position) = (Vec::new(), 0);
    for &(phase, len) in chunks {
        let rows = rows(&tokens[position..position + len], position, 1);
        let efforts = if effort.is_full() { Vec::new() } else { vec![effort; len] };
        all.extend(run(executable, phase, &rows, edits, &efforts));
        edits = &[];
        position += len;
    }
    assert_eq!(position, tokens.len());
    all
}

impl Subject<'_> {
    /// Rows of effort 1 have the bits of a load without effort, in passes of any size.
    pub fn effort_1_is_dense(&self, calibrate: &Calibrate, dtypes: &[DType]) {
        let chunks =
            [(Prompt, 21), (Decode, 1), (Decode, 2), (Decode, 1), (Decode, 5), (Decode, 9)];
        let chunks = [&chunks[..], &[(Decode, 20), (Prompt, 13)]].concat();
        for &dtype in dtypes {
            let spec = ModelSpec::wide(dtype);
            let tokens = tokens(&spec, LEN);
            let [dense, full] = [false, true].map(|marked| {
                let mut executable = load(self.backend, calibrate, &spec, marked);
                logits(&mut *executable, &tokens, &chunks, Effort::FULL)
            });
            assert_same(&full, &dense, &format!("{dtype}"));
        }
    }

    /// A row of an effort below 1 has the same bits in any pass of its phase, with rows of other
    /// efforts too, and again. `other`, another backend, has its results within the tolerance.
    pub fn efforts_of_any_pass(
        &self,
        calibrate: &Calibrate,
        effort: Effort,
        other: &dyn Backend,
        dtypes: &[DType],
    ) {
        for &dtype in dtypes {
            let spec = ModelSpec::wide(dtype);
            let tokens = tokens(&spec, LEN);
            let mut executable = load(self.backend, calibrate, &spec, true);
            let executable = &mut *executable;
            let dense = logits(executable, &tokens, &[(Prompt, LEN)], Effort::FULL);
            let steps = [(Decode, 1); LEN];
            let expected = logits(executable, &tokens, &steps, effort);
            assert!(relative_difference(&dense, &expected) > 1e-3, "{dtype}");
            for lens in [&[1; LEN][..], &[2, 3, 5, 8, 16, 16, 16, 6]] {
                let chunks: Vec<(Phase, usize)> = lens.iter().map(|&len| (Decode, len)).collect();
                let got = logits(executable, &tokens, &chunks, effort);
                assert_same(&got, &expected, &format!("{dtype} in {lens:?}"));
            }
            let prompt = logits(executable, &tokens, &[(Prompt, LEN)], effort);
            let got =
                logits(executable, &tokens, &[(Prompt, 30), (Prompt, 1), (Prompt, 41)], effort);
            assert_same(&got, &prompt, &format!("{dtype}, a prompt in chunks"));
            let mut of_other = load(other, calibrate, &spec, true);
            let of_other = logits(&mut *of_other, &tokens, &steps, effort);
            let difference = relative_difference(&of_other, &expected);
            // a code or a score that rounds otherwise makes another input live
            assert!(difference < 0.08, "{dtype}: {difference} from '{}'", other.name());
            mixed(executable, &tokens, dtype, effort);
        }
    }
}

/// Sequences of different efforts in the same passes, compared with each alone.
fn mixed(executable: &mut dyn Executable, tokens: &[u32], dtype: DType, effort: Effort) {
    let efforts = [Effort::FULL, effort, fraction(0.25), Effort::FULL, fraction(0.8)];
    let tables: Vec<[u32; 1]> = (0..efforts.len() as u32).map(|slot| [slot + 3]).collect();
    let edits: Vec<TableEdit<'_>> = (0_u32..)
        .zip(&tables)
        .map(|(slot, pages)| TableEdit { group: 0, slot, first: 0, pages })
        .collect();
    let of = |slot: usize, from: usize, len: usize| {
        rows(&tokens[slot..][from..from + len], from, slot as u32)
    };
    let chunks = [(Prompt, 7), (Decode, 1), (Decode, 1), (Prompt, 6)];
    let mut alone: Vec<Vec<f32>> = Vec::new();
    for (slot, &effort) in efforts.iter().enumerate() {
        let (mut all, mut from) = (Vec::new(), 0);
        for (phase, len) in chunks {
            let rows = of(slot, from, len);
            let tables = &edits[slot..slot + 1];
            all.extend(run(executable, phase, &rows, tables, &vec![effort; len]));
            from += len;
        }
        alone.push(all);
    }
    let mut together: Vec<Vec<f32>> = vec![Vec::new(); efforts.len()];
    let mut from = 0;
    for (phase, len) in chunks {
        let rows: Vec<Row> = (0..efforts.len()).flat_map(|slot| of(slot, from, len)).collect();
        let of_rows: Vec<Effort> = efforts.iter().flat_map(|&effort| vec![effort; len]).collect();
        let all = run(executable, phase, &rows, &edits, &of_rows);
        for (together, part) in together.iter_mut().zip(all.chunks(all.len() / efforts.len())) {
            together.extend(part);
        }
        from += len;
    }
    for ((together, alone), effort) in together.iter().zip(&alone).zip(efforts) {
        assert_same(together, alone, &format!("{dtype}, effort {effort} in a batch"));
    }
}
