//! The progress of a download: bytes, rate and the time that is left.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{hash::Hash, job::Job};

/// The time over which a rate is measured.
const WINDOW: Duration = Duration::from_secs(10);
/// Time between two samples.
const STEP: Duration = Duration::from_millis(200);

/// The state of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// The hub is asked about the files.
    Asking,
    /// Bytes are coming.
    Downloading,
    /// The hash of a file is being computed.
    Verifying,
    /// Another process is downloading the same file.
    Waiting,
}

/// The progress of a download.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// The state.
    pub phase: Phase,
    /// The file in progress.
    pub file: String,
    /// Its SHA-256 in hexadecimal digits, if the hub knows it.
    pub sha256: Option<String>,
    /// Bytes of it that are on this machine.
    pub file_done: u64,
    /// Bytes of it.
    pub file_total: u64,
    /// Bytes of all files that are on this machine.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
    /// Bytes a second, over the last ten seconds.
    pub per_second: f64,
    /// The time that is left at this rate, if there is one.
    pub left: Option<Duration>,
}

/// Counts bytes on many threads, and reports on one.
pub(crate) struct Meter<'a> {
    done: Arc<AtomicU64>,
    total: u64,
    file: String,
    sha256: Option<String>,
    /// Bytes of the files before this one, and of this one.
    before: u64,
    size: u64,
    samples: VecDeque<(Instant, u64)>,
    report: &'a mut dyn FnMut(&Progress),
}

impl<'a> Meter<'a> {
    pub(crate) fn new(total: u64, report: &'a mut dyn FnMut(&Progress)) -> Self {
        let (file, samples) = (String::new(), VecDeque::new());
        let (sha256, before, size) = (None, 0, 0);
        Self { done: Arc::default(), total, file, sha256, before, size, samples, report }
    }

    /// Names the file in progress, with its bytes.
    pub(crate) fn begin(&mut self, file: &str, size: u64) {
        file.clone_into(&mut self.file);
        (self.sha256, self.before, self.size) = (None, self.done(), size);
    }

    /// As [`begin`](Self::begin), for a download whose hash may be known.
    pub(crate) fn begin_job(&mut self, file: &str, job: &Job) {
        self.begin(file, job.size);
        self.sha256 = job.hashes.iter().find_map(|hash| match hash {
            Hash::Sha256(digits) => Some(digits.clone()),
            Hash::GitSha1(_) => None,
        });
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Sets the bytes that are there, of which the last ones did not come now.
    pub(crate) fn set_done(&mut self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.samples.clear();
    }

    /// The counter, for the threads that fetch.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    /// Reports the state.
    pub(crate) fn show(&mut self, phase: Phase) {
        let (now, done) = (Instant::now(), self.done());
        let per_second = if phase == Phase::Downloading { self.rate(now, done) } else { 0.0 };
        let missing = self.total.saturating_sub(done) as f64;
        let left = (per_second > 0.0)
            .then(|| Duration::try_from_secs_f64(missing / per_second).ok())
            .flatten();
        (self.report)(&Progress {
            phase,
            file: self.file.clone(),
            sha256: self.sha256.clone(),
            file_done: done.saturating_sub(self.before).min(self.size),
            file_total: self.size,
            done,
            total: self.total,
            per_second,
            left,
        });
    }

    fn rate(&mut self, now: Instant, done: u64) -> f64 {
        if self.samples.back().is_none_or(|(at, _)| now - *at >= STEP) {
            self.samples.push_back((now, done));
        }
        while self.samples.len() > 2 && now - self.samples[0].0 > WINDOW {
            self.samples.pop_front();
        }
        let Some((since, before)) = self.samples.front() else { return 0.0 };
        let time = (now - *since).as_secs_f64();
        if time > 0.0 { done.saturating_sub(*before) as f64 / time } else { 0.0 }
    }
}
