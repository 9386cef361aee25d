//! The samples of a decoder that runs on a thread of its own, so that nothing waits for one that
//! does not return.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use pelton::speech::{AudioError, AudioFile, Cancel, SAMPLE_RATE, Samples};

use crate::{error::ApiError, input::FormFile};

/// Samples that pass from thread to thread together: half a second.
const BATCH: usize = SAMPLE_RATE as usize / 2;
/// Batches that a decoder is ahead.
const AHEAD: usize = 8;
/// How often a waiting request looks whether it was cancelled.
const PERIOD: Duration = Duration::from_millis(50);
/// Time in which a decoder must give samples.
const STUCK: Duration = Duration::from_secs(60);
/// Decoders at the same time at most, with those that do not return.
const DECODERS: usize = 64;

/// Decoders that run.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Samples, none at the end.
type Batch = Result<Vec<f32>, AudioError>;

/// The place of a decoder among those that may run.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let place = Self;
        // the place that is dropped here gives its count back
        (RUNNING.fetch_add(1, Ordering::Relaxed) < DECODERS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Audio that a thread decodes.
pub(super) struct Pulled {
    name: String,
    /// Begins a pass over the audio.
    passes: Sender<SyncSender<Batch>>,
    /// The batches of this pass.
    batches: Option<Receiver<Batch>>,
    batch: Vec<f32>,
    ended: bool,
    cancel: Cancel,
    /// Time in which the decoder must give samples.
    stuck: Duration,
    given: u64,
    /// The most samples of a pass.
    most: u64,
}

impl Pulled {
    /// Opens audio on a new thread. The outer error says that there are too many.
    pub(super) fn open(
        file: FormFile,
        longest: Option<u64>,
        cancel: &Cancel,
    ) -> Result<Result<Self, AudioError>, ApiError> {
        let name = file.name.clone();
        let reading = cancel.clone();
        let run = move |sender: &SyncSender<Batch>, orders: &Receiver<SyncSender<Batch>>| match open(
            file, longest, &reading,
        ) {
            Ok(audio) => {
                if sender.send(Ok(Vec::new())).is_ok() {
                    decode(audio, orders);
                }
            }
            Err(error) => drop(sender.send(Err(error))),
        };
        Self::start(name, cancel, STUCK, run)
    }

    /// Runs a decoder on a new thread. It gets where it says that it is open, and the passes that
    /// are asked for.
    fn start(
        name: String,
        cancel: &Cancel,
        stuck: Duration,
        run: impl FnOnce(&SyncSender<Batch>, &Receiver<SyncSender<Batch>>) + Send + 'static,
    ) -> Result<Result<Self, AudioError>, ApiError> {
        let busy = || ApiError::unavailable("too many decoders of audio run, expected fewer");
        let place = Place::take().ok_or_else(busy)?;
        let (passes, orders) = mpsc::channel();
        let (sender, opened) = mpsc::sync_channel(1);
        let run = move || {
            let _place = place;
            run(&sender, &orders);
        };
        let started = thread::Builder::new().name("audio".to_owned()).spawn(run);
        started.map_err(|error| ApiError::unavailable(format!("no thread for audio: {error}")))?;
        let cancel = cancel.clone();
        let (batches, batch) = (None, Vec::new());
        let mut pulled =
            Self { name, passes, batches, batch, ended: false, cancel, stuck, given: 0, most: 0 };
        Ok(pulled.wait(&opened).map(|_| pulled))
    }

    /// Seconds of the longest pass.
    pub(super) fn seconds(&self) -> f64 {
        self.most as f64 / f64::from(SAMPLE_RATE)
    }

    /// Waits for a batch, until the reading is cancelled or the decoder has had its time.
    fn wait(&mut self, batches: &Receiver<Batch>) -> Batch {
        let begun = Instant::now();
        loop {
            match batches.recv_timeout(PERIOD) {
                Ok(batch) => return batch,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.malformed("its decoder ended".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if self.cancel.is_due() => {
                    return Err(AudioError::Cancelled { name: self.name.clone() });
                }
                Err(RecvTimeoutError::Timeout) if begun.elapsed() > self.stuck => {
                    self.cancel.cancel();
                    let seconds = self.stuck.as_secs();
                    let problem = format!("its decoder gave no samples for {seconds} seconds");
                    return Err(self.malformed(problem));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn malformed(&self, problem: String) -> AudioError {
        AudioError::Malformed { name: self.name.clone(), problem }
    }
}

impl Samples for Pulled {
    fn next_chunk(&mut self) -> Result<Option<&[f32]>, AudioError> {
        if self.ended {
            return Ok(None);
        }
        let batches = match self.batches.take() {
            Some(batches) => batches,
            None => {
                let (sender, batches) = mpsc::sync_channel(AHEAD);
                // a decoder that has ended shows below
                drop(self.passes.send(sender));
                batches
            }
        };
        self.batch = self.wait(&batches).inspect_err(|_| self.ended = true)?;
        self.batches = Some(batches);
        self.given += self.batch.len() as u64;
        self.most = self.most.max(self.given);
        self.ended = self.batch.is_empty();
        Ok(if self.ended { None } else { Some(&self.batch) })
    }

    fn rewind(&mut self) -> Result<(), AudioError> {
        (self.batches, self.ended, self.given) = (None, false, 0);
        Ok(())
    }
}

fn open(file: FormFile, longest: Option<u64>, cancel: &Cancel) -> Result<AudioFile, AudioError> {
    let FormFile { name, bytes } = file;
    let seconds = longest.unwrap_or(u64::MAX);
    let audio = AudioFile::from_reader_until(bytes, &name, cancel)?.limit(seconds);
    if audio.duration().is_some_and(|stated| stated > seconds as f64 + 1.0) {
        return Err(AudioError::TooLong { name, seconds });
    }
    Ok(audio)
}

/// Decodes as many passes as are asked for.
fn decode(mut audio: AudioFile, orders: &Receiver<SyncSender<Batch>>) {
    let mut is_first = true;
    while let Ok(batches) = orders.recv() {
        let rewound = if is_first { Ok(()) } else { audio.rewind() };
        is_first = false;
        if let Err(error) = rewound.and_then(|()| pass(&mut audio, &batches)) {
            drop(batches.send(Err(error)));
        }
    }
}

/// Sends all samples, then an empty batch. A pass that nobody reads any more ends early.
fn pass(audio: &mut AudioFile, batches: &SyncSender<Batch>) -> Result<(), AudioError> {
    loop {
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH
            && let Some(chunk) = audio.next_chunk()?
        {
            batch.extend_from_slice(chunk);
        }
        let is_last = batch.is_empty();
        if batches.send(Ok(batch)).is_err() || is_last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);
    const SOON: Duration = Duration::from_secs(30);

    /// One test at a time: the places are those of the process.
    static ONE: Mutex<()> = Mutex::new(());

    /// A decoder that opens audio, gives one batch, and does not return until it is let go.
    fn stuck(cancel: &Cancel, time: Duration) -> (Pulled, Sender<()>) {
        let (letting_go, wait) = mpsc::channel();
        let run = move |opened: &SyncSender<Batch>, orders: &Receiver<SyncSender<Batch>>| {
            opened.send(Ok(Vec::new())).unwrap();
            let batches = orders.recv().unwrap();
            batches.send(Ok(vec![0.5; BATCH])).unwrap();
            // neither the flag nor the reader's end is looked at
            let _ended = wait.recv();
        };
        let mut pulled = Pulled::start("a.ogg".to_owned(), cancel, time, run).unwrap().unwrap();
        assert_eq!(pulled.next_chunk().unwrap().map(<[f32]>::len), Some(BATCH));
        (pulled, letting_go)
    }

    /// The reader returns when its time is over, when its request is cancelled, and at a deadline.
    /// So the turn that it holds ends, though the decoder does not return.
    #[test]
    fn a_decoder_that_does_not_return_ends_its_reading() {
        let _one = ONE.lock();
        let begun = Instant::now();
        let (mut pulled, letting_go) = stuck(&Cancel::new(), SHORT);
        let error = pulled.next_chunk().unwrap_err().to_string();
        assert!(error.contains("its decoder gave no samples for 0 seconds"), "{error}");
        assert!(pulled.cancel.is_due() && pulled.next_chunk().unwrap().is_none());
        drop((pulled, letting_go));

        let cancel = Cancel::new();
        let (mut pulled, letting_go) = stuck(&cancel, SOON);
        let leaving = thread::spawn(move || {
            thread::sleep(SHORT);
            cancel.cancel();
        });
        assert!(matches!(pulled.next_chunk(), Err(AudioError::Cancelled { .. })));
        leaving.join().unwrap();
        drop((pulled, letting_go));

        let (mut pulled, letting_go) = stuck(&Cancel::at(Instant::now() + SHORT), SOON);
        assert!(matches!(pulled.next_chunk(), Err(AudioError::Cancelled { .. })));
        drop((pulled, letting_go));
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }

    /// One that never opens its audio is the same, and holds its place until it returns.
    #[test]
    fn decoders_that_do_not_open_are_counted() {
        let _one = ONE.lock();
        let mut all = Vec::new();
        let outcome = loop {
            let (letting_go, wait) = mpsc::channel::<()>();
            let run = move |_: &SyncSender<Batch>, _: &Receiver<SyncSender<Batch>>| {
                let _ended = wait.recv();
            };
            let cancel = Cancel::new();
            cancel.cancel();
            match Pulled::start("a.ogg".to_owned(), &cancel, SOON, run) {
                Ok(opened) => assert!(matches!(opened, Err(AudioError::Cancelled { .. }))),
                Err(error) => break error,
            }
            all.push(letting_go);
            assert!(all.len() <= DECODERS);
        };
        assert_eq!(outcome.status, axum::http::StatusCode::SERVICE_UNAVAILABLE);
        drop(all);
        let begun = Instant::now();
        while Place::take().is_none() {
            assert!(begun.elapsed() < SOON, "no decoder has given its place back");
            thread::yield_now();
        }
    }
}
