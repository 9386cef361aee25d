//! The plan of a checkpoint, before its steps are fused for a device.

use pelton_graph::{BuildOptions, Plan};
use pelton_weights::{Checkpoint, Lora};

use super::{
    super::{loras::LORAS_OF_REQUEST, value_plans},
    draft,
    opened::Opened,
};
use crate::{Error, api::LoadOptions, kv, metadata, vision::OpenTower};

/// A checkpoint with the tensors of its adapters, and the plan over both.
pub(super) struct Planned {
    pub(super) checkpoint: Checkpoint,
    pub(super) plan: Plan,
    /// The plan without adapters, if rows have efforts.
    pub(super) built: Option<Plan>,
    pub(super) tower: Option<OpenTower>,
}

impl Planned {
    pub(super) fn new(
        Opened { mut checkpoint, adapters, tower }: Opened,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        let plan = plan_of(&checkpoint, tower.as_ref(), options)?;
        let built = options.effort.is_some().then(|| plan.clone());
        let tensors = Lora::attach(&adapters, &mut checkpoint)?;
        let plan = plan.add_loras(&tensors, LORAS_OF_REQUEST)?;
        Ok(Self { checkpoint, plan, built, tower })
    }
}

/// The plan of a checkpoint.
pub(super) fn plan_of(
    checkpoint: &Checkpoint,
    tower: Option<&OpenTower>,
    options: &LoadOptions,
) -> Result<Plan, Error> {
    let build = BuildOptions {
        pictures: tower.map(|tower| tower.rows_of(checkpoint)).transpose()?,
        context: kv::wanted_context(options),
        pooling: options.pooling.map(value_plans::pooling_type),
        hidden: draft::head_plan(checkpoint, options)?.is_some(),
    };
    let plan = value_plans::without_norm(pelton_graph::build_with(checkpoint, &build)?);
    value_plans::refuse_speech(checkpoint, &plan)?;
    value_plans::check_pooling(checkpoint, &plan, options)?;
    metadata::check(&plan, options)?;
    Ok(plan)
}
