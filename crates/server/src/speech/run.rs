//! One transcription, on a thread of its own.

use std::{
    io,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use pelton::{
    Error,
    speech::{AudioError, AudioFile, Control, Language, Observer, Samples, Segment, Transcription},
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
};

use crate::{
    error::ApiError,
    generate::{Context, blocking},
    input::FormFile,
    metrics::Outcome,
    models::Turn,
    usage::Usage,
};

/// A transcript.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) language: Language,
    pub(crate) segments: Vec<Segment>,
    /// Seconds of audio.
    pub(crate) seconds: f64,
}

/// A transcription that runs. Dropping it cancels it.
pub(crate) struct Hearing {
    segments: UnboundedReceiver<Segment>,
    task: JoinHandle<Result<Found, ApiError>>,
    cancel: Cancel,
}

/// Cancels a run when it is dropped.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Opens the audio of a form.
pub(crate) async fn open(file: FormFile) -> Result<AudioFile, ApiError> {
    let FormFile { name, bytes } = file;
    if bytes.len() == 0 {
        return Err(ApiError::field("file", "file is empty, expected an audio file"));
    }
    let open = move || {
        let opened = AudioFile::from_reader(bytes, &name);
        opened.map_err(|error| ApiError::field("file", error.to_string()))
    };
    blocking(open).await
}

impl Hearing {
    /// Waits for the turn of a request, then begins it.
    pub(crate) async fn start(
        context: Context,
        audio: AudioFile,
        options: Transcription,
    ) -> Result<Self, ApiError> {
        let arrived = Instant::now();
        let turn = context.lease.listener()?.turn().await.inspect_err(|_| {
            context.metrics.count(Outcome::Error, 0);
        })?;
        let flag = Arc::new(AtomicBool::new(false));
        let cancel = Cancel(Arc::clone(&flag));
        let (sender, segments) = unbounded_channel();
        let run = Run { context, audio, options, flag, sender, queued: arrived.elapsed() };
        let task = tokio::task::spawn_blocking(move || run.run_to_end(&turn));
        Ok(Self { segments, task, cancel })
    }

    /// The next segment; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Segment> {
        self.segments.recv().await
    }

    /// The whole transcript.
    pub(crate) async fn end(self) -> Result<Found, ApiError> {
        let Self { segments, task, cancel } = self;
        let outcome = task.await;
        drop((segments, cancel));
        outcome.unwrap_or_else(|error| {
            Err(ApiError::internal(format!("the audio could not be transcribed: {error}")))
        })
    }
}

/// The parts of a run.
struct Run {
    context: Context,
    audio: AudioFile,
    options: Transcription,
    flag: Arc<AtomicBool>,
    sender: UnboundedSender<Segment>,
    queued: Duration,
}

impl Run {
    fn run_to_end(self, turn: &Turn) -> Result<Found, ApiError> {
        let Self { context, audio, options, flag, sender, queued } = self;
        let begun = Instant::now();
        let stop = Stop { flag, end: context.deadline.map(|time| begun + time) };
        let mut audio = Stoppable { audio, stop: stop.clone() };
        let usage = Arc::clone(&context.usage);
        let mut watch = Watch { stop: stop.clone(), sender, usage, frames: 0 };
        let listener = context.lease.listener()?;
        let outcome = listener.transcribe(turn, &mut audio, &options, &mut watch);
        let outcome = outcome.map_err(|error| match error {
            // the end of a run that was stopped
            Error::Audio(_) if stop.is_due() => Error::Cancelled,
            error => error,
        });
        let seconds = (watch.frames as f64 / 100.0).max(audio.audio.position());
        context.usage.add_audio(seconds);
        let counted = match &outcome {
            Ok(_) => Outcome::Stop,
            Err(Error::Cancelled) if !stop.is_late() => Outcome::Abort,
            Err(_) => Outcome::Error,
        };
        let took = begun.elapsed().as_secs_f64();
        context.metrics.heard(counted, seconds, took, queued.as_secs_f64());
        match outcome {
            Ok(found) => Ok(Found { language: found.language, segments: found.segments, seconds }),
            Err(Error::Cancelled) if stop.is_late() => Err(ApiError::new(
                StatusCode::GATEWAY_TIMEOUT,
                "the transcription took longer than the server allows (--request-timeout)",
            )
            .code("timeout")),
            Err(error @ Error::Output { .. }) => {
                Err(ApiError::field("timestamp_granularities", error.to_string()))
            }
            Err(error @ Error::Audio(_)) => Err(ApiError::field("file", error.to_string())),
            Err(error @ Error::Constraint(_)) => Err(ApiError::field("grammar", error.to_string())),
            Err(error) => Err(error.into()),
        }
    }
}

/// When a run ends before its end.
#[derive(Clone)]
struct Stop {
    flag: Arc<AtomicBool>,
    end: Option<Instant>,
}

impl Stop {
    fn is_late(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    fn is_due(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.is_late()
    }
}

/// Audio whose reading can be stopped: files of hours are read before their first window.
struct Stoppable {
    audio: AudioFile,
    stop: Stop,
}

impl Samples for Stoppable {
    fn next_chunk(&mut self) -> Result<Option<&[f32]>, AudioError> {
        if self.stop.is_due() {
            let (name, source) = ("the audio".to_owned(), io::ErrorKind::Interrupted.into());
            return Err(AudioError::Io { name, source });
        }
        self.audio.next_chunk()
    }

    fn rewind(&mut self) -> Result<(), AudioError> {
        self.audio.rewind()
    }
}

/// The observer of a run.
struct Watch {
    stop: Stop,
    sender: UnboundedSender<Segment>,
    usage: Arc<Usage>,
    /// Frames of audio, in hundredths of a second.
    frames: usize,
}

impl Control for Watch {
    fn step(&mut self) -> ControlFlow<()> {
        match self.stop.is_due() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Observer for Watch {
    fn segment(&mut self, segment: &Segment) -> ControlFlow<()> {
        self.usage.add_generated(segment.tokens.len());
        match self.sender.send(segment.clone()) {
            Ok(()) => ControlFlow::Continue(()),
            // nobody waits for it any more
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn progress(&mut self, _: usize, all: usize) -> ControlFlow<()> {
        self.frames = all;
        self.step()
    }
}
