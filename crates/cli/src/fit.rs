//! The options that share a model between a GPU and the CPU.

use anyhow::Result;
use pelton::{Checkpoint, Device, HostLayers, LoadOption, LoadOptions};

use crate::{
    load_flags::{self, PlacementFlags},
    output::note,
};

/// Flags of commands that place a model.
#[derive(clap::Args)]
pub(crate) struct FitArgs {
    #[command(flatten)]
    flags: PlacementFlags,
    /// As --host-experts, but a model without experts keeps nothing
    #[arg(long, value_name = "N", hide = true, conflicts_with = "host-experts")]
    n_cpu_moe: Option<usize>,
    #[arg(long, value_name = "GPU=SIZE", value_parser = budget,
          help = load_flags::help("gpu_memory"))]
    fit_budget: Option<(Device, String)>,
}

impl FitArgs {
    /// The options of a load on a device with these flags.
    pub(crate) fn options(&self, options: LoadOptions, device: Device) -> Result<LoadOptions> {
        let mut options = self.flags.apply(options)?;
        if let Some(layers) = self.n_cpu_moe {
            options = options.host_experts(HostLayers::IfAny(layers));
        }
        if let Some((of, size)) = &self.fit_budget {
            match of.gpus().any(|gpu| device.gpus().any(|other| gpu == other)) {
                true => set_memory(&mut options, size).map_err(anyhow::Error::msg)?,
                false => note!("--fit-budget is of {of}, and the model runs on {device}"),
            }
        }
        Ok(options)
    }

    /// Says where a flag changes nothing of a model, as llama.cpp has it.
    pub(crate) fn say(&self, checkpoint: &Checkpoint) {
        // llama.cpp finds experts by the names of their tensors too
        let has_experts = checkpoint.tensors().any(|tensor| tensor.name.contains("exps."));
        if self.n_cpu_moe.is_some() && !has_experts {
            note!("--n-cpu-moe changes nothing: the model has no experts");
        }
    }
}

/// Sets the memory of a GPU to a size in words.
fn set_memory(options: &mut LoadOptions, size: &str) -> Result<(), String> {
    LoadOption::find("gpu_memory").map_or(Ok(()), |option| option.set(options, size))
}

/// Parses a GPU and the size of its memory.
fn budget(text: &str) -> Result<(Device, String), String> {
    let fail = || "expected gpu:N=SIZE, such as gpu:0=8G".to_owned();
    let (gpu, size) = text.split_once('=').ok_or_else(fail)?;
    match gpu.parse() {
        Ok(device @ Device::Gpu(_)) => {
            set_memory(&mut LoadOptions::default(), size)?;
            Ok((device, size.to_owned()))
        }
        _ => Err(fail()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    #[test]
    fn budgets_are_of_gpus() {
        assert_eq!(budget("gpu:0=8G"), Ok((Device::Gpu(Some(0)), "8G".to_owned())));
        assert_eq!(budget("gpu=1M"), Ok((Device::Gpu(None), "1M".to_owned())));
        for text in ["", "8G", "cpu=8G", "gpu:0", "gpu:0=", "gpu:0=50%", "gpu:0=auto", "gpu:x=1G"] {
            assert!(budget(text).unwrap_err().starts_with("expected "), "{text}");
        }
    }

    #[test]
    fn a_budget_is_of_one_gpu() {
        let of = |text: &str, device: &str| {
            let budget = format!("--fit-budget={text}");
            let words = ["--gpu-layers=3", "--host-ffn=2", &budget];
            let command = FitArgs::augment_args(Command::new("fit").no_binary_name(true));
            let args = FitArgs::from_arg_matches(&command.get_matches_from(words)).unwrap();
            let options = args.options(LoadOptions::default(), device.parse().unwrap()).unwrap();
            assert_eq!(options.placement.gpu_layers, Some(3));
            assert_eq!(options.placement.host_ffn, Some(HostLayers::First(2)));
            options.placement.gpu_memory
        };
        for device in ["auto", "gpu", "gpu:0", "gpu:0,cpu", "gpu,cpu"] {
            assert_eq!(of("gpu:0=1G", device), Some(1 << 30), "{device}");
            assert_eq!(of("gpu:1=1G", device), None, "{device}");
        }
        assert_eq!(of("gpu:0=1G", "cpu"), None);
    }
}
