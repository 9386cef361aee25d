//! `pelton pull`: the download of models.

use std::io::Write;

use anyhow::Result;
use pelton_hub::{FileName, Towers};

use crate::{
    hub,
    load_flags::Switch,
    output::{self, note},
};

#[derive(clap::Args)]
#[command(
    after_help = "A NAME is OWNER/NAME of Hugging Face, a short name such as qwen3:0.6b, or the address of a \
                  .gguf file.\n:QUANT chooses a quantization, as in Qwen/Qwen3-0.6B-GGUF:Q8_0; without it the \
                  most exact one\nthat fits the free memory is taken. @REVISION chooses a branch, a tag or a \
                  commit. An interrupted\ndownload goes on where it ended. HF_ENDPOINT, HF_TOKEN and \
                  HF_HUB_CACHE work as in Python's\nhuggingface_hub, whose cache is used."
)]
pub(crate) struct Args {
    /// Names of models
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Download the vision tower of a GGUF model too, if it has one
    #[arg(long, value_name = "WHEN", value_enum, default_value = "on")]
    pictures: Switch,
    /// The file of the vision tower in the repository. By default it has the type F16, or else Q8_0
    /// or BF16
    #[arg(long, value_name = "FILE")]
    mmproj: Option<FileName>,
}

impl Args {
    fn towers(&self) -> Towers {
        match (&self.mmproj, self.pictures) {
            (_, Switch::Off) => Towers::Off,
            (Some(file), Switch::On) => Towers::Named(file.clone()),
            (None, Switch::On) => Towers::Auto,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let hub = hub::open_with(args.towers())?;
    for name in &args.names {
        let plan = hub::plan(&hub, &hub::reference(name)?)?;
        let was_there = plan.missing_bytes() == 0;
        let model = hub::fetch(&hub, &plan)?;
        if was_there {
            note!("{} is there already", model.name);
        }
        writeln!(output::stdout(), "{}", model.path.display())?;
    }
    Ok(())
}
