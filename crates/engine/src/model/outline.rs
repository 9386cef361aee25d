//! The sizes of a load that does not happen.

use pelton_graph::{Backend, BuildOptions, Limits, Needs, Plan};
use pelton_weights::Checkpoint;

use super::{TowerOutline, value_plans};
use crate::{Error, api::LoadOptions, kv};

/// The plan and the sizes that a model would be loaded with, whatever memory is free. It needs
/// the feature `unstable`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outline {
    /// The plan, with the fused ops of the device.
    pub plan: Plan,
    /// The sizes.
    pub limits: Limits,
    /// The memory that the device allocates, and the part of the file that stays mapped.
    pub needs: Needs,
    /// Bytes of the vision tower on the device.
    pub tower: u64,
}

impl Outline {
    pub(crate) fn new(
        backend: &dyn Backend,
        checkpoint: &Checkpoint,
        tower: Option<&TowerOutline>,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        let open = tower.map(|tower| &tower.open);
        let build = BuildOptions {
            pictures: open.map(|tower| tower.rows_of(checkpoint)).transpose()?,
            context: kv::wanted_context(options),
            pooling: options.pooling.map(value_plans::pooling_type),
            hidden: false,
        };
        let plan = value_plans::without_norm(pelton_graph::build_with(checkpoint, &build)?);
        value_plans::refuse_speech(checkpoint, &plan)?;
        let plan = plan.fuse(&|op, plan| backend.accepts(op, plan));
        let bytes = |weight: &pelton_graph::Weight| weight.dtype.bytes_of(weight.len());
        let weights = plan.weights.iter().map(|weight| bytes(weight).unwrap_or(0) as u64).sum();
        let rows = backend.prompt_rows(&plan, weights);
        let limits = {
            let parts = [kv::Part { plan: &plan, free: Box::new(|_| Ok(None)) }];
            kv::limits(
                options,
                &kv::Sizes { plan: &plan, tokens: plan.vocab, parts: &parts, rows },
            )?
        };
        let needs = backend.needs(&plan, &limits)?;
        let tower = open.map_or(Ok(0), |tower| tower.needs(backend))?;
        Ok(Self { plan, limits, needs, tower })
    }
}
