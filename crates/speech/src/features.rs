//! The spectrogram of a file, read window by window.

/// The log-mel spectrogram `[frames, mels]` of a file, 100 frames a second.
///
/// Windows are read in ascending order of their first frames, so that a file of hours streams.
pub trait Features {
    /// Why a window could not be read.
    type Error;

    /// Frames of the file's content, without the silence that is appended to it.
    fn frames(&self) -> usize;

    /// Writes the frames from `first` on to `out` `[frames of a window, mels]`, and zeros in place
    /// of those beyond the content.
    ///
    /// # Errors
    ///
    /// The file could not be read or decoded.
    fn read(&mut self, first: usize, out: &mut [f32]) -> Result<(), Self::Error>;

    /// As [`read`](Self::read), but with the frames of silence beyond the content. The language is
    /// detected in such a window, because OpenAI's code appends silence to the audio of a file.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    fn read_with_silence(&mut self, first: usize, out: &mut [f32]) -> Result<(), Self::Error>;
}
