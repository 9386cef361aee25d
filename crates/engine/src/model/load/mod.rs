//! From a checkpoint to a model that answers requests.
//!
//! ```text
//! Checkpoint ─► Opened ─► Planned ─► Placed ─► Resident ─► Model
//! ```
//!
//! | step | adds |
//! |---|---|
//! | [`Opened`] | weights in the format of the options, the adapters, and the vision tower |
//! | [`Planned`] | the plan, with the adapters |
//! | [`Placed`] | the devices, the fused ops that they accept, and the marks of matrices |
//! | [`Resident`] | the weights on the devices, the vision tower, and the drafters |
//! | [`Model`] | the caches and the thread that runs passes |

mod draft;
mod opened;
mod placed;
mod planned;
mod resident;
mod started;

use std::sync::Arc;

use pelton_graph::{Backend, Plan};
use pelton_weights::Checkpoint;

use self::{opened::Opened, placed::Placed, planned::Planned, resident::Resident};
use super::Model;
use crate::{Error, api::LoadOptions, placement::Devices, vision::OpenTower};

pub(crate) use placed::explain;

/// Loads a checkpoint.
pub(crate) fn load(
    devices: &Devices,
    checkpoint: Checkpoint,
    tower: Option<OpenTower>,
    options: &LoadOptions,
) -> Result<Model, Error> {
    let opened = Opened::new(checkpoint, tower, options)?;
    let planned = Planned::new(opened, options)?;
    finish(Placed::new(planned, devices, options)?, options)
}

/// Loads a checkpoint with a plan that is given, on one device.
pub(crate) fn load_plan(
    backend: &Arc<dyn Backend>,
    plan: Plan,
    checkpoint: Arc<Checkpoint>,
    options: &LoadOptions,
) -> Result<Model, Error> {
    finish(Placed::given(backend, plan, checkpoint), options)
}

fn finish(placed: Placed, options: &LoadOptions) -> Result<Model, Error> {
    let (model, backend) = (placed.checkpoint.name(), placed.devices.backend.name());
    let span = tracing::info_span!("load", model, backend);
    let _entered = span.enter();
    Resident::new(placed, options)?.start(options)
}
