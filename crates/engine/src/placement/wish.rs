//! The placement that the options of a load ask for.

use pelton_graph::{Error as GraphError, Plan, used_experts};
use pelton_place::{FeedForwards, host_parts};

use super::Devices;
use crate::{
    Error,
    api::{HostLayers, LoadOptions, PlacementOptions},
};

/// The placement that options ask for, on the devices that there are.
pub(super) struct Wish {
    pub(super) feed_forwards: FeedForwardWish,
    pub(super) layers: LayerWish,
    /// Whether further GPUs may be opened for the model.
    pub(super) is_free: bool,
}

/// The feed-forwards that stay in RAM next to GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeedForwardWish {
    /// None.
    None,
    /// Those of this many of the first layers.
    First(FeedForwards, usize),
    /// As few as the memory demands, before whole layers leave the GPU.
    Fewest(FeedForwards),
}

/// The layers that the CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerWish {
    /// Those before a layer; none before the first. The memory is not asked: a load
    /// says what is too large.
    Before(usize),
    /// All.
    All,
    /// As few as the memory demands.
    Fewest,
    /// None, on several GPUs that each have some of the layers.
    Divided,
}

impl Wish {
    /// The wish of the options of a load.
    ///
    /// # Errors
    ///
    /// [`GraphError::Placement`] if they contradict each other, the model or the devices.
    pub(super) fn of(devices: &Devices, plan: &Plan, options: &LoadOptions) -> Result<Self, Error> {
        let PlacementOptions { gpu_layers, host_experts, host_ffn, split, .. } = &options.placement;
        if !split.is_empty() && devices.all.len() < 2 {
            let what = format!("{split:?} layers on one device, expected several GPUs");
            return Err(GraphError::Placement(what).into());
        }
        let is_given = gpu_layers.is_some() || host_experts.is_some() || host_ffn.is_some();
        Ok(Self {
            feed_forwards: FeedForwardWish::of(devices, plan, options)?,
            layers: LayerWish::of(devices, plan, options),
            is_free: !is_given && split.is_empty() && options.effort.is_none(),
        })
    }
}

impl Wish {
    /// Whether the choice depends on the memory.
    pub(super) fn asks_memory(&self) -> bool {
        matches!(self.feed_forwards, FeedForwardWish::Fewest(_))
            || matches!(self.layers, LayerWish::Fewest | LayerWish::Divided)
    }
}

impl FeedForwardWish {
    /// The layers whose feed-forwards stay in RAM in any case.
    pub(super) fn first(self) -> Option<(FeedForwards, usize)> {
        match self {
            Self::First(which, layers) => Some((which, layers)),
            Self::None | Self::Fewest(_) => None,
        }
    }

    fn of(devices: &Devices, plan: &Plan, options: &LoadOptions) -> Result<Self, Error> {
        let (which, layers) = which(plan, options)?;
        let is_possible =
            devices.ram.is_some() && devices.all.iter().all(|gpu| gpu.has_host_parts());
        let is_found = is_possible && !host_parts(plan, which, usize::MAX).is_empty();
        if layers.is_some_and(|layers| layers != HostLayers::First(0)) {
            if devices.ram.is_none() {
                tracing::warn!("feed-forwards in RAM, but the model runs on the CPU alone");
            } else if !is_found {
                let what = format!(
                    "the model has no {} that can stay in RAM next to '{}'; choose whole layers by the \
                     number of those on the GPU",
                    which.name(),
                    devices.names()
                );
                return Err(GraphError::Placement(what).into());
            }
        }
        let leaves =
            devices.spills && devices.all.len() == 1 && options.placement.gpu_layers.is_none();
        let is_fewest = match layers {
            Some(HostLayers::First(count)) if is_possible => return Ok(Self::First(which, count)),
            Some(layers) => layers == HostLayers::Auto,
            None => leaves,
        };
        // an effort keeps its weights on one device
        Ok(match is_fewest && is_found && options.effort.is_none() {
            true => Self::Fewest(which),
            false => Self::None,
        })
    }
}

/// The feed-forwards that options mean, and the layers if they name them.
fn which(plan: &Plan, options: &LoadOptions) -> Result<(FeedForwards, Option<HostLayers>), Error> {
    let has_experts = plan.steps.iter().any(|step| used_experts(&step.op).is_some());
    let experts = match options.placement.host_experts {
        Some(HostLayers::IfAny(_)) if !has_experts => {
            tracing::warn!("experts in RAM, but the model has no experts: nothing is kept there");
            None
        }
        Some(HostLayers::IfAny(layers)) => Some(HostLayers::First(layers)),
        other => other,
    };
    match (experts, options.placement.host_ffn) {
        (Some(_), Some(_)) => {
            let what =
                "layers for experts and layers for feed-forwards in RAM, expected one of both";
            Err(GraphError::Placement(what.to_owned()).into())
        }
        (Some(layers), None) => Ok((FeedForwards::Experts, Some(layers))),
        (None, layers) => Ok((FeedForwards::All, layers)),
    }
}

impl LayerWish {
    fn of(devices: &Devices, plan: &Plan, options: &LoadOptions) -> Self {
        if devices.ram.is_none() {
            if let Some(layers) = options.placement.gpu_layers.filter(|&layers| layers > 0) {
                tracing::warn!(layers, "layers for a GPU, but the model runs on the CPU alone");
            }
            return Self::Before(0);
        }
        let is_single = devices.all.len() == 1;
        match options.placement.gpu_layers {
            Some(0) => Self::All,
            // the output counts as a layer
            Some(count) => Self::Before((plan.shape.layers + 1).saturating_sub(count)),
            // an effort keeps its weights on one device
            None if is_single && (!devices.spills || options.effort.is_some()) => Self::Before(0),
            None if devices.spills => Self::Fewest,
            None => Self::Divided,
        }
    }
}
