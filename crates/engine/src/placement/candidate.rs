//! A placement to try.

use std::{cell::OnceCell, fmt, sync::Arc};

use pelton_graph::{Backend, Plan};
use pelton_place::{FeedForwards, HostParts, Split, file_bytes};

use super::{Chosen, Devices, devices::budget, layer_ranges::LayerRanges};
use crate::{Error, api::LoadOptions};

/// A model that is placed.
pub(super) struct Subject<'a> {
    pub(super) plan: &'a Plan,
    pub(super) options: &'a LoadOptions,
    /// Its ranges of layers, which several GPUs need.
    ranges: OnceCell<LayerRanges<'a>>,
}

/// A placement to try, but for the ranges of layers of several GPUs.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) devices: Devices,
    /// The feed-forwards of the first layers that stay in RAM.
    pub(super) feed_forwards: Option<(FeedForwards, usize)>,
    /// The CPU has the embedding and the layers before this one, if it is given.
    pub(super) first: Option<usize>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(plan: &'a Plan, options: &'a LoadOptions) -> Self {
        Self { plan, options, ranges: OnceCell::new() }
    }

    fn ranges(&self) -> Result<&LayerRanges<'a>, Error> {
        if let Some(ranges) = self.ranges.get() {
            return Ok(ranges);
        }
        let ranges = LayerRanges::new(self.plan)?;
        Ok(self.ranges.get_or_init(|| ranges))
    }
}

impl Candidate {
    /// The whole model on GPUs.
    pub(super) fn whole(devices: &Devices) -> Self {
        Self { devices: devices.clone(), feed_forwards: None, first: None }
    }

    /// Its placements, the best first: several of several GPUs, or else a single one.
    ///
    /// # Errors
    ///
    /// If the model has too few layers for the GPUs, or others than the options say.
    pub(super) fn placements(&self, subject: &Subject<'_>) -> Result<Vec<Chosen>, Error> {
        let Self { devices, first, .. } = self;
        let host = self.host(subject);
        let mut gpus = devices.all.clone();
        if !host.is_empty() {
            gpus = host.iter().map(|gpu| -> Arc<dyn Backend> { Arc::clone(gpu) as _ }).collect();
        }
        let of = |backend, split| Chosen {
            backend,
            last: Arc::clone(devices.main()),
            split,
            host: host.clone(),
            rates: Arc::clone(&devices.rates),
        };
        if gpus.len() == 1 && first.is_none() {
            return Ok(vec![of(gpus.swap_remove(0), None)]);
        }
        let ram = devices.ram.iter().filter(|_| first.is_some()).cloned();
        let all: Vec<Arc<dyn Backend>> = ram.chain(gpus).collect();
        let split = |cuts: Vec<usize>| -> Result<Chosen, Error> {
            let split = Split::new(all.clone(), first.iter().copied().chain(cuts).collect())?;
            Ok(of(Arc::new(split.clone()), Some(split)))
        };
        self.cuts(subject)?.into_iter().map(split).collect()
    }

    /// The layers before which the part of each further GPU begins, the best choice first.
    fn cuts(&self, subject: &Subject<'_>) -> Result<Vec<Vec<usize>>, Error> {
        let (first, count) = (self.first, self.devices.all.len());
        if count == 1 {
            return Ok(vec![Vec::new()]);
        }
        let (ranges, options) = (subject.ranges()?, subject.options);
        if !options.placement.split.is_empty() {
            return Ok(vec![ranges.given(first, &options.placement.split, count)?]);
        }
        let mut found = vec![ranges.equal(first, count)?];
        // those of less memory have fewer layers
        let budgets = self.devices.all.iter().map(|device| budget(options, device.as_ref()));
        if let Some(budgets) = budgets.collect::<Option<Vec<u64>>>() {
            let budgets: Vec<f64> = budgets.iter().map(|&bytes| bytes.max(1) as f64).collect();
            found.push(ranges.by_memory(first, &budgets)?);
        }
        Ok(found)
    }

    /// The GPUs with the feed-forwards of their first layers on the CPU; none if all stay. The CPU
    /// copies the weights where the memory holds these and the file, whose weights are streamed.
    fn host(&self, Subject { plan, options, .. }: &Subject<'_>) -> Vec<Arc<HostParts>> {
        let Self { devices, feed_forwards, .. } = self;
        let Some((which, layers)) = *feed_forwards else { return Vec::new() };
        let free = devices.ram.as_ref().and_then(|cpu| cpu.budget());
        let is_mapped = free.is_some_and(|free| free < file_bytes(plan).saturating_mul(2));
        let mapped = devices.mapped.as_ref().filter(|_| is_mapped);
        let Some(cpu) = mapped.or(devices.ram.as_ref()) else { return Vec::new() };
        let on_cpu = |gpu: &Arc<dyn Backend>| {
            let parts = HostParts::new(Arc::clone(gpu), Arc::clone(cpu), which, layers);
            Arc::new(match options.placement.stream_from {
                Some(tokens) => parts.streaming_from(tokens),
                None => parts,
            })
        };
        devices.all.iter().map(on_cpu).collect()
    }
}

/// The devices and what leaves the GPUs, for a log.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.devices.names())?;
        if let Some((which, layers)) = self.feed_forwards {
            write!(f, ", {} of {layers} layers in RAM", which.name())?;
        }
        self.first.map_or(Ok(()), |first| write!(f, ", {first} layers on the CPU"))
    }
}
