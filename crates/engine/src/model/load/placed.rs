//! A plan on the devices that were chosen for it.

use std::{path::PathBuf, sync::Arc};

use pelton_graph::{Backend, Plan};
use pelton_place::Placement;
use pelton_weights::Checkpoint;

use super::{
    super::effort::Marked,
    planned::{Planned, plan_of},
};
use crate::{
    Error,
    api::LoadOptions,
    placement::{Chosen, Devices, KnownRates, choose},
    vision::OpenTower,
};

/// A plan with the fused ops of its devices, and with the marks of its effort.
pub(super) struct Placed {
    pub(super) checkpoint: Arc<Checkpoint>,
    pub(super) plan: Plan,
    pub(super) devices: Chosen,
    /// The file of its thresholds, and whether this load has measured them.
    pub(super) thresholds: (Option<PathBuf>, bool),
    pub(super) tower: Option<OpenTower>,
}

impl Placed {
    pub(super) fn new(
        Planned { checkpoint, plan, built, tower }: Planned,
        devices: &Devices,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        let devices = choose(devices, &plan, options)?;
        let backend = devices.backend.as_ref();
        let plan = plan.fuse(&|op, plan| backend.accepts(op, plan));
        let marked = match built.zip(options.effort.as_ref()) {
            Some((built, effort)) => {
                Marked::new((plan, built), checkpoint, backend, effort, options)?
            }
            None => Marked::without(plan, Arc::new(checkpoint)),
        };
        Ok(Self { tower, ..Self::of(marked, devices) })
    }

    /// A plan that is given, on one device.
    pub(super) fn given(
        backend: &Arc<dyn Backend>,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
    ) -> Self {
        let devices = Chosen::one(Arc::clone(backend), Arc::new(KnownRates::new(None)));
        Self::of(Marked::without(plan, checkpoint), devices)
    }

    fn of(marked: Marked, devices: Chosen) -> Self {
        let thresholds = marked.thresholds();
        let Marked { plan, checkpoint, .. } = marked;
        Self { checkpoint, plan, devices, thresholds, tower: None }
    }
}

/// The table of a model that is not loaded.
///
/// # Errors
///
/// As a load, as far as it goes without the weights.
pub(crate) fn explain(
    devices: &Devices,
    checkpoint: &Checkpoint,
    tower: Option<&OpenTower>,
    options: &LoadOptions,
) -> Result<Placement, Error> {
    let plan = plan_of(checkpoint, tower, options)?;
    let chosen = choose(devices, &plan, options)?;
    let plan = plan.fuse(&|op, plan| chosen.backend.accepts(op, plan));
    let reserved = tower.map_or(Ok(0), |tower| tower.needs(chosen.last.as_ref()))?;
    let limits = chosen.limits(&plan, plan.vocab, options, reserved)?;
    chosen.table(&plan, &limits, options)
}
