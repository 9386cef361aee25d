//! The devices of a model's layers, as a load asks for them.

use std::str::FromStr;

/// The layers whose feed-forwards stay in the memory of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostLayers {
    /// As few of the first ones as the memory of the GPU demands.
    Auto,
    /// This many of the first ones; a greater number than the model has is all of them.
    First(usize),
    /// The experts of this many first layers. A model without experts keeps nothing, where
    /// [`First`](Self::First) is an error.
    IfAny(usize),
}

impl FromStr for HostLayers {
    type Err = String;

    /// Parses `auto` or a number.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::First).map_err(|_| "expected auto or a number".to_owned()),
        }
    }
}

/// The devices of a model's layers. The default lets the load choose them by their memory.
///
/// ```
/// use pelton::{HostLayers, LoadOptions};
///
/// let options = LoadOptions::default().host_ffn(HostLayers::First(4)).gpu_margin(1 << 30);
/// assert_eq!(options.placement.gpu_margin, Some(1 << 30));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PlacementOptions {
    /// The number of layers on the GPU, counted from the last one; the output is a layer too. The
    /// CPU runs the others. `None` for as many as the memory of the GPU holds.
    pub gpu_layers: Option<usize>,
    /// The layers whose experts stay in the memory of the CPU next to a GPU, from the first one on;
    /// `None` as for [`host_ffn`](Self::host_ffn).
    pub host_experts: Option<HostLayers>,
    /// The layers whose feed-forwards stay in the memory of the CPU next to a GPU, from the first
    /// one on. `None` is for as few as the memory of the GPU demands, where layers may leave it.
    pub host_ffn: Option<HostLayers>,
    /// The length in tokens from which on prompts stream weights to the GPU, where feed-forwards or
    /// experts stay in the memory of the CPU. Shorter prompts are computed as generated tokens are.
    /// `None` for the length from which on a measurement at the first load finds the stream faster.
    /// Another length can give another text.
    pub stream_from: Option<usize>,
    /// The layers of each of several GPUs, in the order of their numbers; empty for a choice by
    /// their bytes, or by the memory of the GPUs.
    pub split: Vec<usize>,
    /// The most bytes of the GPU's memory, and of each of several, that the choice of layers counts
    /// on; `None` for all that is free.
    pub gpu_memory: Option<u64>,
    /// Bytes of the GPU's memory that the choice of layers leaves free; `None` for 1/32 of it and
    /// at least 256 MiB, or none where [`gpu_memory`](Self::gpu_memory) is given.
    pub gpu_margin: Option<u64>,
}
