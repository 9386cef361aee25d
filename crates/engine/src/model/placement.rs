//! The devices of a model: one that holds it, or a GPU and the CPU's memory.
//!
//! A model that fits one device runs there. Else whole layers leave the GPU, the first ones first, and as
//! few as the memory allows. Keys and values stay with their layer.

use std::sync::Arc;

use pelton_graph::{Backend, BuildOptions, Error as GraphError, Limits, Plan};
use pelton_place::{DeviceShare, Placement, Split, borders, limits_of};
use pelton_weights::Checkpoint;

use super::{draft, value_plans};
use crate::{Error, api::LoadOptions, kv};

/// The devices that an engine has opened.
pub(crate) struct Devices {
    /// The device that was chosen.
    pub(crate) main: Arc<dyn Backend>,
    /// The CPU next to a GPU.
    pub(crate) ram: Option<Arc<dyn Backend>>,
    /// Whether layers leave the GPU where a model does not fit.
    pub(crate) spills: bool,
}

impl Devices {
    /// A single device.
    pub(crate) fn one(main: Arc<dyn Backend>) -> Self {
        Self { main, ram: None, spills: false }
    }
}

/// The devices of one model.
pub(crate) struct Placed {
    pub(super) backend: Arc<dyn Backend>,
    /// The device of the output matrix, where heads and draft models run.
    pub(super) last: Arc<dyn Backend>,
    split: Option<Split>,
}

impl Placed {
    pub(crate) fn one(backend: Arc<dyn Backend>) -> Self {
        Self { last: Arc::clone(&backend), backend, split: None }
    }

    /// The first layers on `first`, those from `layer` on on `last`.
    fn split(
        first: &Arc<dyn Backend>,
        last: &Arc<dyn Backend>,
        layer: usize,
    ) -> Result<Self, Error> {
        let split = Split::new(vec![Arc::clone(first), Arc::clone(last)], vec![layer])?;
        let last = Arc::clone(last);
        Ok(Self { backend: Arc::new(split.clone()), last, split: Some(split) })
    }

    /// The part of each device.
    fn parts(&self, plan: &Plan) -> Result<Vec<(&dyn Backend, Plan)>, Error> {
        match &self.split {
            None => Ok(vec![(self.backend.as_ref(), plan.clone())]),
            Some(split) => Ok(split.parts(plan)?),
        }
    }

    /// The limits of a load. `reserved` bytes of the last device are for a head.
    pub(super) fn limits(
        &self,
        plan: &Plan,
        tokens: usize,
        options: &LoadOptions,
        reserved: u64,
    ) -> Result<Limits, Error> {
        let parts = self.parts(plan)?;
        let free = |i: usize| {
            let (device, part) = &parts[i];
            let reserved = if i + 1 == parts.len() { reserved } else { 0 };
            let free = move |limits: &Limits| -> Result<Option<u64>, Error> {
                let needs = device.needs(part, &limits_of(part, limits))?;
                let states = 4 * part.state_len() as u64 * limits.sequences as u64;
                let free = kv::free(budget(options, *device), &needs, states);
                Ok(free.map(|free| free.saturating_sub(reserved)))
            };
            kv::Part { plan: part, free: Box::new(free) }
        };
        let of_parts: Vec<kv::Part<'_>> = (0..parts.len()).map(free).collect();
        let rows = self.backend.prompt_rows(plan, file_bytes(plan));
        kv::limits(options, &kv::Sizes { plan, tokens, parts: &of_parts, rows })
    }

    /// The table of a load with these limits.
    pub(super) fn table(
        &self,
        plan: &Plan,
        limits: &Limits,
        options: &LoadOptions,
    ) -> Result<Placement, Error> {
        let share = |(device, part): (&dyn Backend, Plan)| {
            let needs = device.needs(&part, &limits_of(&part, limits))?;
            Ok(DeviceShare::new(device.name(), &part, needs, budget(options, device)))
        };
        let shares = self.parts(plan)?.into_iter().map(share).collect::<Result<_, Error>>()?;
        Ok(Placement::new(limits, shares))
    }

    /// Refuses a placement of a plan that is not fused, if a device has too little memory for it.
    fn check(&self, plan: &Plan, options: &LoadOptions) -> Result<(), Error> {
        let plan = plan.clone().fuse(&|op, plan| self.backend.accepts(op, plan));
        let limits = self.limits(&plan, plan.vocab, options, 0)?;
        for DeviceShare { device, needs, budget, .. } in
            self.table(&plan, &limits, options)?.devices
        {
            let Some(budget) = budget else { continue };
            needs.check(&device, budget, 0)?;
            // a model alone on the CPU may be larger than the memory, as its file is mapped
            let needed = needs.most().saturating_add(needs.mapped);
            if self.split.is_some() && needed > budget {
                return Err(Error::Graph(GraphError::LoadMemory {
                    device,
                    needed: needed.into(),
                    available: budget,
                    terms: format!(
                        "{} for weights in the file's map; choose a smaller model, or one of fewer bits",
                        needs.mapped
                    ),
                }));
            }
        }
        Ok(())
    }
}

/// Bytes that a load may take on a device: what is free, less a margin on a GPU.
fn budget(options: &LoadOptions, device: &dyn Backend) -> Option<u64> {
    /// The least margin where none is chosen, and the part of the free memory: one of this many.
    const LEAST_MARGIN: u64 = 256 << 20;
    const MARGIN_PART: u64 = 32;
    let free = device.budget();
    if device.name() == "cpu" {
        return free;
    }
    let free = free.into_iter().chain(options.gpu_memory).min()?;
    let margin = options.gpu_margin.unwrap_or_else(|| match options.gpu_memory {
        // a limit is what the load may take
        Some(_) => 0,
        None => LEAST_MARGIN.max(free / MARGIN_PART),
    });
    Some(free.saturating_sub(margin))
}

/// Bytes of a plan's weights in their file.
pub(super) fn file_bytes(plan: &Plan) -> u64 {
    let bytes = plan.weights.iter().filter_map(|weight| weight.dtype.bytes_of(weight.len()));
    bytes.map(|bytes| bytes as u64).sum()
}

/// The plan of a checkpoint, before its steps are fused.
pub(super) fn plan_of(checkpoint: &Checkpoint, options: &LoadOptions) -> Result<Plan, Error> {
    let build = BuildOptions {
        context: kv::wanted_context(options),
        pooling: options.pooling.map(value_plans::pooling_type),
        hidden: draft::head_plan(checkpoint, options)?.is_some(),
    };
    let plan = value_plans::without_norm(pelton_graph::build_with(checkpoint, &build)?);
    value_plans::refuse_speech(checkpoint, &plan)?;
    Ok(plan)
}

/// The devices for a plan that is not fused.
///
/// # Errors
///
/// If no placement of its layers fits, or the one that the options demand is not possible.
pub(crate) fn choose(
    devices: &Devices,
    plan: &Plan,
    options: &LoadOptions,
) -> Result<Placed, Error> {
    let whole = || Placed::one(Arc::clone(&devices.main));
    let Some(ram) = &devices.ram else {
        if let Some(layers) = options.gpu_layers.filter(|&layers| layers > 0) {
            tracing::warn!(layers, "layers for a GPU, but the model runs on the CPU alone");
        }
        return Ok(whole());
    };
    if let Some(count) = options.gpu_layers {
        // the output counts as a layer
        return match (plan.shape.layers + 1).saturating_sub(count) {
            0 => Ok(whole()),
            _ if count == 0 => Ok(Placed::one(Arc::clone(ram))),
            first => Placed::split(ram, &devices.main, first),
        };
    }
    if !devices.spills || options.effort.is_some() {
        return Ok(whole());
    }
    let Err(refused) = whole().check(plan, options) else { return Ok(whole()) };
    tracing::info!(%refused, "the model does not fit the GPU");
    for layer in borders(plan) {
        let placed = Placed::split(ram, &devices.main, layer)?;
        match placed.check(plan, options) {
            Ok(()) => return Ok(placed),
            Err(error) => tracing::debug!(layer, %error, "this split does not fit"),
        }
    }
    let placed = Placed::one(Arc::clone(ram));
    placed.check(plan, options).map(|()| placed)
}

/// The table of a model that is not loaded.
///
/// # Errors
///
/// As a load, as far as it goes without the weights.
pub(crate) fn explain(
    devices: &Devices,
    checkpoint: &Checkpoint,
    options: &LoadOptions,
) -> Result<Placement, Error> {
    let plan = plan_of(checkpoint, options)?;
    let placed = choose(devices, &plan, options)?;
    let plan = plan.fuse(&|op, plan| placed.backend.accepts(op, plan));
    let limits = placed.limits(&plan, plan.vocab, options, 0)?;
    placed.table(&plan, &limits, options)
}
