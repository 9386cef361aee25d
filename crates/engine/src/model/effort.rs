//! The effort of a load, and files of fractions.
//!
//! A file is a JSON object of `format`, `model` (a key of the tensors), `efforts`, ascending, and
//! `groups`. Each group has a `kind` of matrices, the first and the last of its `layers`, and its
//! `fractions`, one for each effort.

use std::{
    borrow::Cow,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process,
    sync::Arc,
};

use pelton_graph::{
    Backend, Effort, EffortGroup, EffortKind, EffortMode, EffortTable, OutputKind, Plan, Weight,
};
use pelton_weights::Checkpoint;
use serde_json::{Value, json};

use crate::{
    Error,
    api::{DraftSource, EffortOptions, EffortTables, LoadOptions},
    session::{effort_of, of_plan},
};

/// The `format` of a file.
const FORMAT: &str = "pelton effort table 1";
/// The most bytes of a file.
const FILE_BYTES: u64 = 1 << 20;
/// The most layers that a group can name.
const LAYERS: u64 = 1 << 16;

/// The options of rows of an effort below 1, if a load has such rows.
pub(super) fn wanted(options: &LoadOptions) -> Option<Cow<'_, EffortOptions>> {
    let drafts_itself = matches!(options.draft, Some(DraftSource::Effort(_)));
    let given = options.effort.as_ref().map(Cow::Borrowed);
    given.or_else(|| drafts_itself.then(Cow::default))
}

/// The effort of requests that do not say.
pub(super) fn of_load(options: &LoadOptions) -> Result<Effort, Error> {
    options.effort.as_ref().map_or(Ok(Effort::FULL), |effort| effort_of(effort.level))
}

/// A plan with its matrices marked for the options, and the file of their fractions.
pub(super) fn with_effort(
    plan: Plan,
    checkpoint: &mut Checkpoint,
    backend: &dyn Backend,
    options: &EffortOptions,
) -> Result<(Plan, Option<PathBuf>), Error> {
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
    plan.effort.energy = backend.has_effort_energy() && options.mode != EffortMode::Bucket;
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
            let format = options.bucket_format;
            if let Some(format) = format.filter(|_| !is_bucket) {
                let found = format.name().to_owned();
                return refuse("effort.bucket_format", found, "none but in mode bucket");
            }
            if is_bucket && backend.has_expert_effort() {
                plan = plan.with_expert_effort();
            }
            let of_file = match file {
                Some(path) => Some(checkpoint.attach_buckets(path, &key(&plan, checkpoint))?),
                None => None,
            };
            match (format, of_file) {
                (Some(format), Some(of_file)) if format != of_file => {
                    let expected = format!("{}, the format of the file of buckets", of_file.name());
                    return refuse("effort.bucket_format", format.name().to_owned(), &expected);
                }
                (format, of_file) => plan.effort.buckets = format.or(of_file).unwrap_or_default(),
            }
            let all = plan.effort.buckets.ranks();
            plan.effort.ranks = ranks.unwrap_or(all);
            if !(1..=all).contains(&plan.effort.ranks) {
                let expected = format!("1 to {all}");
                return refuse("effort.ranks", plan.effort.ranks.to_string(), &expected);
            }
        }
    }
    let mut file = None;
    match &options.tables {
        EffortTables::Uniform => {}
        #[cfg(feature = "unstable")]
        EffortTables::Table(table) => plan.effort.table = Some(Arc::clone(table)),
        EffortTables::File(path) => {
            plan.effort.table = Some(Arc::new(EffortFile::read(path, &plan, checkpoint)?));
            file = Some(path.clone());
        }
        EffortTables::Folder(folder) => {
            let path = EffortFile::path(folder, &plan, checkpoint);
            if backend.has_effort_tables() && path.is_file() {
                plan.effort.table = Some(Arc::new(EffortFile::read(&path, &plan, checkpoint)?));
                file = Some(path);
            }
        }
    }
    of_plan(effort, &plan)?;
    Ok((plan, file))
}

/// Files of the fractions of inputs that a model's matrices have at an effort.
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
        let value = json!({
            "format": FORMAT,
            "model": key(plan, checkpoint),
            "efforts": table.efforts(),
            "groups": table.groups().iter().map(group).collect::<Vec<_>>(),
        });
        let write = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let new = path.with_extension(process::id().to_string());
            fs::write(&new, format!("{value:#}\n"))?;
            fs::rename(&new, path)
        };
        write().map_err(|error: std::io::Error| refuse(format!("could not be written: {error}")))
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
    EffortTable::new(efforts, groups)
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
