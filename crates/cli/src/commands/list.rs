//! `pelton list`: the models of this machine.

use std::io::Write;

use anyhow::Result;
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
    /// Write a JSON list
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let models = hub::open()?.list();
    let mut out = output::stdout();
    if args.json {
        let list: serde_json::Value = models
            .iter()
            .map(|model| {
                json!({
                    "name": model.name, "bytes": model.bytes, "place": model.place.name(),
                    "path": model.path,
                })
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
    let width = models.iter().map(|model| name(model).chars().count()).max().unwrap_or_default();
    writeln!(out, "{:<width$}  {:>11}  PLACE", "NAME", "SIZE")?;
    for model in models {
        let size = output::bytes(model.bytes);
        writeln!(out, "{:<width$}  {size:>11}  {}", name(&model), model.place.name())?;
    }
    Ok(())
}
