//! The metrics of one model.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use pelton::Stats;

use super::{
    histogram::{FACTORS, Histogram, SECONDS, TOKENS},
    loras::Loras,
};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Stop,
    Length,
    ToolCalls,
    /// The client went away.
    Abort,
    Error,
}

impl Outcome {
    pub(crate) const ALL: [Self; 5] =
        [Self::Stop, Self::Length, Self::ToolCalls, Self::Abort, Self::Error];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::Abort => "abort",
            Self::Error => "error",
        }
    }
}

/// The counters and histograms of one model.
pub(crate) struct ModelMetrics {
    ended: [AtomicU64; Outcome::ALL.len()],
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) cached_tokens: AtomicU64,
    pub(crate) generation_tokens: AtomicU64,
    pub(crate) first_token: Histogram,
    pub(crate) inter_token: Histogram,
    pub(crate) per_token: Histogram,
    pub(crate) end_to_end: Histogram,
    pub(crate) queue: Histogram,
    pub(crate) prefill: Histogram,
    pub(crate) decode: Histogram,
    pub(crate) prompt_lengths: Histogram,
    pub(crate) generation_lengths: Histogram,
    /// Milliseconds of audio, and of the time that it took.
    pub(crate) audio: AtomicU64,
    pub(crate) audio_time: AtomicU64,
    /// The time of a request over that of its audio.
    pub(crate) real_time: Histogram,
    /// The adapters of the requests at the moment.
    pub(crate) loras: Arc<Loras>,
}

impl Default for ModelMetrics {
    fn default() -> Self {
        let seconds = || Histogram::new(SECONDS);
        let tokens = || Histogram::new(TOKENS);
        Self {
            ended: Default::default(),
            prompt_tokens: AtomicU64::new(0),
            cached_tokens: AtomicU64::new(0),
            generation_tokens: AtomicU64::new(0),
            first_token: seconds(),
            inter_token: seconds(),
            per_token: seconds(),
            end_to_end: seconds(),
            queue: seconds(),
            prefill: seconds(),
            decode: seconds(),
            prompt_lengths: tokens(),
            generation_lengths: tokens(),
            audio: AtomicU64::new(0),
            audio_time: AtomicU64::new(0),
            real_time: Histogram::new(FACTORS),
            loras: Arc::default(),
        }
    }
}

impl ModelMetrics {
    /// Requests that ended so.
    pub(crate) fn ended(&self, outcome: Outcome) -> u64 {
        self.ended[outcome as usize].load(Ordering::Relaxed)
    }

    /// Counts the end of a text.
    pub(crate) fn end(&self, outcome: Outcome, stats: &Stats, seconds: f64) {
        self.count(outcome, stats.prompt_tokens as u64);
        self.cached_tokens.fetch_add(stats.cached_tokens as u64, Ordering::Relaxed);
        self.end_to_end.observe(seconds);
        self.prompt_lengths.observe(stats.prompt_tokens as f64);
        self.generation_lengths.observe(stats.generated_tokens as f64);
        if let Some(queued) = stats.queued {
            self.queue.observe(queued.as_secs_f64());
        }
        if stats.time_to_first_token.is_some() {
            self.prefill.observe(stats.prefill.as_secs_f64());
            self.decode.observe(stats.decode.as_secs_f64());
        }
        if let Some(rate) = stats.decode_tokens_per_second() {
            self.per_token.observe(1.0 / rate);
        }
    }

    /// Counts the end of a request with audio: its seconds, those of its transcription and of its
    /// queue.
    pub(crate) fn heard(&self, outcome: Outcome, audio: f64, seconds: f64, queued: f64) {
        let milliseconds = |seconds: f64| (seconds * 1e3).round() as u64;
        self.count(outcome, 0);
        self.queue.observe(queued);
        self.end_to_end.observe(queued + seconds);
        self.audio.fetch_add(milliseconds(audio), Ordering::Relaxed);
        self.audio_time.fetch_add(milliseconds(seconds), Ordering::Relaxed);
        if audio > 0.0 {
            self.real_time.observe(seconds / audio);
        }
    }

    /// Counts the end of a request without a text.
    pub(crate) fn count(&self, outcome: Outcome, prompt_tokens: u64) {
        self.ended[outcome as usize].fetch_add(1, Ordering::Relaxed);
        self.prompt_tokens.fetch_add(prompt_tokens, Ordering::Relaxed);
    }
}
