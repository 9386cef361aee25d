//! The matrices of a plan that are kept in input-major order next to those of the file.

use pelton_graph::{EffortMode, Error, Plan, Weight};

use crate::{
    device::Device,
    weights::{buckets::has_buckets, lines::Lines},
};

/// A matrix in input-major order on the GPU.
#[derive(Debug)]
pub(crate) struct InputMajor(pub(super) wgpu::Buffer);

impl InputMajor {
    /// The buffer of a matrix, without its content.
    pub(super) fn new(device: &Device, name: &str, lines: &Lines) -> Result<Self, Error> {
        let bytes = lines.sections().end as u64;
        if bytes > device.capabilities.binding_bytes {
            return Err(Error::Effort(format!(
                "tensor '{name}' takes {bytes} bytes, expected at most {} of a matrix for a load \
                 with effort on this GPU",
                device.capabilities.binding_bytes
            )));
        }
        Ok(Self(device.buffer(name, bytes)?))
    }

    /// All sections.
    pub(crate) fn binding(&self) -> wgpu::BufferBinding<'_> {
        self.0.as_entire_buffer_binding()
    }
}

/// The lines of a marked weight in the mode of its plan; `None` if all its rows run densely, as those of formats
/// other than F32, F16, BF16 and Q8_0.
///
/// # Errors
/// [`Error::Effort`] for nested codes of another format than Q8_0.
pub(crate) fn lines_of(plan: &Plan, weight: &Weight) -> Result<Option<Lines>, Error> {
    let (dtype, rows, cols) = (weight.dtype, weight.rows, weight.row_len);
    match plan.effort.mode {
        _ if !weight.effort || has_buckets(plan) => Ok(None),
        EffortMode::Nested => match Lines::nested(dtype, rows, cols) {
            None => Err(Error::Effort(format!(
                "tensor '{}' is {dtype} with rows of {cols}, expected Q8_0 for nested effort",
                weight.name
            ))),
            lines => Ok(lines),
        },
        EffortMode::Channel | EffortMode::Bucket => Ok(Lines::new(dtype, rows, cols)),
    }
}

/// Bytes of all weights in input-major order.
pub(super) fn resident_bytes(plan: &Plan) -> u64 {
    let lines = plan.weights.iter().filter_map(|weight| lines_of(plan, weight).ok().flatten());
    lines.fold(0, |all, lines| all.saturating_add(lines.sections().end as u64))
}
