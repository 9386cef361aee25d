//! The options that share a model between a GPU and the CPU.

use pelton::{Checkpoint, Device, HostLayers, LoadOptions};

use crate::{memory, output::note};

/// Flags of commands that place a model.
#[derive(clap::Args)]
pub(crate) struct FitArgs {
    /// Run the last N layers on the GPU and the others on the CPU, where the output counts as a layer; 0
    /// is the CPU alone. By default as many as the GPU's memory holds. llama.cpp's -ngl means the same
    #[arg(long, value_name = "N")]
    pub(crate) gpu_layers: Option<usize>,
    /// Keep the experts of the first N layers in the CPU's memory. The CPU computes them for each token; for prompts
    /// the GPU reads them from there. N can be auto: as few as the GPU's memory demands. llama.cpp's --n-cpu-moe means
    /// the same, and is ignored for models without experts
    #[arg(long, value_name = "N")]
    pub(crate) host_experts: Option<HostLayers>,
    /// As --host-experts, but nothing of models without experts
    #[arg(long, value_name = "N", hide = true, conflicts_with = "host_experts")]
    n_cpu_moe: Option<usize>,
    /// The same of all feed-forwards, of models without experts too
    #[arg(long, value_name = "N")]
    pub(crate) host_ffn: Option<HostLayers>,
    /// Stream weights from the CPU's memory for prompts of N tokens and more, where --host-experts or --host-ffn keeps
    /// them there. The CPU computes shorter prompts. By default the length from which on a measurement finds it faster
    #[arg(long, value_name = "N")]
    pub(crate) stream_from: Option<usize>,
    /// Run this many layers on each of several GPUs, such as 20,12; by default as many bytes on each, or as many as
    /// its memory holds
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub(crate) split: Vec<usize>,
    /// Leave SIZE of the GPU's memory free when layers are chosen: bytes with a suffix K, M or G. By
    /// default 1/32 of what is free, and at least 256M
    #[arg(long, value_name = "SIZE", value_parser = memory::bytes)]
    pub(crate) fit_margin: Option<u64>,
    /// Choose layers as if a GPU, and each of several, had only this memory free, such as gpu:0=8G
    #[arg(long, value_name = "GPU=SIZE", value_parser = budget)]
    pub(crate) fit_budget: Option<(Device, u64)>,
}

impl FitArgs {
    /// The options of a load on a device with these flags.
    pub(crate) fn options(&self, mut options: LoadOptions, device: Device) -> LoadOptions {
        options.gpu_layers = self.gpu_layers.or(options.gpu_layers);
        let if_any = self.n_cpu_moe.map(HostLayers::IfAny);
        options.host_experts = self.host_experts.or(if_any).or(options.host_experts);
        options.host_ffn = self.host_ffn.or(options.host_ffn);
        options.stream_from = self.stream_from.or(options.stream_from);
        if !self.split.is_empty() {
            options.split.clone_from(&self.split);
        }
        options.gpu_margin = self.fit_margin.or(options.gpu_margin);
        if let Some((of, bytes)) = self.fit_budget {
            match of.gpus().any(|gpu| device.gpus().any(|other| gpu == other)) {
                true => options.gpu_memory = Some(bytes),
                false => note!("--fit-budget is of {of}, and the model runs on {device}"),
            }
        }
        options
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

/// Parses a GPU and its memory.
fn budget(text: &str) -> Result<(Device, u64), String> {
    let fail = || "expected gpu:N=SIZE, such as gpu:0=8G".to_owned();
    let (gpu, size) = text.split_once('=').ok_or_else(fail)?;
    match gpu.parse() {
        Ok(device @ Device::Gpu(_)) => Ok((device, memory::bytes(size)?)),
        _ => Err(fail()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_of_gpus() {
        assert_eq!(budget("gpu:0=8G"), Ok((Device::Gpu(Some(0)), 8 << 30)));
        assert_eq!(budget("gpu=1M"), Ok((Device::Gpu(None), 1 << 20)));
        for text in ["", "8G", "cpu=8G", "gpu:0", "gpu:0=", "gpu:0=50%", "gpu:0=auto", "gpu:x=1G"] {
            assert!(budget(text).unwrap_err().starts_with("expected "), "{text}");
        }
    }

    #[test]
    fn a_budget_is_of_one_gpu() {
        let of = |text: &str, device: &str| {
            let fit_budget = Some(budget(text).unwrap());
            let args = FitArgs {
                gpu_layers: Some(3),
                host_experts: None,
                n_cpu_moe: None,
                host_ffn: Some("2".parse().unwrap()),
                stream_from: None,
                split: Vec::new(),
                fit_margin: None,
                fit_budget,
            };
            let options = args.options(LoadOptions::default(), device.parse().unwrap());
            assert_eq!(options.gpu_layers, Some(3));
            assert_eq!(options.host_ffn, Some(HostLayers::First(2)));
            options.gpu_memory
        };
        for device in ["auto", "gpu", "gpu:0", "gpu:0,cpu", "gpu,cpu"] {
            assert_eq!(of("gpu:0=1G", device), Some(1 << 30), "{device}");
            assert_eq!(of("gpu:1=1G", device), None, "{device}");
        }
        assert_eq!(of("gpu:0=1G", "cpu"), None);
    }
}
