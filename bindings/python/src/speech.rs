//! Transcription of audio.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use pelton::{
    ModelSource, SpeechOptions,
    speech::{
        AudioFile, Control, Format, Memory, Observer, Task, TranscribeOptions, Transcription,
        VoiceOptions, WriteOptions, write,
    },
};
use pyo3::{buffer::PyBuffer, prelude::*, types::PyString};

use crate::{
    arguments::path,
    error::Failure,
    live::LiveTranscript,
    load::{Place, engine, kv_type},
    process::Owned,
    wait::on_thread,
};

/// A model that recognizes speech, as Whisper. One transcription runs at a time; others wait for it.
#[pyclass(frozen, module = "pelton")]
pub(crate) struct SpeechModel {
    model: Owned<Arc<Mutex<pelton::SpeechModel>>>,
    name: String,
}

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

/// Stops a transcription whose caller was interrupted.
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    fn flow(&self) -> ControlFlow<()> {
        match self.0.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Control for Stop {
    fn step(&mut self) -> ControlFlow<()> {
        self.flow()
    }
}

impl Observer for Stop {
    fn progress(&mut self, _: usize, _: usize) -> ControlFlow<()> {
        self.flow()
    }
}

/// Sets the flag of [`Stop`] when the caller is gone.
pub(crate) struct Gone(Arc<AtomicBool>);

/// The two ends of a flag.
pub(crate) fn stop() -> (Stop, Gone) {
    let flag = Arc::new(AtomicBool::new(false));
    (Stop(Arc::clone(&flag)), Gone(flag))
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The samples of an argument, if it is an array with one dimension: of floating-point numbers, or of 16-bit
/// integers, which are in 32,768ths. Both orders of bytes are read.
pub(crate) fn floats(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<f32>>> {
    let py = value.py();
    let Some(kind) = array_type(value)? else {
        return match PyBuffer::<f32>::get(value) {
            Ok(buffer) if buffer.dimensions() == 1 => {
                let is_swapped = is_foreign(buffer.format().to_bytes());
                let mut values = buffer.to_vec(py)?;
                if is_swapped {
                    values.iter_mut().for_each(|x| *x = f32::from_bits(x.to_bits().swap_bytes()));
                }
                Ok(Some(values))
            }
            _ => Ok(None),
        };
    };
    let scale = match kind.get(1..) {
        Some("f2" | "f4" | "f8") => 1.0,
        Some("i2") => 1.0 / 32_768.0,
        _ => return Ok(None),
    };
    // numpy knows every order of bytes
    let native = value.call_method1("astype", ("=f4",))?;
    let buffer = PyBuffer::<f32>::get(&native)?;
    if buffer.dimensions() != 1 {
        return Ok(None);
    }
    let mut values = buffer.to_vec(py)?;
    values.iter_mut().for_each(|value| *value *= scale);
    Ok(Some(values))
}

/// Whether the first character of a format names another order of bytes than this machine's.
fn is_foreign(format: &[u8]) -> bool {
    let foreign: &[u8] = if cfg!(target_endian = "little") { b">!" } else { b"<" };
    format.first().is_some_and(|first| foreign.contains(first))
}

/// The type of an array's elements as numpy writes it, such as `>f4`; `None` of other values.
fn array_type(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Some(kind) = value.getattr_opt("dtype")? else { return Ok(None) };
    let Some(text) = kind.getattr_opt("str")? else { return Ok(None) };
    Ok(Some(text.extract::<String>()?))
}

/// The `TypeError` of an argument that has no samples, with the type of an array.
pub(crate) fn no_samples(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let shape = || -> PyResult<Option<String>> {
        let Some(kind) = array_type(value)? else { return Ok(None) };
        Ok(Some(format!("{kind} of {} dimensions", value.getattr("ndim")?.extract::<usize>()?)))
    };
    match shape() {
        Ok(Some(found)) => wrong(name, value, &format!("{expected}, not an array of {found}")),
        _ => wrong(name, value, expected),
    }
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

/// Loads a model that recognizes speech: a file of whisper.cpp, a GGUF file, a Hugging Face directory, or the
/// name of a model of a hub; None is the demonstration within the package.
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
    let model = on_thread(py, move || {
        let source: ModelSource = place.source()?;
        Ok(engine(&device, threads)?.load_speech(source, &options)?)
    })?;
    let name = model.name().to_owned();
    Ok(SpeechModel { model: Owned::new(Arc::new(Mutex::new(model))), name })
}

#[pymethods]
impl SpeechModel {
    /// Transcribes audio: a path, the bytes of a file, or samples of one channel at 16,000 Hz. Samples are
    /// floating-point numbers in [-1, 1], or int16; arrays of numpy may have either order of bytes.
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
        let (mut stop, _gone) = stop();
        let transcript = on_thread(py, move || {
            let mut model = model.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(match audio {
                Audio::Path(path) => {
                    model.transcribe(AudioFile::open(path)?, &options, &mut stop)?
                }
                Audio::Bytes(bytes) => {
                    let file = AudioFile::from_bytes(bytes, "audio")?;
                    model.transcribe(file, &options, &mut stop)?
                }
                Audio::Samples(samples) => {
                    model.transcribe(Memory::new(samples), &options, &mut stop)?
                }
            })
        })?;
        Ok(Transcript { transcript })
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
