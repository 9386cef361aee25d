//! Errors: sentences that say what was found and what to do.

use std::{io, path::PathBuf};

/// Why a model could not be named, found, downloaded or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that is no name of a model.
    #[error("{text:?} is no name of a model: {problem}")]
    Name {
        /// The text.
        text: String,
        /// The fault, and what is expected.
        problem: String,
    },
    /// A setting of the environment that cannot be used.
    #[error("{variable} is {value:?}, expected {expected}")]
    Setting {
        /// The environment variable, or the path of a file.
        variable: String,
        /// Its value; that of a token is left out.
        value: String,
        /// The form that the value should have.
        expected: &'static str,
    },
    /// A model that is not on this machine, where downloads are switched off.
    #[error(
        "{name} is not on this machine ({places}), and downloads are switched off (--offline or HF_HUB_OFFLINE)"
    )]
    Offline {
        /// The model.
        name: String,
        /// The places that were searched.
        places: String,
    },
    /// A short name that neither this machine nor the table of short names has.
    #[error("{name} is neither on this machine ({places}) nor one of the short names: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The places that were searched.
        places: String,
        /// Short names of the same family, or else all families.
        known: String,
    },
    /// A host that cannot be reached, or whose connections fail again and again.
    #[error("{url} could not be read: {problem}")]
    Network {
        /// The address, without its query.
        url: String,
        /// The last failure.
        problem: String,
    },
    /// A response with a status that refuses the request.
    #[error("{url} answered {status}: {sentence}")]
    Status {
        /// The address, without its query.
        url: String,
        /// The status of HTTP.
        status: u16,
        /// The meaning of the status here, and what to do.
        sentence: String,
    },
    /// A response that is not what the hub promises.
    #[error("the answer of {url} was refused: {problem}")]
    Answer {
        /// The address, without its query.
        url: String,
        /// The fault, and what was expected.
        problem: String,
    },
    /// A repository or folder without the wanted files.
    #[error("{name}: {problem}")]
    Files {
        /// The model.
        name: String,
        /// The files that are there, and those that were wanted.
        problem: String,
    },
    /// A downloaded file whose hash is another than the hub's.
    #[error(
        "{file} has the {kind} {found}, expected {expected}: it was damaged on its way or is not what \
         the hub announced, and was deleted"
    )]
    Hash {
        /// The file.
        file: String,
        /// `SHA-256` or `Git SHA-1`.
        kind: &'static str,
        /// The hash of the bytes that came, in hexadecimal digits.
        found: String,
        /// The announced hash, in hexadecimal digits.
        expected: String,
    },
    /// A downloaded file that is no model, although its name says so. It was deleted.
    #[error("{file} is no model: {problem}")]
    Model {
        /// The file.
        file: String,
        /// Its beginning, and what was expected.
        problem: String,
    },
    /// A disk without room for a download.
    #[error("{needed} bytes are needed in {}, and {free} are free", folder.display())]
    Disk {
        /// Bytes that are still to be downloaded.
        needed: u64,
        /// Bytes that the file system has for this user.
        free: u64,
        /// The folder of the cache.
        folder: PathBuf,
    },
    /// A file or folder that cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A model of another program, which Pelton reads and does not delete.
    #[error("{name} belongs to {owner} ({}), so it was left there: delete it with {owner}", path.display())]
    Foreign {
        /// The model.
        name: String,
        /// The program.
        owner: &'static str,
        /// The model's file or folder.
        path: PathBuf,
    },
    /// The download was cancelled; what has come is kept for the next one.
    #[error("the download was cancelled; the next one continues it")]
    Cancelled,
}

/// A result with the crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the file system.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.into(), source }
    }

    pub(crate) fn name(text: &str, problem: impl Into<String>) -> Self {
        Self::Name { text: text.to_owned(), problem: problem.into() }
    }

    pub(crate) fn answer(url: &str, problem: impl Into<String>) -> Self {
        Self::Answer { url: without_query(url), problem: problem.into() }
    }
}

/// An address without its query, which may carry a signature.
pub(crate) fn without_query(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or(url).to_owned()
}
