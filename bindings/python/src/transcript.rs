//! The text of audio, with its times.

use pelton::speech::{Format, WriteOptions, write};
use pyo3::prelude::*;

use crate::error::Failure;

/// A word with its times.
#[pyclass(frozen, get_all, module = "pelton")]
#[derive(Clone)]
pub(crate) struct Word {
    /// The text, with the space before it.
    text: String,
    /// Seconds from the start of the audio.
    start: f64,
    /// Seconds from the start of the audio.
    end: f64,
    /// The mean probability of its tokens.
    probability: f64,
}

impl From<&pelton::speech::Word> for Word {
    fn from(word: &pelton::speech::Word) -> Self {
        let (text, probability) = (word.text.clone(), word.probability);
        Self { text, start: word.start, end: word.end, probability }
    }
}

#[pymethods]
impl Word {
    fn __repr__(&self) -> String {
        format!("Word({:.2}, {:.2}, {:?})", self.start, self.end, self.text)
    }
}

/// A part of a transcript.
#[pyclass(frozen, get_all, module = "pelton")]
#[derive(Clone)]
pub(crate) struct Segment {
    /// The text, with the space before it.
    text: String,
    /// Seconds from the start of the audio.
    start: f64,
    /// Seconds from the start of the audio.
    end: f64,
    /// The tokens, timestamps included.
    tokens: Vec<u32>,
    /// The mean log-probability of the window's tokens.
    average_logprob: f64,
    /// The probability that the window has no speech.
    no_speech_prob: f64,
    /// Words with their times, if they were wanted.
    words: Vec<Word>,
}

#[pymethods]
impl Segment {
    fn __repr__(&self) -> String {
        format!("Segment({:.2}, {:.2}, {:?})", self.start, self.end, self.text)
    }
}

/// The text of audio.
#[pyclass(frozen, module = "pelton")]
pub(crate) struct Transcript {
    transcript: pelton::speech::Transcript,
}

impl From<pelton::speech::Transcript> for Transcript {
    fn from(transcript: pelton::speech::Transcript) -> Self {
        Self { transcript }
    }
}

#[pymethods]
impl Transcript {
    /// The whole text.
    #[getter]
    fn text(&self) -> &str {
        &self.transcript.text
    }

    /// The language, as ISO 639 has it.
    #[getter]
    fn language(&self) -> String {
        self.transcript.language.to_string()
    }

    /// The parts, in order.
    #[getter]
    fn segments(&self) -> Vec<Segment> {
        let segment = |segment: &pelton::speech::Segment| Segment {
            text: segment.text.clone(),
            start: segment.start,
            end: segment.end,
            tokens: segment.tokens.clone(),
            average_logprob: segment.average_logprob,
            no_speech_prob: segment.no_speech_prob,
            words: segment.words.iter().map(Word::from).collect(),
        };
        self.transcript.segments.iter().map(segment).collect()
    }

    /// The transcript as a file's text: `txt`, `srt`, `vtt`, `tsv`, `json`, `csv` or `lrc`.
    fn to(&self, py: Python<'_>, format: &str) -> PyResult<String> {
        let format: Format =
            format.parse().map_err(|error: String| Failure::input(error).raise(py))?;
        let mut text = Vec::new();
        let segments = &self.transcript.segments;
        let words = segments.iter().any(|segment| !segment.words.is_empty());
        let language = self.transcript.language.to_string();
        let options = WriteOptions { words, language, ..WriteOptions::default() };
        write(format, segments, &options, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn __str__(&self) -> &str {
        &self.transcript.text
    }

    fn __repr__(&self) -> String {
        format!(
            "Transcript({:?}, language={}, segments={})",
            self.transcript.text,
            self.transcript.language,
            self.transcript.segments.len()
        )
    }
}
