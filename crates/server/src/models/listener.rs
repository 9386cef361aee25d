//! A loaded model that recognizes speech, and its queue: requests run one after the other.

use std::sync::{Arc, Mutex};

use pelton::{
    Client, Error, SpeechModel, Status,
    speech::{Observer, Samples, Transcript, Transcription},
    weights::MappedFiles,
};

use super::turns::{Turn, Turns};
use crate::error::ApiError;

/// A loaded model that recognizes speech.
pub(crate) struct Listener {
    model: Mutex<SpeechModel>,
    /// The files that the model reads.
    files: MappedFiles,
    turns: Arc<Turns>,
    /// Whether the text of a window is the prompt of the next one, unless a request says.
    pub(crate) conditions: bool,
}

impl Listener {
    /// A model for which at most `most` requests wait.
    pub(crate) fn new(model: SpeechModel, most: usize, conditions: bool) -> Self {
        let files = model.files().clone();
        Self { model: Mutex::new(model), files, turns: Arc::new(Turns::new(most)), conditions }
    }

    /// Waits for the turn of a request.
    pub(crate) async fn turn(&self, client: Client) -> Result<Turn, ApiError> {
        self.turns.wait(client).await
    }

    /// Transcribes audio in the turn of a request. Blocks until the end.
    pub(crate) fn transcribe<S: Samples>(
        &self,
        _: &Turn,
        audio: S,
        options: &Transcription,
        observer: &mut dyn Observer,
    ) -> Result<Transcript, Error> {
        match self.model.lock() {
            Ok(mut model) => model.transcribe(audio, options, observer),
            Err(_) => Err(Error::Stopped),
        }
    }

    /// Whether the files of the model are those that it was loaded from.
    pub(crate) fn check_files(&self) -> Result<(), pelton::weights::Error> {
        self.files.check()
    }

    /// The load at the moment.
    pub(crate) fn status(&self) -> Status {
        let mut status = Status::default();
        (status.running, status.queued) = self.turns.count();
        status
    }
}
