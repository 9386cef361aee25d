//! What can go wrong between a checkpoint and a forward pass.

/// Why a plan could not be built, loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A hyper-parameter or tensor is missing or not as expected.
    #[error(transparent)]
    Weights(#[from] pelton_weights::Error),

    /// The file's architecture has no plan here.
    #[error("{file}: architecture '{found}' is not supported, expected one of {}", .known.join(", "))]
    Architecture {
        /// The file.
        file: String,
        /// What its `general.architecture` says.
        found: String,
        /// The names that have a plan.
        known: Vec<&'static str>,
    },

    /// The plan would not use a tensor, so what it computes would not be the file's model.
    #[error("{file}: tensor '{tensor}' has no place in architecture '{architecture}'")]
    UnusedTensor {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// The file's architecture.
        architecture: String,
    },

    /// The rotary scaling is of a kind that is not implemented.
    #[error("rotary scaling {found} is not supported, expected none, linear or llama3")]
    RopeScaling {
        /// The scaling.
        found: String,
    },

    /// The batch has an index that does not fit the plan or the limits.
    #[error("batch refused: {0}")]
    Batch(String),

    /// A chain is asked of an executable that has none, or that is not in the state for it.
    #[error("chain refused: {0}")]
    Chain(&'static str),

    /// A plan with fused ops was given to a backend that has none of them.
    #[error("op '{op}' of the plan is fused, expected elementary ops only")]
    Fused {
        /// The op.
        op: &'static str,
    },

    /// A tensor's bytes are not what its type says.
    #[error(transparent)]
    Quant(#[from] pelton_quant::Error),

    /// A tensor's bytes do not make the matrix that the plan says it is.
    #[error("tensor '{tensor}': {what}")]
    Matrix {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        what: String,
    },

    /// The system refuses to start threads.
    #[error("{threads} threads could not be started: {error}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system says.
        error: std::io::Error,
    },

    /// Keys and values cannot be kept in the type that the limits ask for.
    #[error("a cache of keys and values in {kv}: {what}")]
    Kv {
        /// The type.
        kv: crate::KvType,
        /// Why not, and what is expected.
        what: String,
    },

    /// There is not enough memory for what the limits ask.
    #[error("{what} needs {needed} bytes, which could not be allocated")]
    Memory {
        /// What the memory was for.
        what: &'static str,
        /// How much of it.
        needed: u128,
    },

    /// A device cannot do what is asked of it, or stopped doing it.
    #[error("device '{device}': {what}")]
    Device {
        /// The device's name.
        device: String,
        /// What is wrong.
        what: String,
    },

    /// The backend has no clock for single steps.
    #[error("this device cannot tell the time of single steps")]
    Profile,

    /// A kernel of a device could not be assembled: a mistake of the backend.
    #[error("kernel '{kernel}' could not be assembled: {what}")]
    Kernel {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        what: String,
    },
}
