//! `pelton show`: where a model is and what it is.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};
use pelton::{Checkpoint, weights::Value};
use pelton_printable::line;
use serde_json::json;

use crate::{
    hints, hub, model, names,
    output::{self, Hint},
    tower::Tower,
};

#[derive(clap::Args)]
#[command(after_help = "Nothing is downloaded. `pelton inspect` shows all metadata and tensors.")]
pub(crate) struct Args {
    /// The name of a model of this machine, or a file or directory
    name: String,
    /// Write one JSON object
    #[arg(long, group = "part")]
    json: bool,
    /// Write the licence that the file has
    #[arg(long, group = "part")]
    license: bool,
    /// Write the chat template that the file has
    #[arg(long, group = "part")]
    template: bool,
}

/// A model's files.
struct Found {
    name: String,
    place: &'static str,
    /// `None` for one that is part of the program.
    path: Option<String>,
    bytes: u64,
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let found = find(&args.name)?;
    let checkpoint = model::open(found.path.as_deref().unwrap_or(&args.name))?;
    for (wanted, key, name) in [
        (args.license, "general.license", "licence"),
        (args.template, "tokenizer.chat_template", "chat template"),
    ] {
        if wanted {
            let found = text(&checkpoint, key);
            let found = found.with_context(|| format!("{} has no {name}", args.name))?;
            writeln!(output::stdout(), "{}", found.trim_end())?;
            return Ok(());
        }
    }
    let architecture = text(&checkpoint, "general.architecture");
    let context = architecture
        .as_deref()
        .and_then(|architecture| number(&checkpoint, &format!("{architecture}.context_length")));
    let has_template = text(&checkpoint, "tokenizer.chat_template").is_some();
    let parameters: u64 =
        checkpoint.tensors().map(|tensor| (tensor.row_len() * tensor.rows()) as u64).sum();
    let tower = Tower::of(found.path.as_deref().unwrap_or(&args.name), &checkpoint);
    let mut out = output::stdout();
    if args.json {
        let object = json!({
            "name": found.name, "place": found.place, "path": found.path, "bytes": found.bytes,
            "files": found.files, "architecture": architecture, "parameters": parameters,
            "context": context, "chat_template": has_template, "tower": tower.to_json(),
        });
        writeln!(out, "{object:#}")?;
        return Ok(());
    }
    let unknown = || "unknown".to_owned();
    let rows = [
        ("name", Some(found.name)),
        ("place", Some(found.place.to_owned())),
        ("path", found.path),
        ("size", Some(output::bytes(found.bytes))),
        ("architecture", Some(architecture.unwrap_or_else(unknown))),
        ("parameters", Some(output::count(parameters))),
        ("context", Some(context.map_or_else(unknown, |context| format!("{context} tokens")))),
        ("chat template", Some(if has_template { "yes" } else { "no" }.to_owned())),
        ("pictures", tower.line()),
    ];
    for (key, value) in rows.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        writeln!(out, "{key:<14}{}", line(&value))?;
    }
    Ok(())
}

fn find(name: &str) -> Result<Found> {
    let Some(reference) = names::reference(name) else {
        let checkpoint = model::open(name)?;
        let path = (!names::is_built_in(name)).then(|| name.to_owned());
        let (place, files) = match &path {
            Some(path) if Path::new(path).is_dir() => ("folder", vec![PathBuf::from(path)]),
            Some(path) => ("file", vec![PathBuf::from(path)]),
            None => ("this program", Vec::new()),
        };
        let (name, bytes) = (checkpoint.name().to_owned(), checkpoint.file_bytes());
        return Ok(Found { name, place, path, bytes, files });
    };
    let hub = hub::open()?;
    let Some(model) = hub::find(&hub, &reference) else {
        let error = anyhow!("{name} is not on this machine ({})", hub.searched());
        let hint = format!("`pelton pull {name}` downloads it; {}", hints::what_a_model_is());
        return Err(Hint { error, hint }.into());
    };
    let path = Some(model.path.display().to_string());
    let place = model.place.name();
    Ok(Found { name: model.name, place, path, bytes: model.bytes, files: model.files })
}

fn text(checkpoint: &Checkpoint, key: &str) -> Option<String> {
    let value = checkpoint.metadata().iter().find(|(found, _)| *found == key)?.1;
    match value {
        Value::String(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

fn number(checkpoint: &Checkpoint, key: &str) -> Option<u64> {
    match checkpoint.metadata().iter().find(|(found, _)| *found == key)?.1 {
        Value::U32(number) => Some(u64::from(*number)),
        Value::U64(number) => Some(*number),
        _ => None,
    }
}
