//! Settings of voice activity detection.

/// Settings of [`VoiceDetector`](crate::VoiceDetector). Lengths are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VoiceOptions {
    /// The score in [0, 1] at which speech begins.
    pub onset: f32,
    /// The score in [0, 1] below which speech ends, at most `onset`.
    pub offset: f32,
    /// The change of the spectrum's shape in dB that speech reaches for more than half of some 1.2
    /// s. Steady noise has at most 1.6, notes of 0.25 s and more at most 1.5. Some sentences of
    /// synthetic voices have less than 1.85, speech in noise of its own power has 2. Zero switches
    /// the test off.
    pub least_change: f32,
    /// Least length of speech; a shorter one is dropped.
    pub least_speech: f64,
    /// Least length of a pause; a shorter one belongs to the speech around it.
    pub least_silence: f64,
    /// Greatest length with its padding; a longer part is cut where its score is least.
    pub greatest: f64,
    /// Length that is added before and behind, at most half of the pause there.
    pub padding: f64,
}

impl Default for VoiceOptions {
    fn default() -> Self {
        Self {
            onset: 0.5,
            offset: 0.35,
            least_change: 1.7,
            least_speech: 0.25,
            least_silence: 0.16,
            greatest: 30.0,
            padding: 0.4,
        }
    }
}
