//! A placement: the devices of one model, its limits and its table.

use std::sync::Arc;

use pelton_graph::{Backend, Error as GraphError, Limits, Plan};
use pelton_place::{DeviceShare, HostParts, Placement, Split, file_bytes, limits_of};

use super::{KnownRates, devices::budget, predict};
use crate::{Error, api::LoadOptions, kv};

/// The devices of one model.
pub(crate) struct Chosen {
    pub(crate) backend: Arc<dyn Backend>,
    /// The device of the output matrix, where heads and draft models run.
    pub(crate) last: Arc<dyn Backend>,
    pub(super) split: Option<Split>,
    /// The GPUs with feed-forwards on the CPU, which are the last devices.
    pub(super) host: Vec<Arc<HostParts>>,
    pub(super) rates: Arc<KnownRates>,
}

impl Chosen {
    /// A model on one device.
    pub(crate) fn one(backend: Arc<dyn Backend>, rates: Arc<KnownRates>) -> Self {
        Self { last: Arc::clone(&backend), backend, split: None, host: Vec::new(), rates }
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
    pub(super) fn check(&self, plan: &Plan, options: &LoadOptions) -> Result<(), Error> {
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
