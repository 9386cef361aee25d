//! The end of the reading of a file, ordered from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A handle that ends the reading of a file: at once from any thread, or at a time.
///
/// Decoders look at it whenever they read bytes, and between packets.
///
/// ```
/// use pelton_audio::{AudioError, AudioFile, Cancel};
///
/// let cancel = Cancel::new();
/// cancel.cancel();
/// let bytes = std::io::Cursor::new(b"RIFF".repeat(99));
/// let error = AudioFile::from_reader_until(bytes, "an upload", &cancel).err();
/// assert!(matches!(error, Some(AudioError::Cancelled { .. })));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    flag: Arc<AtomicBool>,
    end: Option<Instant>,
}

impl Cancel {
    /// A handle without a time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A handle that is due from a time on.
    #[must_use]
    pub fn at(end: Instant) -> Self {
        Self { flag: Arc::default(), end: Some(end) }
    }

    /// Ends the reading.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether the time has come.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Whether the reading ends.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.is_late()
    }
}
