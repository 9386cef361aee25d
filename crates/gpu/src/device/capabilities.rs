//! The capabilities of a GPU by which kernels are chosen.

/// The capabilities and limits of a GPU by which kernels are chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Capabilities {
    /// The least subgroup width of a kernel.
    pub(crate) subgroup: u32,
    /// The greatest subgroup width of a kernel.
    pub(crate) widest_subgroup: u32,
    /// Maximum rows of activations for which a kernel is unrolled: a software driver needs a second
    /// to compile it for sixteen.
    pub(crate) batch: usize,
    /// Whether there are matrix cores for 16×16 products of f16 with sums in f32.
    pub(crate) matrix_cores: bool,
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
}
