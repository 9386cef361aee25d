//! The scores of a model's matrices, by which thresholds are chosen, and files of them.
//!
//! A file is a JSON object of `format`, `model` (a key of the tensors) and `matrices`. Each matrix
//! has its `tensor`, the `first` of its rows there, and 64 quantiles of `scores`.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use pelton_graph::{EffortTable, InputScores, MatrixScores, Plan};
use pelton_tokenizer::Tokenizer;
use pelton_weights::Checkpoint;
use serde_json::{Value, json};

use super::key::key;
use crate::{
    Error,
    api::{EffortTables, LoadOptions},
};

/// The `format` of a file.
const FORMAT: &str = "pelton effort table 3";
/// The most bytes of a file.
const FILE_BYTES: u64 = 1 << 24;
/// The text on which a load measures scores, and the windows of it: their most
/// tokens and their number.
const TEXT: &str = include_str!("text.txt");
const WINDOW: usize = 96;
const WINDOWS: usize = 4;

/// The scores of a load.
pub(super) struct Thresholds {
    pub(super) table: Arc<EffortTable>,
    /// Their file.
    pub(super) file: Option<PathBuf>,
    /// Whether the load has measured them.
    pub(super) is_measured: bool,
}

/// The scores of a marked plan: of a file, or measured. `built` is the plan before it was fused.
pub(super) fn of(
    plan: &Plan,
    built: Plan,
    checkpoint: &Arc<Checkpoint>,
    tables: &EffortTables,
    load: &LoadOptions,
) -> Result<Thresholds, Error> {
    let known = |table| Ok(Thresholds { table, file: None, is_measured: false });
    let key = key("thresholds", plan, checkpoint);
    let mut file = match tables {
        EffortTables::Measured => None,
        EffortTables::BuiltIn => {
            let refuse =
                |what| Error::EffortTable { file: "the built-in calibration".into(), what };
            let table = parse(pelton_tiny::EFFORT, &key, plan).map_err(refuse)?;
            return known(Arc::new(table));
        }
        #[cfg(feature = "unstable")]
        EffortTables::Table(table) => return known(Arc::clone(table)),
        EffortTables::Folder(folder) => Some(folder.join(format!("effort-{key}.json"))),
    };
    if let Some(path) = file.as_deref().filter(|path| path.is_file()) {
        let table = Arc::new(read(path, &key, plan)?);
        return Ok(Thresholds { table, file, is_measured: false });
    }
    let table = measured(built, checkpoint, load)?;
    if let Some(path) = &file
        && let Err(error) = write(path, &key, &table)
    {
        // the next load measures again
        tracing::warn!(%error, "thresholds of effort could not be saved");
        file = None;
    }
    Ok(Thresholds { table: Arc::new(table), file, is_measured: true })
}

/// The scores of a model's matrices on a text of its own.
fn measured(
    built: Plan,
    checkpoint: &Arc<Checkpoint>,
    load: &LoadOptions,
) -> Result<EffortTable, Error> {
    let span = tracing::info_span!("calibrate", model = checkpoint.name());
    let _entered = span.enter();
    let tokens = match Tokenizer::from_metadata(checkpoint.metadata()) {
        Ok(tokenizer) => tokenizer.encode_prompt(TEXT)?,
        // in no order
        Err(pelton_tokenizer::Error::NoVocabulary) => {
            (0..(WINDOW * WINDOWS) as u32).map(|i| i * 37 % built.vocab as u32).collect()
        }
        Err(error) => return Err(error.into()),
    };
    let first = tokens.first().copied();
    let len = WINDOW.min(built.context);
    let windows = tokens.chunks(len).filter(|window| window.len() == len).take(WINDOWS);
    let windows = windows.map(|window| {
        // each begins as a text does
        let mut window = window.to_vec();
        window[0] = first.unwrap_or_default();
        window
    });
    let windows: Vec<Vec<u32>> = windows.collect();
    let progress = &mut |done, total| load.report(done, total);
    let threads = pelton_cpu::default_threads();
    let scores = pelton_cpu::effort_scores(built, checkpoint, &windows, threads, progress)?;
    Ok(EffortTable::new(scores))
}

/// Writes the table of a model. The file is replaced by a rename, so that it is
/// never read half written.
fn write(path: &Path, key: &str, table: &EffortTable) -> Result<(), Error> {
    let matrix = |MatrixScores { tensor, first, scores }: &MatrixScores| {
        // the shortest decimals that are the f32
        let short = |score: &f32| score.to_string().parse().unwrap_or(f64::from(*score));
        let scores: Vec<f64> = scores.quantiles().iter().map(short).collect();
        json!({ "tensor": tensor, "first": first, "scores": scores })
    };
    let matrices: Vec<Value> = table.matrices().iter().map(matrix).collect();
    let value = json!({ "format": FORMAT, "model": key, "matrices": matrices });
    let refuse = |what| Error::EffortTable { file: path.to_owned(), what };
    pelton_records::replace(path, format!("{value}\n").as_bytes())
        .map_err(|error| refuse(format!("could not be written: {error}")))
}

/// Reads the table of a model with a marked plan.
fn read(path: &Path, key: &str, plan: &Plan) -> Result<EffortTable, Error> {
    let refuse = |what| Error::EffortTable { file: path.to_owned(), what };
    let mut text = Vec::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut text));
    read.map_err(|error| refuse(format!("could not be read: {error}")))?;
    if text.len() as u64 > FILE_BYTES {
        return Err(refuse(format!("more than {FILE_BYTES} bytes, expected a small table")));
    }
    parse(&text, key, plan).map_err(refuse)
}

/// The table of a file, if it is that of a plan.
fn parse(text: &[u8], key: &str, plan: &Plan) -> Result<EffortTable, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| format!("no JSON: {error}"))?;
    if value["format"] != FORMAT {
        return Err(format!("no table of efforts, expected the format '{FORMAT}'"));
    }
    if value["model"] != key {
        return Err(format!("made for another model, expected one for '{key}'"));
    }
    let matrices = value["matrices"].as_array().ok_or("no matrices, expected a list of them")?;
    let matrices = matrices.iter().map(matrix).collect::<Result<_, _>>()?;
    let table = EffortTable::new(matrices);
    table.check(&plan.weights)?;
    Ok(table)
}

fn matrix(value: &Value) -> Result<MatrixScores, String> {
    let tensor = value["tensor"].as_str().ok_or("a matrix without a tensor, expected its name")?;
    let refuse = |what: &str| format!("the matrix '{tensor}' has {what}");
    let first = value["first"].as_u64().ok_or_else(|| refuse("no first row"))? as usize;
    let scores = numbers(&value["scores"]).unwrap_or_default();
    let scores: Vec<f32> = scores.into_iter().map(|score| score as f32).collect();
    let count = scores.len();
    let scores = scores
        .try_into()
        .map_err(|_| refuse(&format!("{count} scores, expected {}", InputScores::COUNT)))?;
    let scores = InputScores::new(scores).map_err(|what| refuse(&what))?;
    Ok(MatrixScores { tensor: tensor.to_owned(), first, scores })
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Value::as_f64).collect()
}
