//! Models: loading, handles, facts.

use std::{
    ffi::c_char,
    ptr,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use pelton::{Model, ModelSource, SpeechModel};

use crate::{
    engine::pelton_engine,
    error::pelton_error,
    fault::Fault,
    guard::guard,
    handles::{self, handle},
    load_options,
    memory::{out, text},
    options::{self, pelton_options},
    status::pelton_status,
};

/// A loaded model. Any thread can use it, several at the same time.
pub struct pelton_model;

/// A model of either kind.
pub(crate) enum ModelObject {
    /// It computes tokens, embeddings or scores.
    Text(Box<Model>),
    /// It recognizes speech.
    Speech(Speech),
}

handle!(pelton_model, ModelObject);

/// A model that one transcription has at a time.
pub(crate) struct Speech {
    /// None while a transcription has it.
    model: Mutex<Option<Box<SpeechModel>>>,
    /// A transcription has returned it.
    pub(crate) returned: Condvar,
    /// A transcription has panicked with it.
    lost: AtomicBool,
    pub(crate) name: String,
}

impl Speech {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Box<SpeechModel>>> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the model as unusable.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

impl ModelObject {
    /// The model, if it is not one of speech.
    ///
    /// # Errors
    ///
    /// It recognizes speech.
    pub(crate) fn text(&self) -> Result<&Model, Fault> {
        match self {
            Self::Text(model) => Ok(model),
            Self::Speech(speech) => Err(Fault::new(
                pelton_status::PELTON_UNSUPPORTED,
                format_args!(
                    "{}: the model recognizes speech, expected one that computes tokens or embeddings",
                    speech.name
                ),
            )),
        }
    }

    /// The model, if it is one of speech.
    ///
    /// # Errors
    ///
    /// It computes something else.
    pub(crate) fn speech(&self) -> Result<&Speech, Fault> {
        match self {
            Self::Speech(speech) => Ok(speech),
            Self::Text(model) => Err(Fault::new(
                pelton_status::PELTON_UNSUPPORTED,
                format_args!(
                    "{}: the model computes tokens or embeddings, expected one that recognizes speech",
                    model.checkpoint().name()
                ),
            )),
        }
    }
}

impl From<SpeechModel> for ModelObject {
    fn from(model: SpeechModel) -> Self {
        let name = model.name().to_owned();
        let model = Mutex::new(Some(Box::new(model)));
        let lost = AtomicBool::new(false);
        Self::Speech(Speech { model, returned: Condvar::new(), lost, name })
    }
}

/// Loads a model: a file or a directory, or with the path of length 0 the one within the library.
/// The path `built-in-vision` is the one that sees. `options` may be NULL.
///
/// A file of Whisper becomes a model that transcribes. The option `speech` chooses that kind within
/// the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_model_load(
    engine: *const pelton_engine,
    path: *const c_char,
    path_length: usize,
    options: *const pelton_options,
    model: *mut *mut pelton_model,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let engine = handles::get(engine)?;
            let path = text(path, path_length, "path")?;
            let place = out(model, "model")?;
            let load = options::read_with(options, load_options::set)?;
            let source = match path {
                "" => ModelSource::BuiltIn,
                word => ModelSource::built_in(word).unwrap_or_else(|| word.into()),
            };
            let object = if load.is_speech {
                engine.load_speech(source, &load.speech)?.into()
            } else {
                match engine.load(source.clone(), &load.text) {
                    Ok(model) => ModelObject::Text(Box::new(model)),
                    // it computes something else, perhaps the text of speech
                    Err(error @ pelton::Error::Output { .. }) => {
                        engine.load_speech(source, &load.speech).map_err(|_| error)?.into()
                    }
                    Err(error) => return Err(error.into()),
                }
            };
            place.set(handles::open(object));
            Ok(())
        })
    }
}

/// Makes another handle of a model. The model is unloaded when all its handles, streams and
/// transcriptions are closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_model_share(
    model: *const pelton_model,
    shared: *mut *mut pelton_model,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let model = handles::get(model)?;
            out(shared, "shared")?.set(handles::share::<pelton_model>(&model));
            Ok(())
        })
    }
}

/// Closes a handle of a model. The last one waits for the pass that runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_model_close(model: *mut pelton_model) -> pelton_status {
    // SAFETY: there is no place for an error.
    unsafe { guard(ptr::null_mut(), || handles::close(model).map(drop)) }
}
