//! The plan of a checkpoint, and the table of a model that is not loaded.

use pelton_graph::{BuildOptions, Plan};
use pelton_place::Placement;
use pelton_weights::Checkpoint;

use super::{draft, value_plans};
use crate::{
    Error,
    api::LoadOptions,
    kv,
    placement::{Devices, choose},
};

/// The plan of a checkpoint, before its steps are fused.
pub(super) fn of_checkpoint(checkpoint: &Checkpoint, options: &LoadOptions) -> Result<Plan, Error> {
    let build = BuildOptions {
        context: kv::wanted_context(options),
        pooling: options.pooling.map(value_plans::pooling_type),
        hidden: draft::head_plan(checkpoint, options)?.is_some(),
    };
    let plan = value_plans::without_norm(pelton_graph::build_with(checkpoint, &build)?);
    value_plans::refuse_speech(checkpoint, &plan)?;
    Ok(plan)
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
    let plan = of_checkpoint(checkpoint, options)?;
    let placed = choose(devices, &plan, options)?;
    let plan = plan.fuse(&|op, plan| placed.backend.accepts(op, plan));
    let limits = placed.limits(&plan, plan.vocab, options, 0)?;
    placed.table(&plan, &limits, options)
}
