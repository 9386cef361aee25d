//! Streams that run all the time, each of which must have the text that it has alone.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Scope, ScopedJoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{PATIENCE, client::Connection, honest::AGAIN};

const STREAMS: usize = 8;
/// A pause between two tokens that a reader sees.
const STALL: Duration = Duration::from_millis(250);
/// A pause that no load explains.
const DEAD: Duration = Duration::from_secs(5);
/// The width of a class of pauses, in microseconds, and the number of classes.
const CLASS: usize = 100;
const CLASSES: usize = 10_000;

/// The streams' texts alone.
pub(crate) struct Streams {
    texts: Vec<String>,
}

/// Streams at work.
pub(crate) struct Running<'scope> {
    stop: Arc<AtomicBool>,
    /// The longest pause since it was last taken, in microseconds.
    recent: Arc<AtomicU64>,
    threads: Vec<ScopedJoinHandle<'scope, Gaps>>,
}

/// The pauses between tokens.
#[derive(Debug)]
pub(crate) struct Gaps {
    texts: usize,
    /// Requests that were sent again, as the server was busy.
    repeated: usize,
    tokens: usize,
    stalls: usize,
    longest: Duration,
    /// How many pauses are in each class. The last one has all longer ones too.
    classes: Vec<usize>,
    wrong: Vec<String>,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            texts: 0,
            repeated: 0,
            tokens: 0,
            stalls: 0,
            longest: Duration::ZERO,
            classes: vec![0; CLASSES],
            wrong: Vec::new(),
        }
    }
}

impl Streams {
    pub(crate) fn alone(address: &str) -> Self {
        let text = |i| {
            let gaps = Mutex::new(Gaps::default());
            text(address, i, &gaps, &AtomicU64::new(0)).unwrap()
        };
        Self { texts: (0..STREAMS).map(text).collect() }
    }

    pub(crate) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        address: &'scope str,
    ) -> Running<'scope> {
        let (stop, recent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let run = |i: usize| {
            let (stop, recent) = (Arc::clone(&stop), Arc::clone(&recent));
            scope.spawn(move || {
                let gaps = Mutex::new(Gaps::default());
                while !stop.load(Ordering::Relaxed) {
                    let found = text(address, i, &gaps, &recent);
                    let mut gaps = gaps.lock().unwrap();
                    gaps.texts += 1;
                    match found {
                        Ok(found) if found == self.texts[i] => {}
                        other => {
                            gaps.wrong.push(format!("stream {i}: {other:?}"));
                            break;
                        }
                    }
                }
                gaps.into_inner().unwrap()
            })
        };
        Running { threads: (0..STREAMS).map(run).collect(), stop, recent }
    }
}

impl Running<'_> {
    /// The longest pause since the last call.
    pub(crate) fn take_longest(&self) -> Duration {
        Duration::from_micros(self.recent.swap(0, Ordering::Relaxed))
    }

    /// Ends the streams after their texts.
    pub(crate) fn stop(self) -> Gaps {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Gaps::default();
        for thread in self.threads {
            let gaps = thread.join().unwrap();
            all.texts += gaps.texts;
            all.repeated += gaps.repeated;
            all.tokens += gaps.tokens;
            all.stalls += gaps.stalls;
            all.longest = all.longest.max(gaps.longest);
            for (sum, count) in all.classes.iter_mut().zip(gaps.classes) {
                *sum += count;
            }
            all.wrong.extend(gaps.wrong);
        }
        all
    }
}

impl Gaps {
    /// The pause in milliseconds that a part of all pauses does not exceed.
    fn percentile(&self, percent: usize) -> f64 {
        let (mut below, all) = (0, self.classes.iter().sum::<usize>());
        let class = self.classes.iter().position(|count| {
            below += count;
            below * 100 >= all * percent
        });
        ((class.unwrap_or(0) + 1) * CLASS) as f64 / 1000.0
    }

    /// The median pause in milliseconds.
    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The percentage of pauses of at most a number of milliseconds, in whole classes.
    pub(crate) fn percent_within(&self, milliseconds: f64) -> f64 {
        let classes = (milliseconds * 1000.0).round() as usize / CLASS;
        let within: usize = self.classes.iter().take(classes).sum();
        100.0 * within as f64 / self.classes.iter().sum::<usize>().max(1) as f64
    }

    pub(crate) fn report(&self) -> Value {
        json!({"texts": self.texts, "sent_again": self.repeated, "tokens": self.tokens, "other_texts": self.wrong.len(),
               "median_ms": self.median(), "95th_percentile_ms": self.percentile(95),
               "99th_percentile_ms": self.percentile(99),
               "pauses_above_250_ms": self.stalls, "longest_pause_ms": self.longest.as_millis() as u64})
    }

    pub(crate) fn check(&self) {
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        assert!(self.longest < DEAD, "a stream has paused for {:?}", self.longest);
    }
}

/// The text of stream `i`, of the likeliest tokens for every second one. A busy server
/// gets its request again.
fn text(address: &str, i: usize, gaps: &Mutex<Gaps>, recent: &AtomicU64) -> Result<String, String> {
    let body = json!({"model": "built-in", "prompt": format!("Once upon a time number {i}"),
                      "max_tokens": 200, "temperature": i % 2, "seed": i, "stream": true,
                      "ignore_eos": true});
    let begun = Instant::now();
    let open = || {
        let mut connection = Connection::open(address)?;
        connection.send("POST", "/v1/completions", body.to_string().as_bytes())?;
        Ok((connection.line()?, connection))
    };
    let (status, mut connection) = loop {
        let (status, connection) = open().map_err(|error: io::Error| error.to_string())?;
        let is_busy = [" 429 ", " 503 "].iter().any(|code| status.contains(code));
        if !is_busy || begun.elapsed() > PATIENCE {
            break (status, connection);
        }
        gaps.lock().unwrap().repeated += 1;
        thread::sleep(AGAIN);
    };
    let (mut text, mut last, mut before) = (String::new(), None::<Instant>, status);
    loop {
        let line = connection.line().map_err(|error| format!("{error} after {before}"))?;
        let Some(data) = line.strip_prefix("data: ") else {
            before.push_str(&line);
            continue;
        };
        before.clear();
        if data == "[DONE]" {
            return Ok(text);
        }
        let chunk: Value = serde_json::from_str(data).map_err(|error| error.to_string())?;
        text.push_str(chunk["choices"][0]["text"].as_str().ok_or(data)?);
        let now = Instant::now();
        if let Some(last) = last {
            let mut gaps = gaps.lock().unwrap();
            let gap = now - last;
            gaps.tokens += 1;
            gaps.stalls += usize::from(gap > STALL);
            gaps.longest = gaps.longest.max(gap);
            gaps.classes[(gap.as_micros() as usize / CLASS).min(CLASSES - 1)] += 1;
            recent.fetch_max(gap.as_micros() as u64, Ordering::Relaxed);
        }
        last = Some(now);
    }
}
