//! The devices that an engine has opened, and the memory that a load may take on them.

use std::{
    cmp::Reverse,
    sync::{Arc, OnceLock},
};

use pelton_graph::Backend;

use super::KnownRates;
use crate::api::LoadOptions;

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

    /// The devices by whose rates the speed is predicted: all, and the CPU next to them. None where
    /// one of them has no rates.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        let has_rates = self.all.iter().all(|device| device.rates_key().is_some());
        let more = self.more.iter().flat_map(|more| more.opened());
        self.ram.iter().chain(&self.mapped).chain(&self.all).chain(more).filter(move |_| has_rates)
    }

    /// The `count` GPUs with the most free memory, of the single one and those next to it.
    pub(super) fn largest(&self, count: usize, options: &LoadOptions) -> Self {
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

/// GPUs that are opened when they are needed.
pub(crate) struct MoreGpus {
    open: Box<dyn Fn() -> Vec<Arc<dyn Backend>> + Send + Sync>,
    opened: OnceLock<Vec<Arc<dyn Backend>>>,
}

impl MoreGpus {
    pub(crate) fn new(open: impl Fn() -> Vec<Arc<dyn Backend>> + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), opened: OnceLock::new() }
    }

    /// The GPUs, which the first call opens.
    pub(crate) fn all(&self) -> &[Arc<dyn Backend>] {
        self.opened.get_or_init(&self.open)
    }

    /// The GPUs that are open.
    pub(crate) fn opened(&self) -> &[Arc<dyn Backend>] {
        self.opened.get().map_or(&[], Vec::as_slice)
    }
}

/// Bytes that a load may take on a device: what is free, less a margin on a GPU.
pub(super) fn budget(options: &LoadOptions, device: &dyn Backend) -> Option<u64> {
    /// The least margin where none is chosen, and the part of the free memory: one of this many.
    const LEAST_MARGIN: u64 = 256 << 20;
    const MARGIN_PART: u64 = 32;
    let free = device.budget();
    if device.name() == "cpu" {
        return free;
    }
    let wish = &options.placement;
    let free = free.into_iter().chain(wish.gpu_memory).min()?;
    let margin = wish.gpu_margin.unwrap_or_else(|| match wish.gpu_memory {
        // a limit is what the load may take
        Some(_) => 0,
        None => LEAST_MARGIN.max(free / MARGIN_PART),
    });
    Some(free.saturating_sub(margin))
}
