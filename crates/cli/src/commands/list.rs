//! `pelton list`: the models of this machine.

use std::io::Write;

use anyhow::Result;
use pelton::{Checkpoint, graph, weights::Problem};
use pelton_hub::Model;
use pelton_printable::line;
use serde_json::json;

use crate::{
    hub,
    output::{self, note},
};

#[derive(clap::Args)]
#[command(
    after_help = "Shown are the models of the hub's cache, of LM Studio and of Ollama. All commands take \
                  their names."
)]
pub(crate) struct Args {
    /// Show also models that cannot be loaded, each with the reason
    #[arg(long)]
    all: bool,
    /// Write a JSON list
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let models = hub::open()?.list().into_iter().map(|model| (fault(&model), model));
    let (mut models, faulty): (Vec<_>, Vec<_>) = models.partition(|(fault, _)| fault.is_none());
    if args.all {
        models.extend(faulty);
    } else if !faulty.is_empty() {
        note!("models that cannot be loaded: {}; `pelton list --all` shows why", faulty.len());
    }
    let mut out = output::stdout();
    if args.json {
        let list: serde_json::Value = models
            .iter()
            .map(|(fault, model)| {
                let mut object = json!({
                    "name": model.name, "bytes": model.bytes, "place": model.place.name(),
                    "path": model.path,
                });
                if let Some(fault) = fault {
                    object["fault"] = fault.as_str().into();
                }
                object
            })
            .collect();
        writeln!(out, "{list:#}")?;
        return Ok(());
    }
    if models.is_empty() {
        note!("there are no models yet; `pelton pull qwen3:0.6b` downloads one");
        return Ok(());
    }
    let name = |model: &Model| line(&model.name).into_owned();
    let widths = models.iter().map(|(_, model)| name(model).chars().count());
    let width = widths.max().unwrap_or_default();
    writeln!(out, "{:<width$}  {:>11}  PLACE", "NAME", "SIZE")?;
    for (fault, model) in models {
        let (size, place) = (output::bytes(model.bytes), model.place.name());
        let fault =
            fault.map_or_else(String::new, |fault| format!("; not usable: {}", line(&fault)));
        writeln!(out, "{:<width$}  {size:>11}  {place}{fault}", name(&model))?;
    }
    Ok(())
}

/// Why no command can load a model, if none can. The file's header is read, and no weight.
fn fault(model: &Model) -> Option<String> {
    let checkpoint = match Checkpoint::open(&model.path) {
        Ok(checkpoint) => checkpoint,
        // an adapter is loaded with its model
        Err(error) if matches!(error.problem(), Problem::AdapterFolder) => return None,
        Err(error) => return Some(error.problem().to_string()),
    };
    match checkpoint.metadata().opt_string("general.type") {
        Ok(Some("adapter")) => None,
        _ => graph::build(&checkpoint).err().map(|error| error.to_string()),
    }
}
