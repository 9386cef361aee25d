//! Transcriptions: running ones, whose segments the caller pulls.

use std::{
    ffi::{c_char, c_void},
    mem, ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    thread::JoinHandle,
};

use pelton::speech::{self, AudioFile, Format, Segment, Transcript, WriteOptions};

use crate::{
    callback::{Wake, pelton_ready_fn},
    error::pelton_error,
    fault::Fault,
    feed::Feed,
    guard::{attempt, guard},
    handles::{self, handle},
    listener::{self, Audio, Item, Shared},
    memory::{Out, array, out, sized_out, text},
    model::pelton_model,
    options::{self, pelton_options},
    queue::Popped,
    status::pelton_status,
    stream::{end_of, pelton_next},
    text::{give, pelton_text},
    transcribe_options::SETTINGS,
};

/// A running transcription. It keeps its model loaded until it ends. One thread at a time reads it;
/// any thread can cancel it.
pub struct pelton_transcription;

/// A piece of speech. The caller sets `size`. The text lives until the next call with the
/// transcription; a NUL follows it.
#[repr(C)]
pub struct pelton_segment {
    /// `sizeof(pelton_segment)`, set by the caller.
    pub size: u32,
    /// Its index, from 0.
    pub index: u32,
    /// Seconds from the start of the audio.
    pub start: f64,
    /// Seconds from the start of the audio.
    pub end: f64,
    /// The text, with the space before it.
    pub text: *const c_char,
    /// Bytes of the text.
    pub text_length: usize,
    /// The probability that there is no speech; 0 for a word of live audio.
    pub no_speech: f64,
}

/// The state of the reader.
#[derive(Default)]
struct Reading {
    /// The segment whose text the caller may read.
    current: String,
    ended: bool,
    transcript: Option<Transcript>,
}

/// A transcription that runs.
pub(crate) struct TranscriptionObject {
    shared: Arc<Shared>,
    reading: Mutex<Reading>,
    words: bool,
    /// The audio of a live one.
    pub(crate) feed: Option<Arc<Feed>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

handle!(pelton_transcription, TranscriptionObject);

impl TranscriptionObject {
    fn reading(&self) -> Result<MutexGuard<'_, Reading>, Fault> {
        handles::alone::<pelton_transcription, _>(&self.reading)
    }

    fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Drop for TranscriptionObject {
    /// Waits for the pass that runs, because a process that ends while a GPU works can hang it.
    fn drop(&mut self) {
        self.cancel();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // its panics are caught
        thread.map(JoinHandle::join);
    }
}

/// Starts a transcription.
pub(crate) fn start(
    model: *const pelton_model,
    audio: impl FnOnce() -> Result<Audio, Fault>,
    options: *const pelton_options,
    place: Out<*mut pelton_transcription>,
) -> Result<(), Fault> {
    let model = handles::get(model)?;
    model.speech()?;
    let options = options::read(options, SETTINGS)?;
    let words = options.all.rules.words;
    let audio = audio()?;
    audio.check(&options)?;
    let feed = audio.feed();
    let shared = Arc::new(Shared::default());
    let thread = listener::start(model.keep(), audio, options, Arc::clone(&shared))?;
    let (reading, thread) = (Mutex::default(), Mutex::new(Some(thread)));
    place.set(handles::open(TranscriptionObject { shared, reading, words, feed, thread }));
    Ok(())
}

/// Samples that are numbers.
///
/// # Errors
///
/// One is infinite or none.
pub(crate) fn finite(samples: &[f32]) -> Result<&[f32], Fault> {
    match samples.iter().position(|sample| !sample.is_finite()) {
        None => Ok(samples),
        Some(at) => Err(Fault::invalid(format_args!(
            "sample {at} is {}, expected a number in [-1, 1]",
            samples[at]
        ))),
    }
}

/// Transcribes a file of audio. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_transcribe_file(
    model: *const pelton_model,
    path: *const c_char,
    path_length: usize,
    options: *const pelton_options,
    transcription: *mut *mut pelton_transcription,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let path = text(path, path_length, "path")?;
            let place = out(transcription, "transcription")?;
            let audio = || {
                let file = AudioFile::open(path).map_err(pelton::Error::from)?;
                Ok(Audio::File(Box::new(file)))
            };
            start(model, audio, options, place)
        })
    }
}

/// Transcribes samples of one channel at 16,000 samples a second, in [-1, 1]. They are copied.
/// `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_transcribe_samples(
    model: *const pelton_model,
    samples: *const f32,
    count: usize,
    options: *const pelton_options,
    transcription: *mut *mut pelton_transcription,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let samples = finite(array(samples, count, "samples")?)?;
            let place = out(transcription, "transcription")?;
            start(model, || Ok(Audio::Samples(samples.to_vec())), options, place)
        })
    }
}

/// Waits for the next segment, as `pelton_stream_next` does for tokens.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_transcription_next(
    transcription: *mut pelton_transcription,
    timeout_ms: i64,
    segment: *mut pelton_segment,
    error: *mut *mut pelton_error,
) -> pelton_next {
    // SAFETY: the caller keeps the header's rules of pointers.
    let outcome = unsafe {
        attempt(error, || {
            let transcription = handles::get(transcription)?;
            let place = sized_out(segment, mem::size_of::<pelton_segment>(), "segment")?;
            let mut reading = transcription.reading()?;
            if reading.ended {
                return Ok(pelton_next::PELTON_NEXT_END);
            }
            match transcription.shared.queue.pop(end_of(timeout_ms)) {
                Popped::Item(Item::Segment(segment)) => {
                    place.set(view(&segment, &mut reading.current));
                    Ok(pelton_next::PELTON_NEXT_ITEM)
                }
                Popped::Item(Item::Done(outcome)) => {
                    reading.ended = true;
                    reading.transcript = Some(outcome?);
                    Ok(pelton_next::PELTON_NEXT_END)
                }
                Popped::Closed => {
                    reading.ended = true;
                    Ok(pelton_next::PELTON_NEXT_END)
                }
                Popped::TimedOut => Ok(pelton_next::PELTON_NEXT_TIMEOUT),
            }
        })
    };
    outcome.unwrap_or(pelton_next::PELTON_NEXT_ERROR)
}

/// The view of C, with the text in `current`.
fn view(segment: &Segment, current: &mut String) -> pelton_segment {
    current.clear();
    current.push_str(&segment.text);
    current.push('\0');
    pelton_segment {
        size: 0,
        index: segment.id as u32,
        start: segment.start,
        end: segment.end,
        text: current.as_ptr().cast(),
        text_length: segment.text.len(),
        no_speech: segment.no_speech_prob,
    }
}

/// Cancels the transcription. Its next read fails with `PELTON_CANCELLED`, after the
/// segments that there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_transcription_cancel(
    transcription: *const pelton_transcription,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            handles::get(transcription)?.cancel();
            Ok(())
        })
    }
}

/// Sets a function that is called when a segment or the end can be read, as
/// `pelton_stream_on_ready` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_transcription_on_ready(
    transcription: *const pelton_transcription,
    callback: pelton_ready_fn,
    user_data: *mut c_void,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let transcription = handles::get(transcription)?;
            transcription.shared.queue.on_ready(Wake::new(callback, user_data));
            Ok(())
        })
    }
}

/// Reads the whole result after the end: `text`, `language` (its code), or a file in the format
/// `txt`, `srt`, `vtt`, `tsv`, `json`, `csv` or `lrc`. At any time `pending` is the newest text of
/// live audio after its words, which may still change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_transcription_text(
    transcription: *const pelton_transcription,
    name: *const c_char,
    name_length: usize,
    value: *mut *mut pelton_text,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let transcription = handles::get(transcription)?;
            let name = text(name, name_length, "name")?;
            let place = out(value, "value")?;
            if name == "pending" {
                give(place, transcription.shared.pending());
                return Ok(());
            }
            let reading = transcription.reading()?;
            let Some(transcript) = &reading.transcript else {
                return Err(Fault::invalid(
                    "the transcription has no result, expected one that was read to its end",
                ));
            };
            give(place, written(transcript, name, transcription.words)?);
            Ok(())
        })
    }
}

fn written(transcript: &Transcript, name: &str, words: bool) -> Result<String, Fault> {
    let language = transcript.language.code();
    let format: Format = match name {
        "text" => return Ok(transcript.text.clone()),
        "language" => return Ok(language.to_owned()),
        name => name.parse().map_err(Fault::invalid)?,
    };
    let options = WriteOptions { words, language: language.to_owned(), ..WriteOptions::default() };
    let mut bytes = Vec::new();
    speech::write(format, &transcript.segments, &options, &mut bytes)
        .map_err(|error| Fault::new(pelton_status::PELTON_INTERNAL, error))?;
    String::from_utf8(bytes).map_err(|error| Fault::new(pelton_status::PELTON_INTERNAL, error))
}

/// Closes a transcription, and cancels it. Waits for the pass that runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_transcription_close(
    transcription: *mut pelton_transcription,
) -> pelton_status {
    // SAFETY: there is no place for an error.
    unsafe {
        guard(ptr::null_mut(), || {
            let transcription = handles::close(transcription)?;
            transcription.shared.queue.on_ready(None);
            transcription.cancel();
            Ok(())
        })
    }
}
