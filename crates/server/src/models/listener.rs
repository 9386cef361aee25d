//! A loaded model that recognizes speech, and its queue: requests run one after the other.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use std::time::Duration;

use pelton::{
    Error, SpeechModel, Status,
    speech::{Observer, Samples, Transcript, Transcription},
    weights::MappedFiles,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;

/// The pause after which a refused request may try again.
const RETRY: Duration = Duration::from_secs(5);

/// A loaded model that recognizes speech.
pub(crate) struct Listener {
    model: Mutex<SpeechModel>,
    /// The files that the model reads.
    files: MappedFiles,
    turn: Arc<Semaphore>,
    /// Requests that wait.
    waiting: AtomicUsize,
    /// The most requests that wait.
    most: usize,
    /// Whether the text of a window is the prompt of the next one, unless a request says.
    pub(crate) conditions: bool,
}

/// The turn of a request: the model is its own.
#[derive(Debug)]
pub(crate) struct Turn {
    _permit: OwnedSemaphorePermit,
}

/// A request that waits, while it is counted.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Listener {
    /// A model for which at most `most` requests wait.
    pub(crate) fn new(model: SpeechModel, most: usize, conditions: bool) -> Self {
        let (turn, waiting) = (Arc::new(Semaphore::new(1)), AtomicUsize::new(0));
        let files = model.files().clone();
        Self { model: Mutex::new(model), files, turn, waiting, most, conditions }
    }

    /// Waits for the turn of a request, which comes in the order of arrival. A request that is dropped
    /// leaves the queue.
    pub(crate) async fn turn(&self) -> Result<Turn, ApiError> {
        if let Ok(permit) = Arc::clone(&self.turn).try_acquire_owned() {
            return Ok(Turn { _permit: permit });
        }
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted(&self.waiting);
        if waiting >= self.most {
            let message =
                format!("{} requests wait for the model already, expected fewer", self.most);
            return Err(ApiError::busy(message, RETRY));
        }
        match Arc::clone(&self.turn).acquire_owned().await {
            Ok(permit) => Ok(Turn { _permit: permit }),
            Err(_) => Err(ApiError::unavailable("the model was unloaded")),
        }
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
        status.queued = self.waiting.load(Ordering::Relaxed);
        status.running = 1 - self.turn.available_permits().min(1);
        status
    }
}
