//! The devices of a model: one that holds it, several GPUs, or GPUs and the CPU's memory.
//!
//! Several GPUs have as many bytes of layers each, or as many as their memory holds. Where the model does not fit, the
//! feed-forwards of the first layers leave a GPU, as few as the memory allows; where these do not suffice, whole layers do.
//! Keys and values stay with their layer.

use std::{cmp::Reverse, sync::Arc};

use pelton_graph::{Backend, BuildOptions, Error as GraphError, Limits, Plan, used_experts};
use pelton_place::{
    DeviceShare, FeedForwards, HostParts, Placement, Split, borders, file_bytes, host_parts,
    limits_of,
};
use pelton_weights::Checkpoint;

use super::{KnownRates, MoreGpus, layer_ranges::LayerRanges, predict};
use crate::{
    Error,
    api::{HostLayers, LoadOptions, PlacementOptions},
    kv,
    model::{draft, value_plans},
};

/// The devices that an engine has opened.
#[derive(Clone)]
pub(crate) struct Devices {
    /// The devices that were chosen, in the order of their layers: one, or several GPUs.
    pub(crate) all: Vec<Arc<dyn Backend>>,
    /// Further GPUs for models that do not fit the single one, where the choice is automatic.
    pub(crate) more: Option<Arc<MoreGpus>>,
    /// The CPU next to a GPU.
    pub(crate) ram: Option<Arc<dyn Backend>>,
    /// The same CPU, whose models have no copies of weights next to those in the map of their file.
    pub(crate) mapped: Option<Arc<dyn Backend>>,
    /// Whether layers leave the GPU where a model does not fit.
    pub(crate) spills: bool,
    /// The rates by which their speed is predicted.
    pub(crate) rates: Arc<KnownRates>,
}

/// The devices of a model, of which feed-forwards of the first layers may be on the CPU.
struct Chosen<'a> {
    devices: &'a Devices,
    /// Each GPU with such feed-forwards; empty if there are none.
    host: Vec<Arc<HostParts>>,
}

impl<'a> Chosen<'a> {
    fn new(devices: &'a Devices) -> Self {
        Self { devices, host: Vec::new() }
    }

    /// The same with the feed-forwards of the first layers on the CPU. It copies their weights where the memory holds
    /// these and the file, whose weights are streamed.
    fn with_host(
        devices: &'a Devices,
        plan: &Plan,
        (which, layers): (FeedForwards, usize),
        options: &LoadOptions,
    ) -> Self {
        let on = |cpu: &Arc<dyn Backend>, gpu: &Arc<dyn Backend>| {
            let parts = HostParts::new(Arc::clone(gpu), Arc::clone(cpu), which, layers);
            Arc::new(match options.placement.stream_from {
                Some(tokens) => parts.streaming_from(tokens),
                None => parts,
            })
        };
        let free = devices.ram.as_ref().and_then(|cpu| cpu.budget());
        let is_mapped = free.is_some_and(|free| free < file_bytes(plan).saturating_mul(2));
        let cpu =
            devices.mapped.as_ref().filter(|_| is_mapped).or(devices.ram.as_ref()).into_iter();
        let host = cpu.flat_map(|cpu| devices.all.iter().map(move |gpu| on(cpu, gpu))).collect();
        Self { devices, host }
    }

    /// The GPUs, or the single device.
    fn all(&self) -> Vec<Arc<dyn Backend>> {
        match self.host.is_empty() {
            true => self.devices.all.clone(),
            false => {
                let host = self.host.iter();
                host.map(|gpu| -> Arc<dyn Backend> { Arc::clone(gpu) as _ }).collect()
            }
        }
    }
}

impl Devices {
    /// A single device.
    pub(crate) fn one(main: Arc<dyn Backend>) -> Self {
        let rates = Arc::new(KnownRates::of_user());
        Self { all: vec![main], more: None, ram: None, mapped: None, spills: false, rates }
    }

    /// The device that has a model that is not shared, and the output of one that is.
    pub(crate) fn main(&self) -> &Arc<dyn Backend> {
        &self.all[self.all.len() - 1]
    }

    /// The devices by whose rates the speed is predicted: all, and the CPU next to them. None where one of them has no
    /// rates.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        let has_rates = self.all.iter().all(|device| device.rates_key().is_some());
        let more = self.more.iter().flat_map(|more| more.opened());
        self.ram.iter().chain(&self.mapped).chain(&self.all).chain(more).filter(move |_| has_rates)
    }

    /// The `count` GPUs with the most free memory, of the single one and those next to it.
    fn largest(&self, count: usize, options: &LoadOptions) -> Self {
        let more = self.more.iter().flat_map(|more| more.all());
        let all: Vec<_> = self.all.iter().chain(more).collect();
        let mut numbers: Vec<usize> = (0..all.len()).collect();
        numbers.sort_by_key(|&number| Reverse(budget(options, all[number].as_ref())));
        numbers.truncate(count);
        numbers.sort_unstable();
        let all = numbers.into_iter().map(|number| Arc::clone(all[number])).collect();
        Self { all, more: None, ..self.clone() }
    }

    /// The names of all.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.all.iter().map(|device| device.name()).collect();
        names.join(" + ")
    }
}

/// The devices of one model.
pub(crate) struct Placed {
    pub(crate) backend: Arc<dyn Backend>,
    /// The device of the output matrix, where heads and draft models run.
    pub(crate) last: Arc<dyn Backend>,
    split: Option<Split>,
    /// The GPUs with feed-forwards on the CPU, which are the last devices.
    host: Vec<Arc<HostParts>>,
    rates: Arc<KnownRates>,
}

impl Placed {
    /// A model on one device.
    pub(crate) fn one(backend: Arc<dyn Backend>, rates: Arc<KnownRates>) -> Self {
        Self { last: Arc::clone(&backend), backend, split: None, host: Vec::new(), rates }
    }

    /// The whole model on the only GPU.
    fn whole(chosen: &Chosen<'_>) -> Self {
        let mut all = chosen.all();
        let backend = all.swap_remove(all.len() - 1);
        let last = Arc::clone(chosen.devices.main());
        let rates = Arc::clone(&chosen.devices.rates);
        Self { backend, last, split: None, host: chosen.host.clone(), rates }
    }

    /// The layers of a plan on several devices, cut before each of `layers`.
    fn split(
        chosen: &Chosen<'_>,
        devices: Vec<Arc<dyn Backend>>,
        layers: Vec<usize>,
    ) -> Result<Self, Error> {
        let last = Arc::clone(chosen.devices.main());
        let split = Split::new(devices, layers)?;
        let (backend, host) = (Arc::new(split.clone()), chosen.host.clone());
        let rates = Arc::clone(&chosen.devices.rates);
        Ok(Self { backend, last, split: Some(split), host, rates })
    }

    /// The part of each device.
    fn parts(&self, plan: &Plan) -> Result<Vec<(&dyn Backend, Plan)>, Error> {
        match &self.split {
            None => Ok(vec![(self.backend.as_ref(), plan.clone())]),
            Some(split) => Ok(split.parts(plan)?),
        }
    }

    /// The limits of a load. `reserved` bytes of the last device are for a head.
    pub(crate) fn limits(
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
    pub(crate) fn table(
        &self,
        plan: &Plan,
        limits: &Limits,
        options: &LoadOptions,
    ) -> Result<Placement, Error> {
        let share = |(device, part): (&dyn Backend, Plan)| {
            let needs = device.needs(&part, &limits_of(&part, limits))?;
            Ok(DeviceShare::new(device.name(), &part, needs, budget(options, device)))
        };
        let parts = self.parts(plan)?;
        let of_gpus = parts.len() - self.host.len().min(parts.len());
        let mut on_host = Vec::new();
        for (gpu, (_, part)) in self.host.iter().zip(&parts[of_gpus..]) {
            let share = gpu.on_host(part, &limits_of(part, limits))?;
            on_host.extend(share.map(|share| (gpu.cpu(), share)));
        }
        let mut shares = parts.into_iter().map(share).collect::<Result<Vec<_>, Error>>()?;
        for (cpu, share) in on_host {
            let at = shares.iter().position(|share| share.device == cpu.name());
            let before = match at {
                Some(at) => shares.remove(at),
                None => DeviceShare::of_host(cpu.name(), budget(options, cpu.as_ref())),
            };
            shares.insert(0, before.with_host(share));
        }
        let placed = predict::Placed { parts: &self.parts(plan)?, host: &self.host };
        Ok(Placement::new(limits, shares, predict::speed(&placed, limits, &self.rates)))
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
            let alone = self.split.is_none() && self.host.is_empty();
            if !alone && needed > budget {
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
    let free = free.into_iter().chain(options.placement.gpu_memory).min()?;
    let margin =
        options.placement.gpu_margin.unwrap_or_else(|| match options.placement.gpu_memory {
            // a limit is what the load may take
            Some(_) => 0,
            None => LEAST_MARGIN.max(free / MARGIN_PART),
        });
    Some(free.saturating_sub(margin))
}

/// The plan of a checkpoint, before its steps are fused.
pub(crate) fn plan_of(checkpoint: &Checkpoint, options: &LoadOptions) -> Result<Plan, Error> {
    let build = BuildOptions {
        context: kv::wanted_context(options),
        pooling: options.pooling.map(value_plans::pooling_type),
        hidden: draft::head_plan(checkpoint, options)?.is_some(),
    };
    let plan = value_plans::without_norm(pelton_graph::build_with(checkpoint, &build)?);
    value_plans::refuse_speech(checkpoint, &plan)?;
    Ok(plan)
}

/// The placements to choose from, the best first, with `ranges` where there are several GPUs. The CPU has the embedding and the layers before `first`, if that is
/// given.
fn candidates(
    chosen: &Chosen<'_>,
    ranges: Option<&LayerRanges<'_>>,
    options: &LoadOptions,
    first: Option<usize>,
) -> Result<Vec<Placed>, Error> {
    let devices = chosen.devices;
    let ram = devices.ram.iter().filter(|_| first.is_some());
    let all: Vec<Arc<dyn Backend>> = ram.cloned().chain(chosen.all()).collect();
    let with = |cuts: Vec<usize>| {
        Placed::split(chosen, all.clone(), first.into_iter().chain(cuts).collect())
    };
    let count = devices.all.len();
    let Some(ranges) = ranges else {
        return Ok(vec![match first {
            None => Placed::whole(chosen),
            Some(_) => with(Vec::new())?,
        }]);
    };
    if !options.placement.split.is_empty() {
        return Ok(vec![with(ranges.given(first, &options.placement.split, count)?)?]);
    }
    let mut found = vec![with(ranges.equal(first, count)?)?];
    // those of less memory have fewer layers
    let budgets = devices.all.iter().map(|device| budget(options, device.as_ref()));
    if let Some(budgets) = budgets.collect::<Option<Vec<u64>>>() {
        let budgets: Vec<f64> = budgets.iter().map(|&bytes| bytes.max(1) as f64).collect();
        found.push(with(ranges.by_memory(first, &budgets)?)?);
    }
    Ok(found)
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
    match over_several(devices, plan, options)? {
        Some(placed) => Ok(placed),
        None => choose_of(devices, plan, options),
    }
}

/// The fewest GPUs that hold a model whose devices are to be chosen, where the single one does not. `None` if that does,
/// or all of them together do not.
fn over_several(
    devices: &Devices,
    plan: &Plan,
    options: &LoadOptions,
) -> Result<Option<Placed>, Error> {
    let PlacementOptions { gpu_layers, host_experts, host_ffn, split, .. } = &options.placement;
    let is_given = gpu_layers.is_some() || host_experts.is_some() || host_ffn.is_some();
    let is_free = !is_given && split.is_empty() && options.effort.is_none();
    let Some(more) = devices.more.as_ref().filter(|_| is_free) else { return Ok(None) };
    if Placed::whole(&Chosen::new(devices)).check(plan, options).is_ok() {
        return Ok(None);
    }
    for count in 1..=more.all().len() + 1 {
        let several = devices.largest(count, options);
        // without its free memory nobody knows what a GPU holds
        if several.all.iter().any(|gpu| gpu.budget().is_none()) {
            break;
        }
        let chosen = Chosen::new(&several);
        // a model of fewer layers than GPUs
        let Ok(candidates) = whole_candidates(&chosen, plan, options) else { break };
        for placed in candidates {
            match placed.check(plan, options) {
                Ok(()) => return Ok(Some(placed)),
                Err(error) => tracing::info!(count, %error, "the model does not fit these GPUs"),
            }
        }
    }
    Ok(None)
}

/// The devices of a plan, where all that are to be considered are open.
fn choose_of(devices: &Devices, plan: &Plan, options: &LoadOptions) -> Result<Placed, Error> {
    if !options.placement.split.is_empty() && devices.all.len() < 2 {
        let what =
            format!("{:?} layers on one device, expected several GPUs", options.placement.split);
        return Err(GraphError::Placement(what).into());
    }
    let has_experts = plan.steps.iter().any(|step| used_experts(&step.op).is_some());
    let experts = match options.placement.host_experts {
        Some(HostLayers::IfAny(_)) if !has_experts => {
            tracing::warn!("experts in RAM, but the model has no experts: nothing is kept there");
            None
        }
        Some(HostLayers::IfAny(layers)) => Some(HostLayers::First(layers)),
        other => other,
    };
    let (which, layers) = match (experts, options.placement.host_ffn) {
        (Some(_), Some(_)) => {
            let what =
                "layers for experts and layers for feed-forwards in RAM, expected one of both";
            return Err(GraphError::Placement(what.to_owned()).into());
        }
        (Some(layers), None) => (FeedForwards::Experts, Some(layers)),
        (None, layers) => (FeedForwards::All, layers),
    };
    let is_possible = devices.ram.is_some() && devices.all.iter().all(|gpu| gpu.has_host_parts());
    let all = host_parts(plan, which, if is_possible { usize::MAX } else { 0 });
    if layers.is_some_and(|layers| layers != HostLayers::First(0)) {
        if devices.ram.is_none() {
            tracing::warn!("feed-forwards in RAM, but the model runs on the CPU alone");
        } else if all.is_empty() {
            let what = format!(
                "the model has no {} that can stay in RAM next to '{}'; choose whole layers by the \
                 number of those on the GPU",
                which.name(),
                devices.names()
            );
            return Err(GraphError::Placement(what).into());
        }
    }
    let wanted = match layers {
        Some(HostLayers::First(count)) if is_possible => {
            let chosen = Chosen::with_host(devices, plan, (which, count), options);
            return choose_layers(&chosen, plan, options);
        }
        Some(layers) => layers == HostLayers::Auto,
        None => devices.spills && devices.all.len() == 1 && options.placement.gpu_layers.is_none(),
    };
    if wanted && !all.is_empty() && options.effort.is_none() {
        // as few as the memory demands
        let counts = [0].into_iter().chain(all.iter().map(|(layer, _)| layer + 1));
        for count in counts {
            let chosen = match count {
                0 => Chosen::new(devices),
                _ => Chosen::with_host(devices, plan, (which, count), options),
            };
            for placed in whole_candidates(&chosen, plan, options)? {
                match placed.check(plan, options) {
                    Ok(()) => return Ok(placed),
                    Err(error) => tracing::debug!(count, %error, "feed-forwards do not fit"),
                }
            }
        }
    }
    choose_layers(&Chosen::new(devices), plan, options)
}

/// The placements of all layers on the GPUs.
fn whole_candidates(
    chosen: &Chosen<'_>,
    plan: &Plan,
    options: &LoadOptions,
) -> Result<Vec<Placed>, Error> {
    let ranges = (chosen.devices.all.len() > 1).then(|| LayerRanges::new(plan)).transpose()?;
    candidates(chosen, ranges.as_ref(), options, None)
}

/// The devices of each layer.
fn choose_layers(chosen: &Chosen<'_>, plan: &Plan, options: &LoadOptions) -> Result<Placed, Error> {
    let devices = chosen.devices;
    let ranges = (devices.all.len() > 1).then(|| LayerRanges::new(plan)).transpose()?;
    let candidates = |first| candidates(chosen, ranges.as_ref(), options, first);
    let best = |first| -> Result<Placed, Error> {
        let mut all = candidates(first)?;
        Ok(all.swap_remove(0))
    };
    let Some(ram) = &devices.ram else {
        if let Some(layers) = options.placement.gpu_layers.filter(|&layers| layers > 0) {
            tracing::warn!(layers, "layers for a GPU, but the model runs on the CPU alone");
        }
        return best(None);
    };
    if let Some(count) = options.placement.gpu_layers {
        // the output counts as a layer
        return match (plan.shape.layers + 1).saturating_sub(count) {
            _ if count == 0 => Ok(Placed::one(Arc::clone(ram), Arc::clone(&devices.rates))),
            0 => best(None),
            first => best(Some(first)),
        };
    }
    if devices.all.len() == 1 && (!devices.spills || options.effort.is_some()) {
        return best(None);
    }
    // the best one that fits; without the CPU's memory the best one, whose load says what is too large
    let firsts = [None].into_iter().chain(borders(plan).into_iter().map(Some));
    for first in firsts.take(if devices.spills { usize::MAX } else { 1 }) {
        let all = match candidates(first) {
            Ok(all) => all,
            // too few layers are left for all GPUs
            Err(error) if first.is_some() => {
                tracing::debug!(first, %error, "no split");
                break;
            }
            Err(error) => return Err(error),
        };
        for placed in all {
            match placed.check(plan, options) {
                Ok(()) => return Ok(placed),
                Err(error) if first.is_none() => {
                    tracing::info!(%error, "the model does not fit the GPU");
                }
                Err(error) => tracing::debug!(first, %error, "this split does not fit"),
            }
        }
    }
    if !devices.spills {
        return best(None);
    }
    let placed = Placed::one(Arc::clone(ram), Arc::clone(&devices.rates));
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
