//! The effort of a load, and files of calibrations.
//!
//! A file is a JSON object of `format`, `model` (a key of the tensors), `efforts`, ascending, `groups` and
//! `matrices`. Each group has a `kind` of matrices, the first and the last of its `layers`, and its
//! `fractions`, one for each effort. Each matrix has its `tensor`, the `first` of its rows there, and 64 quantiles
//! of `scores`. Without efforts and groups the fractions are the efforts.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use pelton_graph::{
    Backend, Effort, EffortGroup, EffortKind, EffortMode, EffortTable, InputScores, MatrixScores,
    OutputKind, Plan, Weight,
};
use pelton_quant::BUCKET;
use pelton_tokenizer::Tokenizer;
use pelton_weights::Checkpoint;
use serde_json::{Value, json};

use crate::{
    Error, ErrorKind,
    api::{EffortOptions, EffortTables, LoadOptions},
    session::{effort_of, of_plan},
};

/// The `format` of a file.
const FORMAT: &str = "pelton effort table 2";
/// The most bytes of a file.
const FILE_BYTES: u64 = 1 << 24;
/// The most layers that a group can name.
const LAYERS: u64 = 1 << 16;
/// The text on which a load measures thresholds, and the windows of it: their most tokens and their number.
const TEXT: &str = include_str!("effort.txt");
const WINDOW: usize = 96;
const WINDOWS: usize = 4;

/// The effort of requests that do not say.
pub(super) fn of_load(options: &LoadOptions) -> Result<Effort, Error> {
    options.effort.as_ref().map_or(Ok(Effort::FULL), |effort| effort_of(effort.level))
}

/// Whether requests may run the whole model in place of their efforts.
pub(super) fn may_be_whole(options: &LoadOptions) -> bool {
    options.effort.as_ref().is_some_and(|effort| !effort.always)
}

/// Loads a plan; if there is too little memory and it `may_be_whole`, without its marks. Returns also whether it
/// has its marks.
pub(super) fn load_or_whole<T>(
    plan: Plan,
    may_be_whole: bool,
    load: impl Fn(&Plan) -> Result<T, Error>,
) -> Result<(Plan, T, bool), Error> {
    match load(&plan) {
        Err(error) if may_be_whole && error.kind() == ErrorKind::OutOfMemory => {
            tracing::warn!(%error, "the weights for efforts below 1 do not fit");
            let plan = plan.without_effort();
            let loaded = load(&plan)?;
            Ok((plan, loaded, false))
        }
        loaded => Ok((plan, loaded?, true)),
    }
}

/// A plan that is marked for effort, and its calibration.
pub(super) struct Marked {
    pub(super) plan: Plan,
    pub(super) checkpoint: Arc<Checkpoint>,
    /// The file of the calibration.
    pub(super) file: Option<PathBuf>,
    /// Whether the load has measured it.
    pub(super) is_measured: bool,
}

impl Marked {
    /// A plan as it is.
    pub(super) fn without(plan: Plan, checkpoint: Arc<Checkpoint>) -> Self {
        Self { plan, checkpoint, file: None, is_measured: false }
    }
}

/// A plan with its matrices marked for the options. `built` is the plan before it was fused.
pub(super) fn with_effort(
    (plan, built): (Plan, Plan),
    mut checkpoint: Checkpoint,
    backend: &dyn Backend,
    options: &EffortOptions,
    load: &LoadOptions,
) -> Result<Marked, Error> {
    let effort = effort_of(options.level)?;
    if plan.output != OutputKind::Logits {
        return Err(Error::Option {
            option: "effort",
            found: effort.to_string(),
            expected: "none, as the model generates no text".to_owned(),
        });
    }
    let mut plan = plan.with_effort()?;
    plan.effort.mode = options.mode;
    let refuse = |option, found: String, expected: &str| {
        Err(Error::Option { option, found, expected: expected.to_owned() })
    };
    let is_bucket = options.mode == EffortMode::Bucket;
    match (options.ranks, &options.buckets) {
        (Some(ranks), _) if !is_bucket => {
            return refuse("effort.ranks", ranks.to_string(), "none but in mode bucket");
        }
        (_, Some(file)) if !is_bucket => {
            let found = file.display().to_string();
            return refuse("effort.buckets", found, "none but in mode bucket");
        }
        (ranks, file) => {
            if is_bucket && backend.has_expert_effort() {
                plan = plan.with_expert_effort();
            }
            if let Some(path) = file {
                checkpoint.attach_buckets(path, &key(&plan, &checkpoint))?;
            }
            plan.effort.ranks = ranks.unwrap_or(BUCKET);
            if !(1..=BUCKET).contains(&plan.effort.ranks) {
                let expected = format!("1 to {BUCKET}");
                return refuse("effort.ranks", plan.effort.ranks.to_string(), &expected);
            }
        }
    }
    of_plan(effort, &plan)?;
    let checkpoint = Arc::new(checkpoint);
    let mut file = match &options.tables {
        EffortTables::Uniform => None,
        EffortTables::BuiltIn => {
            let refuse =
                |what| Error::EffortTable { file: "the built-in calibration".into(), what };
            let table = parse(pelton_tiny::EFFORT, &key(&plan, &checkpoint));
            let table = table.and_then(|table| table.check(&plan).map(|()| table));
            plan.effort.table = Some(Arc::new(table.map_err(refuse)?));
            None
        }
        #[cfg(feature = "unstable")]
        EffortTables::Table(table) => {
            plan.effort.table = Some(Arc::clone(table));
            None
        }
        EffortTables::File(path) => Some(path.clone()),
        EffortTables::Folder(folder) => Some(EffortFile::path(folder, &plan, &checkpoint)),
    };
    let is_given = matches!(options.tables, EffortTables::File(_));
    if let Some(path) = file.as_deref().filter(|path| is_given || path.is_file()) {
        plan.effort.table = Some(Arc::new(EffortFile::read(path, &plan, &checkpoint)?));
    }
    let is_measured = plan.effort.table.is_none() && !is_bucket && backend.has_effort();
    if is_measured {
        let table = measured(built, &checkpoint, load)?;
        if let Some(path) = &file
            && let Err(error) = EffortFile::write(path, (&plan, &checkpoint), &table)
        {
            // the next load measures again
            tracing::warn!(%error, "thresholds of effort could not be saved");
            file = None;
        }
        plan.effort.table = Some(Arc::new(table));
    }
    file = file.filter(|_| plan.effort.table.is_some());
    Ok(Marked { plan, checkpoint, file, is_measured })
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

/// Files of the calibrations of models.
#[derive(Debug)]
pub struct EffortFile;

impl EffortFile {
    /// The file of a model in a folder: its name has a key of the names, the shapes and the types of
    /// the matrices that effort applies to, and of some of their bytes.
    pub fn path(folder: &Path, plan: &Plan, checkpoint: &Checkpoint) -> PathBuf {
        folder.join(format!("effort-{}.json", key(plan, checkpoint)))
    }

    /// Writes the table of a model whose plan has marked matrices. The file is replaced by a rename, so that it is never read
    /// half written.
    ///
    /// # Errors
    ///
    /// [`Error::EffortTable`] if the table is not of the model, or the file cannot be written.
    pub fn write(
        path: &Path,
        (plan, checkpoint): (&Plan, &Checkpoint),
        table: &EffortTable,
    ) -> Result<(), Error> {
        let refuse = |what| Error::EffortTable { file: path.to_owned(), what };
        table.check(plan).map_err(refuse)?;
        let group = |group: &EffortGroup| {
            json!({
                "kind": group.kind.name(),
                "layers": [group.layers.start(), group.layers.end()],
                "fractions": group.fractions,
            })
        };
        let matrix = |MatrixScores { tensor, first, scores }: &MatrixScores| {
            // the shortest decimals that are the f32
            let short = |score: &f32| score.to_string().parse().unwrap_or(f64::from(*score));
            let scores: Vec<f64> = scores.quantiles().iter().map(short).collect();
            json!({ "tensor": tensor, "first": first, "scores": scores })
        };
        let value = json!({
            "format": FORMAT,
            "model": key(plan, checkpoint),
            "efforts": table.efforts(),
            "groups": table.groups().iter().map(group).collect::<Vec<_>>(),
            "matrices": table.matrices().iter().map(matrix).collect::<Vec<_>>(),
        });
        pelton_records::replace(path, format!("{value}\n").as_bytes())
            .map_err(|error| refuse(format!("could not be written: {error}")))
    }

    /// Reads the table of a model with a plan that has marked matrices.
    ///
    /// # Errors
    ///
    /// [`Error::EffortTable`] if the file cannot be read, is no table, is of another model, or its
    /// fractions do not fit its efforts.
    pub fn read(path: &Path, plan: &Plan, checkpoint: &Checkpoint) -> Result<EffortTable, Error> {
        let refuse = |what| Error::EffortTable { file: path.to_owned(), what };
        let mut text = Vec::new();
        let read =
            fs::File::open(path).and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut text));
        read.map_err(|error| refuse(format!("could not be read: {error}")))?;
        if text.len() as u64 > FILE_BYTES {
            return Err(refuse(format!("more than {FILE_BYTES} bytes, expected a small table")));
        }
        parse(&text, &key(plan, checkpoint))
            .and_then(|table| table.check(plan).map(|()| table))
            .map_err(refuse)
    }
}

/// The table of a file.
fn parse(text: &[u8], key: &str) -> Result<EffortTable, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| format!("no JSON: {error}"))?;
    if value["format"] != FORMAT {
        return Err(format!("no table of efforts, expected the format '{FORMAT}'"));
    }
    if value["model"] != key {
        return Err(format!(
            "made for another model, expected one for '{key}': `pelton effort calibrate` makes it"
        ));
    }
    let groups = value["groups"].as_array().ok_or("no groups, expected a list of them")?;
    let groups = groups.iter().enumerate().map(|(i, value)| {
        group(value).ok_or_else(|| {
            format!(
                "group {i} is not complete, expected a kind, the first and the last of its layers, \
                 and fractions"
            )
        })
    });
    let groups = groups.collect::<Result<_, _>>()?;
    let efforts = numbers(&value["efforts"]).ok_or("no efforts, expected a list of numbers")?;
    let matrices = value["matrices"].as_array().ok_or("no matrices, expected a list of them")?;
    let matrices = matrices.iter().map(matrix).collect::<Result<_, _>>()?;
    EffortTable::new(matrices).with_fractions(efforts, groups)
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

fn group(value: &Value) -> Option<EffortGroup> {
    let kind = EffortKind::ALL.into_iter().find(|kind| value["kind"] == kind.name())?;
    let [first, last] = value["layers"].as_array()?.as_slice() else { return None };
    let layer = |value: &Value| value.as_u64().filter(|&layer| layer < LAYERS);
    let layers = layer(first)? as usize..=layer(last)? as usize;
    Some(EffortGroup { kind, layers, fractions: numbers(&value["fractions"])? })
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Value::as_f64).collect()
}

/// A key of the mode and of the matrices that effort applies to: FNV-1a of their names, shapes, types and first and
/// middle bytes.
pub(super) fn key(plan: &Plan, checkpoint: &Checkpoint) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    let is_part = |weight: &&Weight| weight.effort || EffortKind::of(&weight.name).is_some();
    for weight in plan.weights.iter().filter(is_part) {
        add(weight.name.as_bytes());
        for number in [weight.rows, weight.row_len, weight.first()] {
            add(&(number as u64).to_le_bytes());
        }
        add(weight.dtype.to_string().as_bytes());
        if let Some(tensor) = checkpoint.tensor(&weight.name) {
            let bytes = tensor.bytes;
            for from in [0, bytes.len() / 2] {
                add(&bytes[from..bytes.len().min(from + 64)]);
            }
        }
    }
    // fractions of one mode are not those of another
    format!("{}-{hash:016x}", plan.effort.mode.name())
}
