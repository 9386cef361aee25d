//! Transcription of audio that still comes.

use std::sync::Arc;

use crate::{
    error::pelton_error,
    fault::Fault,
    feed::Feed,
    guard::guard,
    handles,
    listener::Audio,
    memory::{array, out},
    model::pelton_model,
    options::pelton_options,
    status::pelton_status,
    transcription::{TranscriptionObject, finite, pelton_transcription, start},
};

impl TranscriptionObject {
    fn feed(&self) -> Result<&Feed, Fault> {
        self.feed.as_deref().ok_or_else(|| {
            Fault::invalid("the audio of the transcription is complete, expected a live one")
        })
    }
}

/// Starts the transcription of live audio, which `pelton_transcription_push` adds. Its segments are
/// words: a word comes once two transcripts in succession agree on it, and then stays. The model
/// must know the times of words. Several live transcriptions can share it: each has it while it
/// computes. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_transcribe_live(
    model: *const pelton_model,
    options: *const pelton_options,
    transcription: *mut *mut pelton_transcription,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let place = out(transcription, "transcription")?;
            start(model, || Ok(Audio::Live(Arc::default())), options, place)
        })
    }
}

/// Adds samples of one channel at 16,000 samples a second, in [-1, 1], to a live transcription.
/// They are copied, and wait until the model has time; the call does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_transcription_push(
    transcription: *const pelton_transcription,
    samples: *const f32,
    count: usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let transcription = handles::get(transcription)?;
            let samples = finite(array(samples, count, "samples")?)?;
            transcription.feed()?.push(samples)
        })
    }
}

/// Ends the audio of a live transcription. The words that are left follow, and then the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_transcription_finish(
    transcription: *const pelton_transcription,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            handles::get(transcription)?.feed()?.finish();
            Ok(())
        })
    }
}
