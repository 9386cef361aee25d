//! Errors: sentences that say what was found and what to do.

use std::io;

/// Why audio could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AudioError {
    /// A file that cannot be opened or read.
    #[error("{name} could not be read: {source}")]
    Io {
        /// The file.
        name: String,
        /// The failure.
        source: io::Error,
    },
    /// Bytes in which no audio format was found.
    #[error(
        "{name} is not an audio file of a known format: expected wav, aiff, flac, mp3, ogg, opus, m4a, mp4, aac, mkv or webm"
    )]
    Unknown {
        /// The file.
        name: String,
    },
    /// A container without a track of audio.
    #[error("{name} has no audio: its {container} container has {tracks} other tracks")]
    NoAudio {
        /// The file.
        name: String,
        /// The container's name.
        container: &'static str,
        /// Tracks of other kinds.
        tracks: usize,
    },
    /// A track in a codec that is not supported.
    #[error(
        "{name}: its audio is {codec}, which is not supported. Convert it, for example: ffmpeg -i INPUT output.flac"
    )]
    Codec {
        /// The file.
        name: String,
        /// The codec's name.
        codec: String,
    },
    /// A file that does not follow its format.
    #[error("{name} is damaged: {problem}")]
    Malformed {
        /// The file.
        name: String,
        /// The fault.
        problem: String,
    },
    /// A reading that a [`Cancel`](crate::Cancel) ended.
    #[error("{name} was not read to its end: the reading was cancelled")]
    Cancelled {
        /// The file.
        name: String,
    },
    /// Audio that is longer than the limit.
    #[error("{name} is longer than {seconds} seconds, the limit")]
    TooLong {
        /// The file.
        name: String,
        /// The limit.
        seconds: u64,
    },
    /// A value beyond a limit.
    #[error("{name}: {problem}")]
    Limit {
        /// The file.
        name: String,
        /// The value that was found, and the limit.
        problem: String,
    },
}
