//! Errors: sentences that say what was found and what was expected.

/// Why a picture could not be read or prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Bytes in which no picture was found.
    #[error("{name} is not a picture of a known format: expected PNG, JPEG, WebP, GIF or BMP")]
    Unknown {
        /// The picture.
        name: String,
    },
    /// A picture of a format that is not supported.
    #[error("{name} is {format}, which is not supported: expected PNG, JPEG, WebP, GIF or BMP")]
    Format {
        /// The picture.
        name: String,
        /// The format, with its article.
        format: &'static str,
    },
    /// A picture that does not follow its format.
    #[error("{name} is damaged: {problem}")]
    Malformed {
        /// The picture.
        name: String,
        /// The fault.
        problem: String,
    },
    /// A value beyond a limit.
    #[error("{name} {problem}")]
    Limit {
        /// The picture.
        name: String,
        /// The value that was found, and the limit.
        problem: String,
    },
    /// A settings file that is not that of a supported preprocessing.
    #[error("{file} cannot be used: {problem}")]
    Settings {
        /// The file.
        file: String,
        /// The fault, and what was expected.
        problem: String,
    },
    /// A picture that took more time than its [`Limits`](crate::Limits) allow.
    #[error("{name} was not read within {seconds} seconds, the limit")]
    TooSlow {
        /// The picture.
        name: String,
        /// The limit.
        seconds: f64,
    },
    /// A picture whose caller wants it no more.
    #[error("{name} was not read to its end: the reading was cancelled")]
    Cancelled {
        /// The picture.
        name: String,
    },
}
