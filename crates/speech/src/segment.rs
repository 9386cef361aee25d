//! Results: segments and words.

/// A piece of text with its times, as OpenAI's `transcribe` returns it.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Index in the file, from 0.
    pub id: usize,
    /// The first frame of the window that it was found in, in hundredths of a second.
    pub seek: usize,
    /// Seconds from the start of the file.
    pub start: f64,
    /// Seconds from the start of the file.
    pub end: f64,
    /// The text, with the space before it.
    pub text: String,
    /// The tokens, timestamps included.
    pub tokens: Vec<u32>,
    /// The temperature with which it was decoded.
    pub temperature: f64,
    /// The mean log-probability of the window's tokens.
    pub average_logprob: f64,
    /// Bytes of the window's text over those of its zlib stream.
    pub compression_ratio: f64,
    /// The probability that the window has no speech.
    pub no_speech_prob: f64,
    /// Words with their times, if they were wanted; else empty.
    pub words: Vec<Word>,
}

/// A word with its times.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// The text, with the space before it and the punctuation that belongs to it.
    pub text: String,
    /// Seconds from the start of the file.
    pub start: f64,
    /// Seconds from the start of the file.
    pub end: f64,
    /// The mean probability of its tokens.
    pub probability: f64,
}
