//! Transcription of audio.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use pelton::{
    ModelSource, SpeechOptions,
    speech::{AudioFile, Memory, Task, TranscribeOptions, Transcription, VoiceOptions},
};
use pyo3::{
    buffer::PyBuffer,
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};

use crate::{
    arguments::path,
    call::awaitable,
    error::Failure,
    live::LiveTranscript,
    load::{Place, engine, kv_type},
    process::Owned,
    samples::{array_type, floats, no_samples},
    transcript::Transcript,
    wait::on_thread,
};

/// A model that recognizes speech, as Whisper. One transcription runs at a time; others wait for
/// it.
#[pyclass(frozen, module = "pelton")]
pub(crate) struct SpeechModel {
    model: Owned<Arc<Mutex<pelton::SpeechModel>>>,
    name: String,
}

/// The audio of a call.
enum Audio {
    Path(PathBuf),
    Bytes(Vec<u8>),
    /// 16,000 samples a second.
    Samples(Vec<f32>),
}

impl Audio {
    fn new(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        const EXPECTED: &str =
            "a path, the bytes of a file, or float or int16 samples of one channel at 16,000 Hz";
        if value.is_instance_of::<PyString>() {
            return path("audio", value, EXPECTED).map(Self::Path);
        }
        if let Some(samples) = floats(value)? {
            return Ok(Self::Samples(samples));
        }
        // bytes of numbers are no file
        if array_type(value)?.is_some_and(|kind| kind != "|u1") {
            return Err(no_samples("audio", value, EXPECTED));
        }
        if let Ok(buffer) = PyBuffer::<u8>::get(value) {
            return Ok(Self::Bytes(buffer.to_vec(value.py())?));
        }
        path("audio", value, EXPECTED).map(Self::Path)
    }
}

/// Rules of keyword arguments.
fn rules(
    py: Python<'_>,
    language: Option<&str>,
    task: &str,
    beam_size: Option<usize>,
    temperatures: Option<Vec<f64>>,
    seed: Option<u64>,
) -> PyResult<TranscribeOptions> {
    let raise = |message: String| Failure::input(message).raise(py);
    let mut rules = TranscribeOptions::default();
    let language = language.map(str::parse).transpose();
    rules.decode.language = language.map_err(|error| raise(format!("{error}")))?;
    rules.decode.task = match task {
        "transcribe" => Task::Transcribe,
        "translate" => Task::Translate,
        _ => return Err(raise(format!("task is {task:?}, expected transcribe or translate"))),
    };
    rules.decode.beam_size = beam_size;
    rules.temperatures = temperatures.unwrap_or(rules.temperatures);
    rules.decode.seed = seed.unwrap_or(rules.decode.seed);
    Ok(rules)
}

/// Loads a model that recognizes speech: a file of whisper.cpp, a GGUF file, a Hugging Face
/// directory, or the name of a model of a hub; None is the demonstration within the package.
#[pyfunction]
#[pyo3(signature = (path = None, device = "auto", *, threads = None, windows = 1, beams = 5, kv = "f16"))]
pub(crate) fn load_speech(
    py: Python<'_>,
    path: Option<&Bound<'_, PyAny>>,
    device: &str,
    threads: Option<usize>,
    windows: usize,
    beams: usize,
    kv: &str,
) -> PyResult<SpeechModel> {
    let place = Place::new(path)?;
    let kv = kv_type(kv).map_err(|failure| failure.raise(py))?;
    let options = SpeechOptions::default().windows(windows).beams(beams).kv(kv);
    let device = device.to_owned();
    let model = on_thread(py, move |gone| {
        let source: ModelSource = place.source(gone.flag())?;
        Ok(engine(&device, threads)?.load_speech(source, &options)?)
    })?;
    let name = model.name().to_owned();
    Ok(SpeechModel { model: Owned::new(Arc::new(Mutex::new(model))), name })
}

#[pymethods]
impl SpeechModel {
    /// Transcribes audio: a path, the bytes of a file, or samples of one channel at 16,000 Hz.
    /// Samples are floating-point numbers in [-1, 1], or int16; arrays of numpy may have
    /// either order of bytes.
    #[pyo3(signature = (
        audio, *, language = None, task = "transcribe", words = false, prompt = None,
        beam_size = None, temperatures = None, vad = false, batched = false, seed = None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn transcribe(
        &self,
        audio: &Bound<'_, PyAny>,
        language: Option<&str>,
        task: &str,
        words: bool,
        prompt: Option<String>,
        beam_size: Option<usize>,
        temperatures: Option<Vec<f64>>,
        vad: bool,
        batched: bool,
        seed: Option<u64>,
    ) -> PyResult<Transcript> {
        let py = audio.py();
        let raise = |failure: Failure| failure.raise(py);
        let audio = Audio::new(audio)?;
        let mut rules = rules(py, language, task, beam_size, temperatures, seed)?;
        (rules.words, rules.initial_prompt) = (words, prompt);
        let mut options = Transcription::default();
        options.rules = rules;
        options.batched = batched;
        options.voices = vad.then(VoiceOptions::default);
        let model = Arc::clone(self.model.get().map_err(raise)?);
        let transcript = on_thread(py, move |gone| {
            let mut model = model.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(match audio {
                Audio::Path(path) => model.transcribe(AudioFile::open(path)?, &options, gone)?,
                Audio::Bytes(bytes) => {
                    let file = AudioFile::from_bytes(bytes, "audio")?;
                    model.transcribe(file, &options, gone)?
                }
                Audio::Samples(samples) => {
                    model.transcribe(Memory::new(samples), &options, gone)?
                }
            })
        })?;
        Ok(transcript.into())
    }

    /// `transcribe`, to be awaited.
    #[pyo3(
        signature = (*arguments, **keywords),
        text_signature = "($self, audio, *, language=None, task='transcribe', words=False, prompt=None, \
                          beam_size=None, temperatures=None, vad=False, batched=False, seed=None)"
    )]
    fn atranscribe<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        awaitable(slf.as_any(), "transcribe", arguments, keywords)
    }

    /// Starts a transcription of audio that still comes. The model must know the times of words.
    #[pyo3(signature = (
        *, language = None, task = "transcribe", beam_size = None, temperatures = None, seed = None,
        step = 1.0,
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn live(
        &self,
        py: Python<'_>,
        language: Option<&str>,
        task: &str,
        beam_size: Option<usize>,
        temperatures: Option<Vec<f64>>,
        seed: Option<u64>,
        step: f64,
    ) -> PyResult<LiveTranscript> {
        let rules = rules(py, language, task, beam_size, temperatures, seed)?;
        let model = self.model.get().map_err(|failure| failure.raise(py))?;
        LiveTranscript::new(py, Arc::clone(model), rules, step)
    }

    /// The name of the file that the model came from.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __repr__(&self) -> String {
        format!("SpeechModel({:?})", self.name)
    }
}
