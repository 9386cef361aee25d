//! One transcription, on a thread of its own.

use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use pelton::{
    Error,
    speech::{AudioError, AudioFile, Cancel, Control, Language, Observer, Segment, Transcription},
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
    time::timeout,
};

use super::pull::Pulled;
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
    guard: Guard,
}

/// Cancels a run when it is dropped.
struct Guard(Cancel);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Checks by a quick look that the file of a form may be audio.
pub(crate) async fn check(file: FormFile) -> Result<FormFile, ApiError> {
    if file.bytes.len() == 0 {
        return Err(ApiError::field("file", "file is empty, expected an audio file"));
    }
    blocking(move || match AudioFile::check_kind(file.bytes.clone(), &file.name) {
        Ok(()) => Ok(file),
        Err(error) => Err(ApiError::field("file", error.to_string())),
    })
    .await
}

impl Hearing {
    /// Waits for the turn of a request, then begins it. The time of the request includes the wait.
    pub(crate) async fn start(
        context: Context,
        file: FormFile,
        longest: Option<u64>,
        options: Transcription,
    ) -> Result<Self, ApiError> {
        let arrived = Instant::now();
        let turn = context.lease.listener()?.turn(context.client);
        let (turn, cancel) = match context.deadline {
            Some(time) => {
                let turn = timeout(time, turn).await.unwrap_or_else(|_| Err(too_late()));
                (turn, Cancel::at(arrived + time))
            }
            None => (turn.await, Cancel::new()),
        };
        let turn = turn.inspect_err(|_| context.metrics.count(Outcome::Error, 0))?;
        let guard = Guard(cancel.clone());
        let (sender, segments) = unbounded_channel();
        let queued = arrived.elapsed();
        let run = Run { context, file, longest, options, cancel, sender, queued };
        let task = tokio::task::spawn_blocking(move || run.run_to_end(&turn));
        Ok(Self { segments, task, guard })
    }

    /// The next segment; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Segment> {
        self.segments.recv().await
    }

    /// The whole transcript.
    pub(crate) async fn end(self) -> Result<Found, ApiError> {
        let Self { segments, task, guard } = self;
        let outcome = task.await;
        drop((segments, guard));
        outcome.unwrap_or_else(|error| {
            Err(ApiError::internal(format!("the audio could not be transcribed: {error}")))
        })
    }
}

/// The parts of a run.
struct Run {
    context: Context,
    file: FormFile,
    /// The most seconds of audio.
    longest: Option<u64>,
    options: Transcription,
    cancel: Cancel,
    sender: UnboundedSender<Segment>,
    queued: Duration,
}

impl Run {
    fn run_to_end(self, turn: &Turn) -> Result<Found, ApiError> {
        let Self { context, file, longest, options, cancel, sender, queued } = self;
        let begun = Instant::now();
        let usage = Arc::clone(&context.usage);
        let mut watch = Watch { cancel: cancel.clone(), sender, usage, frames: 0 };
        let listener = context.lease.listener()?;
        let opened = Pulled::open(file, longest, &cancel)?;
        let mut heard = 0.0;
        let outcome = opened.map_err(Error::Audio).and_then(|mut audio| {
            let outcome = listener.transcribe(turn, &mut audio, &options, &mut watch);
            heard = audio.seconds();
            outcome
        });
        let outcome = outcome.map_err(|error| match error {
            // the end of a run that was stopped
            Error::Audio(_) if cancel.is_due() => Error::Cancelled,
            error => error,
        });
        let seconds = (watch.frames as f64 / 100.0).max(heard);
        context.usage.add_audio(seconds);
        let counted = match &outcome {
            Ok(_) => Outcome::Stop,
            Err(Error::Cancelled) if !cancel.is_late() => Outcome::Abort,
            Err(_) => Outcome::Error,
        };
        let took = begun.elapsed().as_secs_f64();
        context.metrics.heard(counted, seconds, took, queued.as_secs_f64());
        match outcome {
            Ok(found) => Ok(Found { language: found.language, segments: found.segments, seconds }),
            Err(Error::Cancelled) if cancel.is_late() => Err(too_late()),
            Err(error @ Error::Output { .. }) => {
                Err(ApiError::field("timestamp_granularities", error.to_string()))
            }
            Err(Error::Audio(error @ AudioError::TooLong { .. })) => Err(ApiError {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                ..ApiError::field("file", format!("{error} of the server (--max-audio-seconds)"))
            }),
            Err(error @ Error::Audio(_)) => Err(ApiError::field("file", error.to_string())),
            Err(error @ Error::Constraint(_)) => Err(ApiError::field("grammar", error.to_string())),
            Err(error) => Err(error.into()),
        }
    }
}

fn too_late() -> ApiError {
    let message = "the transcription took longer than the server allows (--request-timeout)";
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, message).code("timeout")
}

/// The observer of a run.
struct Watch {
    cancel: Cancel,
    sender: UnboundedSender<Segment>,
    usage: Arc<Usage>,
    /// Frames of audio, in hundredths of a second.
    frames: usize,
}

impl Control for Watch {
    fn step(&mut self) -> ControlFlow<()> {
        match self.cancel.is_due() {
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
