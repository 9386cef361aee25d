//! Transcription of audio that still comes.

use std::sync::{Arc, Mutex, PoisonError};

use pelton::speech::{LiveTranscription, TranscribeOptions};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};

use crate::{
    call::awaitable,
    error::Failure,
    process::Owned,
    samples::{floats, no_samples},
    transcript::Word,
    wait::on_thread,
};

/// A transcription and the words that may still change.
struct State {
    /// Until its end.
    live: Option<LiveTranscription>,
    pending: Vec<pelton::speech::Word>,
    language: Option<String>,
}

/// A transcription of audio that still comes. A word comes out once two transcripts in
/// succession agree on it.
#[pyclass(frozen, module = "pelton")]
pub(crate) struct LiveTranscript {
    model: Owned<Arc<Mutex<pelton::SpeechModel>>>,
    state: Arc<Mutex<State>>,
}

impl LiveTranscript {
    pub(crate) fn new(
        py: Python<'_>,
        model: Arc<Mutex<pelton::SpeechModel>>,
        rules: TranscribeOptions,
        step: f64,
    ) -> PyResult<Self> {
        if !(0.1..=30.0).contains(&step) {
            let message = format!("step is {step}, expected seconds from 0.1 to 30");
            return Err(Failure::input(message).raise(py));
        }
        let live = Some(LiveTranscription::new(rules, step));
        let state = State { live, pending: Vec::new(), language: None };
        Ok(Self { model: Owned::new(model), state: Arc::new(Mutex::new(state)) })
    }

    /// Adds samples, and transcribes if enough of them have come. Returns the words that are final.
    fn add(&self, py: Python<'_>, samples: Vec<f32>, is_last: bool) -> PyResult<Vec<Word>> {
        let model = Arc::clone(self.model.get().map_err(|failure| failure.raise(py))?);
        let state = Arc::clone(&self.state);
        let words = on_thread(py, move |gone| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let state = &mut *state;
            let Some(live) = &mut state.live else {
                return Err(Failure::input("the audio was finished before, expected no more"));
            };
            live.push(&samples);
            if !live.is_due() && !is_last {
                return Ok(Vec::new());
            }
            let mut model = model.lock().unwrap_or_else(PoisonError::into_inner);
            let update = live.advance(&mut model, gone)?;
            drop(model);
            let language = live.language().map(|language| language.to_string());
            (state.pending, state.language) = (update.tentative, language);
            let mut words = update.committed;
            if is_last {
                words.extend(state.live.take().into_iter().flat_map(LiveTranscription::finish));
                state.pending.clear();
            }
            Ok(words)
        })?;
        Ok(words.iter().map(Word::from).collect())
    }

    /// A value of the state, which a call of another thread may hold.
    fn read<T: Send>(&self, py: Python<'_>, read: impl FnOnce(&State) -> T + Send) -> T {
        py.detach(|| read(&self.state.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl LiveTranscript {
    /// Adds float32 samples of one channel at 16,000 Hz, and returns the words that are final now.
    /// It transcribes when `step` seconds have come since the last time.
    #[pyo3(signature = (samples, /))]
    fn push(&self, samples: &Bound<'_, PyAny>) -> PyResult<Vec<Word>> {
        const EXPECTED: &str =
            "float or int16 samples of one channel at 16,000 Hz, all of them numbers";
        match floats(samples)? {
            Some(floats) if floats.iter().all(|sample| sample.is_finite()) => {
                self.add(samples.py(), floats, false)
            }
            _ => Err(no_samples("samples", samples, EXPECTED)),
        }
    }

    /// Ends the audio, and returns the words that are left.
    fn finish(&self, py: Python<'_>) -> PyResult<Vec<Word>> {
        self.add(py, Vec::new(), true)
    }

    /// `push`, to be awaited.
    #[pyo3(signature = (*arguments, **keywords), text_signature = "($self, samples, /)")]
    fn apush<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        awaitable(slf.as_any(), "push", arguments, keywords)
    }

    /// `finish`, to be awaited.
    #[pyo3(signature = (*arguments, **keywords), text_signature = "($self)")]
    fn afinish<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        awaitable(slf.as_any(), "finish", arguments, keywords)
    }

    /// The words after the final ones, as the newest transcript has them. They may still change.
    #[getter]
    fn pending(&self, py: Python<'_>) -> Vec<Word> {
        self.read(py, |state| state.pending.iter().map(Word::from).collect())
    }

    /// The language, as ISO 639 has it, or None until it is known.
    #[getter]
    fn language(&self, py: Python<'_>) -> Option<String> {
        self.read(py, |state| state.language.clone())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        self.read(py, |state| {
            format!(
                "LiveTranscript(pending={}, ended={})",
                state.pending.len(),
                state.live.is_none()
            )
        })
    }
}
