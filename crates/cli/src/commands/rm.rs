//! `pelton rm`: the removal of downloaded models.

use anyhow::Result;

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
        let removed = hub.remove(&hub::reference(name)?).map_err(hub::explained)?;
        note!("{name} is removed: {} are free", output::bytes(removed.bytes));
    }
    Ok(())
}
