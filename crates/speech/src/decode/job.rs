//! A window to decode, and its text.

use crate::language::Language;
use crate::recognizer::Window;

use super::language::LanguageProbability;
use super::options::DecodeOptions;

/// One window to decode.
#[derive(Clone, Debug)]
pub struct Job {
    /// The encoded window.
    pub window: Window,
    /// A number that identifies the window in draws and callbacks, such as its first frame.
    pub id: u64,
    /// The options.
    pub options: DecodeOptions,
    /// Tokens of the text before the window; the last of them are used.
    pub prompt: Vec<u32>,
}

/// The text of one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The language that the prompt named: as given or as detected.
    pub language: Language,
    /// Probabilities of all languages, if the language was detected; else empty.
    pub languages: Vec<LanguageProbability>,
    /// The sampled tokens, timestamps included, without the end.
    pub tokens: Vec<u32>,
    /// Their text without white space at its ends.
    pub text: String,
    /// Whether the text ended by itself; `false` if the model's context or the options ended it, or
    /// if no token was allowed.
    pub ended: bool,
    /// The mean log-probability of the tokens and the end, at least -1000.
    pub average_logprob: f64,
    /// The probability that the window has no speech.
    pub no_speech_prob: f64,
    /// The temperature.
    pub temperature: f64,
    /// Bytes of the text over those of its zlib stream.
    pub compression_ratio: f64,
}
