//! The codes that functions return.

use pelton::ErrorKind;

/// The result of a call: 0, or the kind of the error. Codes keep their numbers in all versions.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pelton_status {
    /// The call has succeeded.
    PELTON_OK = 0,
    /// A pointer is NULL that must not be.
    PELTON_NULL = 1,
    /// A handle is not live: it was closed, or it is another kind of handle.
    PELTON_CLOSED = 2,
    /// The caller's buffer is too small. Nothing was written to it, and the count
    /// says how much is needed.
    PELTON_BUFFER = 3,
    /// A call with this handle has panicked before. It can only be closed.
    PELTON_POISONED = 4,
    /// The library has panicked, which is a defect of it. The call's handles are poisoned.
    PELTON_PANIC = 5,
    /// A callback has called the library.
    PELTON_CALLBACK = 6,
    /// A file or a folder is not there.
    PELTON_NOT_FOUND = 16,
    /// A file could not be read or written for another reason.
    PELTON_IO = 17,
    /// A file of a model is broken, incomplete or contradicts another one.
    PELTON_INVALID_MODEL = 18,
    /// The model, the device or this build cannot do it.
    PELTON_UNSUPPORTED = 19,
    /// An option, a prompt, a message or a grammar is not valid.
    PELTON_INVALID = 20,
    /// The prompt or a text is longer than the context.
    PELTON_TOO_LONG = 21,
    /// There is not enough memory.
    PELTON_OUT_OF_MEMORY = 22,
    /// The queue is full, or another thread has the handle. The same call may succeed later.
    PELTON_BUSY = 23,
    /// The deadline has passed.
    PELTON_DEADLINE = 24,
    /// The request was cancelled.
    PELTON_CANCELLED = 25,
    /// The device could not be opened, or does not work.
    PELTON_DEVICE = 26,
    /// The model does not answer any more, or its results are not numbers.
    PELTON_INTERNAL = 27,
}

impl From<ErrorKind> for pelton_status {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NotFound => Self::PELTON_NOT_FOUND,
            ErrorKind::Io => Self::PELTON_IO,
            ErrorKind::InvalidModel => Self::PELTON_INVALID_MODEL,
            ErrorKind::Unsupported => Self::PELTON_UNSUPPORTED,
            ErrorKind::InvalidInput => Self::PELTON_INVALID,
            ErrorKind::TooLong => Self::PELTON_TOO_LONG,
            ErrorKind::OutOfMemory => Self::PELTON_OUT_OF_MEMORY,
            ErrorKind::Busy => Self::PELTON_BUSY,
            ErrorKind::TimedOut => Self::PELTON_DEADLINE,
            ErrorKind::Cancelled => Self::PELTON_CANCELLED,
            ErrorKind::Device => Self::PELTON_DEVICE,
            // kinds that come later
            _ => Self::PELTON_INTERNAL,
        }
    }
}
