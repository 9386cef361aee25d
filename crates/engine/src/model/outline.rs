//! The sizes of a load that does not happen.

use pelton_graph::{Backend, BuildOptions, Limits, Plan};
use pelton_weights::Checkpoint;

use super::value_plans;
use crate::{Error, api::LoadOptions, kv};

/// The plan and the sizes that a model would be loaded with, whatever memory is free. It needs the feature
/// `unstable`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outline {
    /// The plan, with the fused ops of the device.
    pub plan: Plan,
    /// The sizes.
    pub limits: Limits,
    /// Bytes of the weights.
    pub weight_bytes: u64,
    /// Bytes of keys and values, and of recurrent states.
    pub kv_bytes: u64,
    /// Bytes of the values between steps.
    pub buffer_bytes: u64,
}

impl Outline {
    pub(crate) fn new(
        backend: &dyn Backend,
        checkpoint: &Checkpoint,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        let build = BuildOptions {
            context: kv::wanted_context(options),
            pooling: options.pooling.map(value_plans::pooling_type),
            hidden: false,
        };
        let plan = value_plans::without_norm(pelton_graph::build_with(checkpoint, &build)?);
        value_plans::refuse_speech(checkpoint, &plan)?;
        let plan = plan.fuse(&|op, plan| backend.accepts(op, plan));
        let bytes = |weight: &pelton_graph::Weight| weight.dtype.bytes_of(weight.len());
        let weight_bytes =
            plan.weights.iter().map(|weight| bytes(weight).unwrap_or(0) as u64).sum();
        let rows = backend.prompt_rows(&plan, weight_bytes);
        let sizes = kv::Sizes { plan: &plan, tokens: plan.vocab, free: None, rows };
        let limits = kv::limits(options, &sizes)?;
        let of_buffer =
            |buffer: &pelton_graph::Buffer| 4 * limits.rows_of(buffer.rows) * buffer.width;
        let buffer_bytes = plan.buffers.iter().map(|buffer| of_buffer(buffer) as u64).sum();
        let kv_bytes = kv::bytes(&plan, &limits);
        Ok(Self { plan, limits, weight_bytes, kv_bytes, buffer_bytes })
    }
}
