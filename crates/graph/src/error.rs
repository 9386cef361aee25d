//! The errors from a checkpoint to the results of a pass.

/// The reason why a plan could not be built, loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A hyper-parameter or tensor is missing or not as expected.
    #[error(transparent)]
    Weights(#[from] pelton_weights::Error),

    /// The file's architecture is not supported.
    #[error("{file}: architecture '{found}' is not supported; docs/models.md lists those that are")]
    Architecture {
        /// The file.
        file: String,
        /// The value of its `general.architecture`.
        found: String,
        /// The names of all architectures that are supported.
        known: Vec<&'static str>,
    },

    /// A tensor of the file is not used by its architecture, so the plan would be of another
    /// model.
    #[error("{file}: tensor '{tensor}' has no place in architecture '{architecture}'")]
    UnusedTensor {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// The file's architecture.
        architecture: String,
    },

    /// A value of a tensor is not as expected.
    #[error("{file}: tensor '{tensor}' has the value {found}, expected {expected}")]
    TensorValue {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// The value.
        found: String,
        /// The expected value.
        expected: &'static str,
    },

    /// A matrix of an adapter is of no linear of the plan.
    #[error("no linear layer of the model has the adapter's matrix '{tensor}'")]
    Adapter {
        /// The matrix.
        tensor: String,
    },

    /// A pass has a value that does not fit the plan, the limits or the executable's state.
    #[error("pass refused: {0}")]
    Pass(String),

    /// The plan or the backend has no rows below 1.
    #[error("{0}")]
    Effort(String),

    /// A backend cannot run an op of the plan.
    #[error("'{backend}' cannot run the op '{op}'{}", .layer.map_or(String::new(), |n| format!(" of layer {n}")))]
    Op {
        /// The backend's name.
        backend: String,
        /// The op, as a printed plan shows it.
        op: String,
        /// The layer that it belongs to, if any.
        layer: Option<usize>,
    },

    /// The bytes of a tensor do not fit its type.
    #[error(transparent)]
    Quant(#[from] pelton_quant::Error),

    /// The bytes of a tensor do not fit the matrix of the plan.
    #[error("tensor '{tensor}': {what}")]
    Matrix {
        /// The tensor.
        tensor: String,
        /// The fault.
        what: String,
    },

    /// The operating system refuses to start threads.
    #[error("{threads} threads could not be started: {error}")]
    Threads {
        /// The requested number.
        threads: usize,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },

    /// Keys or values of an element type of the limits are not supported.
    #[error("KV cache in {kv}: {what}")]
    Kv {
        /// The type.
        kv: crate::KvElement,
        /// The reason, and what is expected.
        what: String,
    },

    /// The limits need more memory than there is.
    #[error("{what} needs {needed} bytes of memory, {}", match .available {
        Some(available) => format!("but only {available} are available"),
        None => "which could not be allocated".to_owned(),
    })]
    Memory {
        /// The use of the memory.
        what: &'static str,
        /// The needed bytes.
        needed: u128,
        /// The available bytes, if the system reports them.
        available: Option<u64>,
    },

    /// The parts of a load need more memory together than there is.
    #[error(
        "the load needs {needed} bytes of memory on '{device}', but only {available} are available: \
         {terms}"
    )]
    LoadMemory {
        /// The backend's name.
        device: String,
        /// The needed bytes.
        needed: u128,
        /// The bytes that are available.
        available: u64,
        /// The largest uses with their bytes, and how the largest becomes smaller.
        terms: String,
    },

    /// A model cannot be split over devices in the demanded way.
    #[error("{0}")]
    Placement(String),

    /// A GPU lacks a capability or failed.
    #[error("device '{device}': {what}")]
    Device {
        /// The name of the GPU.
        device: String,
        /// The fault.
        what: String,
    },

    /// The backend has no clock for single steps.
    #[error("this device cannot tell the time of single steps")]
    Profile,

    /// The source of a kernel could not be assembled: a mistake of the backend.
    #[error("kernel '{kernel}' could not be assembled: {what}")]
    Kernel {
        /// The kernel.
        kernel: String,
        /// The fault.
        what: String,
    },
}
