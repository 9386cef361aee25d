//! The thread of a transcription.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use pelton::{
    SpeechModel,
    speech::{
        AudioFile, Control, Language, LiveTranscription, Memory, Observer, SAMPLE_RATE, Segment,
        Transcript, Word,
    },
};

use crate::{
    fault::Fault,
    feed::{Feed, GLANCE},
    guard::message,
    handles::Slot,
    model::ModelObject,
    queue::Queue,
    status::pelton_status,
    transcribe_options::Listening,
};

/// Seconds of live audio after which it is transcribed again, if the options do not say.
const STEP: f64 = 1.0;

/// The audio.
pub(crate) enum Audio {
    File(Box<AudioFile>),
    Samples(Vec<f32>),
    Live(Arc<Feed>),
}

impl Audio {
    /// The samples of live audio.
    pub(crate) fn feed(&self) -> Option<Arc<Feed>> {
        match self {
            Self::Live(feed) => Some(Arc::clone(feed)),
            Self::File(_) | Self::Samples(_) => None,
        }
    }

    /// Refuses options that such audio has no use for.
    ///
    /// # Errors
    ///
    /// There is one.
    pub(crate) fn check(&self, options: &Listening) -> Result<(), Fault> {
        let all = &options.all;
        let found = match self {
            Self::Live(_) if all.voices.is_some() || all.batched => "voices and batched",
            Self::Live(_) if all.rules.initial_prompt.is_some() => "initial_prompt",
            Self::File(_) | Self::Samples(_) if options.step.is_some() => "step",
            _ => return Ok(()),
        };
        let expected = match self {
            Self::Live(_) => "they need audio that is complete",
            Self::File(_) | Self::Samples(_) => "it needs live audio",
        };
        Err(Fault::invalid(format_args!("option {found}: {expected}")))
    }
}

/// An item of a transcription.
pub(crate) enum Item {
    Segment(Segment),
    /// The last item.
    Done(Result<Transcript, Fault>),
}

/// The values that the thread shares with the handle.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) queue: Queue<Item>,
    pub(crate) cancelled: AtomicBool,
    /// The newest text of live audio after its words.
    pending: Mutex<String>,
}

impl Shared {
    /// The newest text of live audio after its words.
    pub(crate) fn pending(&self) -> String {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_pending(&self, words: &[Word]) {
        let text = words.iter().map(|word| &*word.text).collect();
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
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
    options: Listening,
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
    options: &Listening,
    shared: &Shared,
) -> Result<Transcript, Fault> {
    let (all, mut listener) = (&options.all, Listener(shared));
    match audio {
        Audio::File(file) => {
            with_model(model, shared, |model| model.transcribe(*file, all, &mut listener))
        }
        Audio::Samples(samples) => with_model(model, shared, |model| {
            model.transcribe(Memory::new(samples), all, &mut listener)
        }),
        Audio::Live(feed) => live(model, &feed, options, shared),
    }
}

/// Transcribes live audio until it ends.
fn live(
    model: &ModelObject,
    feed: &Feed,
    options: &Listening,
    shared: &Shared,
) -> Result<Transcript, Fault> {
    let seconds = options.step.unwrap_or(STEP);
    let step = (seconds * f64::from(SAMPLE_RATE)).max(1.0) as usize;
    let mut live = LiveTranscription::new(options.all.rules.clone(), seconds);
    let mut segments = Vec::new();
    let mut say = |words: Vec<Word>| {
        for word in words {
            let segment = segment(segments.len(), word);
            segments.push(segment.clone());
            shared.queue.push(Item::Segment(segment));
        }
    };
    loop {
        let Some((samples, ended)) = feed.take(step, &shared.cancelled) else {
            return Err(pelton::Error::Cancelled.into());
        };
        live.push(&samples);
        let update = with_model(model, shared, |model| live.advance(model, &mut Listener(shared)))?;
        shared.set_pending(&update.tentative);
        say(update.committed);
        if ended {
            break;
        }
    }
    let language = live.language().unwrap_or(Language::ENGLISH);
    shared.set_pending(&[]);
    say(live.finish());
    let text = segments.iter().map(|segment| &*segment.text).collect();
    Ok(Transcript { language, text, segments })
}

/// A word of live audio as a segment.
fn segment(id: usize, word: Word) -> Segment {
    Segment {
        id,
        seek: 0,
        start: word.start,
        end: word.end,
        text: word.text.clone(),
        tokens: Vec::new(),
        temperature: 0.0,
        average_logprob: word.probability.ln(),
        compression_ratio: 1.0,
        no_speech_prob: 0.0,
        words: vec![word],
    }
}

/// Waits for the model, and has it for a job.
fn with_model<R>(
    model: &ModelObject,
    shared: &Shared,
    job: impl FnOnce(&mut SpeechModel) -> Result<R, pelton::Error>,
) -> Result<R, Fault> {
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
    match catch_unwind(AssertUnwindSafe(|| job(&mut taken))) {
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
