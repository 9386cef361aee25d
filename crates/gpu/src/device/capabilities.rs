//! The capabilities of a GPU by which kernels are chosen.
//!
//! A kernel binds at most [`Capabilities::storage_buffers`]. Products side by side, norms of heads
//! with the store, and attention with the store run apart where they would bind more. Below 16
//! buffers the planes of a matrix are one buffer, whose first words are the places of the planes
//! (`Layout::joined`). Linear attention packs its operands.

use std::ffi::OsStr;

/// The capabilities and limits of a GPU by which kernels are chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Capabilities {
    /// The least subgroup width of a kernel.
    pub(crate) subgroup: u32,
    /// The greatest subgroup width of a kernel.
    pub(crate) widest_subgroup: u32,
    /// Maximum rows of activations for which a kernel is unrolled, at least 2: a software driver
    /// needs a second to compile it for sixteen.
    pub(crate) batch: usize,
    /// Whether there are matrix cores for products of f16 with sums in f32.
    pub(crate) matrix_cores: bool,
    /// Edge of the square matrices that they multiply: 16, or 8 (Apple).
    pub(crate) core: usize,
    /// Whether the GPU can write timestamps between steps.
    pub(crate) timestamps: bool,
    /// Maximum threads of a workgroup.
    pub(crate) workgroup_threads: u32,
    /// Maximum bytes of workgroup memory.
    pub(crate) workgroup_bytes: u32,
    /// Maximum bytes of a binding.
    pub(crate) binding_bytes: u64,
    /// Maximum bytes of a buffer.
    pub(crate) buffer_bytes: u64,
    /// Maximum buffers that a kernel binds.
    pub(crate) storage_buffers: usize,
}

impl Capabilities {
    /// Buffers that a kernel of one product binds at most, with planes apart.
    const PLANES_APART: usize = 16;

    /// Whether the planes of a matrix are bound as one buffer, because a kernel can bind few.
    pub(crate) const fn joins_planes(&self) -> bool {
        self.storage_buffers < Self::PLANES_APART
    }

    /// Whether a kernel can bind so many buffers.
    pub(crate) const fn binds(&self, buffers: usize) -> bool {
        buffers <= self.storage_buffers
    }

    /// Whether there are matrix cores for 16×16 products and subgroups of 32 alone, as NVIDIA has
    /// them, which the attention kernel on matrix cores is written for.
    pub(crate) const fn cores_of_16_by_32_lanes(&self) -> bool {
        self.matrix_cores && self.core == 16 && self.subgroup == 32 && self.widest_subgroup == 32
    }
}

/// Whether `value`, that of the environment variable `PELTON_MATRIX_CORES`, allows matrix cores:
/// `on` or none does, `off` does not.
///
/// # Errors
/// If it has any other value.
pub(super) fn matrix_cores_allowed(value: Option<&OsStr>) -> Result<bool, String> {
    match value.map(OsStr::to_string_lossy).as_deref() {
        None | Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => Err(format!("PELTON_MATRIX_CORES={other}, expected on or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrix_cores_are_switched_off_by_name() {
        let allowed = |value: &str| matrix_cores_allowed(Some(OsStr::new(value)));
        assert_eq!(matrix_cores_allowed(None), Ok(true));
        assert_eq!((allowed("on"), allowed("off")), (Ok(true), Ok(false)));
        assert!(allowed("").is_err() && allowed("OFF").is_err());
    }
}
