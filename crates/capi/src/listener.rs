//! The thread of a transcription.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use pelton::{
    SpeechModel,
    speech::{AudioFile, Control, Memory, Observer, Segment, Transcript, Transcription},
};

use crate::{
    fault::Fault, guard::message, handles::Slot, model::ModelObject, queue::Queue,
    status::pelton_status,
};

/// The time after which a thread that waits for the model looks for a cancellation.
const GLANCE: Duration = Duration::from_millis(50);

/// The audio.
pub(crate) enum Audio {
    File(Box<AudioFile>),
    Samples(Vec<f32>),
}

/// An item of a transcription.
pub(crate) enum Item {
    Segment(Segment),
    /// The last item.
    Done(Result<Transcript, Fault>),
}

/// The values that the thread shares with the handle.
pub(crate) struct Shared {
    pub(crate) queue: Queue<Item>,
    pub(crate) cancelled: AtomicBool,
}

/// Passes segments on, and sees cancellations.
struct Listener<'a>(&'a Shared);

impl Listener<'_> {
    fn flow(&self) -> ControlFlow<()> {
        match self.0.cancelled.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Control for Listener<'_> {
    fn step(&mut self) -> ControlFlow<()> {
        self.flow()
    }
}

impl Observer for Listener<'_> {
    fn segment(&mut self, segment: &Segment) -> ControlFlow<()> {
        self.0.queue.push(Item::Segment(segment.clone()));
        self.flow()
    }
}

/// Starts the thread.
pub(crate) fn start(
    model: Arc<Slot<ModelObject>>,
    audio: Audio,
    options: Transcription,
    shared: Arc<Shared>,
) -> Result<JoinHandle<()>, Fault> {
    let run = move || {
        let outcome = listen(&model, audio, &options, &shared);
        // the model is free, and perhaps unloaded, before the caller hears of the end
        drop(model);
        shared.queue.push(Item::Done(outcome));
        shared.queue.close();
    };
    let builder = thread::Builder::new().name("pelton-transcription".to_owned());
    builder.spawn(run).map_err(|error| {
        Fault::new(
            pelton_status::PELTON_INTERNAL,
            format_args!("no thread could be started: {error}"),
        )
    })
}

fn listen(
    model: &ModelObject,
    audio: Audio,
    options: &Transcription,
    shared: &Shared,
) -> Result<Transcript, Fault> {
    let speech = model.speech()?;
    let mut place = speech.lock();
    let mut taken = loop {
        if shared.cancelled.load(Ordering::Relaxed) {
            return Err(pelton::Error::Cancelled.into());
        }
        if speech.is_lost() {
            return Err(lost());
        }
        match place.take() {
            Some(model) => break model,
            None => {
                let waited = speech.returned.wait_timeout(place, GLANCE);
                place = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    };
    drop(place);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        transcribe(&mut taken, audio, options, &mut Listener(shared))
    }));
    match outcome {
        Ok(outcome) => {
            *speech.lock() = Some(taken);
            speech.returned.notify_all();
            Ok(outcome?)
        }
        Err(payload) => {
            // its state is not known any more
            speech.lose();
            speech.returned.notify_all();
            let text = message(&*payload);
            let status = pelton_status::PELTON_PANIC;
            Err(Fault::new(status, format_args!("the transcription has panicked: {text}")))
        }
    }
}

fn lost() -> Fault {
    Fault::new(
        pelton_status::PELTON_POISONED,
        "a transcription of the model has panicked before: close the model",
    )
}

fn transcribe(
    model: &mut SpeechModel,
    audio: Audio,
    options: &Transcription,
    listener: &mut Listener<'_>,
) -> Result<Transcript, pelton::Error> {
    match audio {
        Audio::File(file) => model.transcribe(*file, options, listener),
        Audio::Samples(samples) => model.transcribe(Memory::new(samples), options, listener),
    }
}
