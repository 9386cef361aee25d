//! `pelton rm`: the removal of downloaded models.

use std::path::Path;

use anyhow::{Result, bail};

use crate::{
    hub,
    output::{self, note},
};

#[derive(clap::Args)]
#[command(
    after_help = "OWNER/NAME removes all files of a repository, OWNER/NAME:QUANT one quantization. Models of LM \
                  Studio\nand Ollama stay where they are."
)]
pub(crate) struct Args {
    /// Names of models, as `pelton list` shows them
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let hub = hub::open()?;
    for name in &args.names {
        let reference = hub::reference(name);
        if reference.is_err() && Path::new(name).exists() {
            bail!(
                "{name} is a file or folder of yours, expected the name of a downloaded model: the \
                 system's own command removes it"
            );
        }
        let removed = hub.remove(&reference?).map_err(hub::explained)?;
        note!("{name} is removed: {} are free", output::bytes(removed.bytes));
    }
    Ok(())
}
