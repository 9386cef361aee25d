//! Kinds of errors, by which a program decides what to do.

/// The kind of fault of an [`Error`](crate::Error). Kinds are stable, where messages and
/// variants become more exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or a folder is not there.
    NotFound,
    /// A file could not be read or written for another reason, such as its permissions.
    Io,
    /// A file of a model is broken, incomplete or contradicts another one.
    InvalidModel,
    /// The model, the device or this build cannot do it.
    Unsupported,
    /// An option, a prompt, a message or a constraint is not valid.
    InvalidInput,
    /// The prompt or a text is longer than the context.
    TooLong,
    /// There is not enough memory.
    OutOfMemory,
    /// The queue is full: the same request may succeed later.
    Busy,
    /// The deadline has passed.
    TimedOut,
    /// The request was cancelled, or the model was unloaded.
    Cancelled,
    /// The device could not be opened, or does not work.
    Device,
    /// The model does not answer any more, or its results are not numbers.
    Internal,
}
