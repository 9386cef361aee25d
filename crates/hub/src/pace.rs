//! The least rate of a body, below which a host holds a connection for nothing.

use std::time::{Duration, Instant};

/// The least rate of a body, in bytes a second. A telephone line of 1990 is faster.
const LEAST: u64 = 1024;

/// The bytes of a body within the present period.
#[derive(Debug)]
pub(crate) struct Pace {
    period: Duration,
    begun: Instant,
    bytes: u64,
}

impl Pace {
    /// A body that begins now. A rate is computed over each `period`.
    pub(crate) fn new(period: Duration) -> Self {
        Self { period, begun: Instant::now(), bytes: 0 }
    }

    /// Counts bytes that have come. Returns the bytes a second of a period that was too slow.
    pub(crate) fn too_slow(&mut self, bytes: usize) -> Option<u64> {
        self.bytes += bytes as u64;
        let elapsed = self.begun.elapsed();
        if elapsed < self.period {
            return None;
        }
        let rate = (self.bytes as f64 / elapsed.as_secs_f64()) as u64;
        (self.begun, self.bytes) = (Instant::now(), 0);
        (rate < LEAST).then_some(rate)
    }
}
