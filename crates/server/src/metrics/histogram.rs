//! Histograms.

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
};

/// Observations, counted by their sizes.
pub(crate) struct Histogram {
    /// The upper borders of the buckets, ascending; one more bucket has no border.
    borders: &'static [f64],
    counts: Vec<AtomicU64>,
    /// The bits of the sum.
    sum: AtomicU64,
}

/// Borders for times from a token to a long answer, in seconds.
pub(crate) const SECONDS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
/// Borders for numbers of tokens.
pub(crate) const TOKENS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0,
    20_000.0, 50_000.0, 100_000.0, 200_000.0,
];

/// Borders for the time of a computation over that of its audio.
pub(crate) const FACTORS: &[f64] =
    &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];

impl Histogram {
    pub(crate) fn new(borders: &'static [f64]) -> Self {
        let counts = (0..=borders.len()).map(|_| AtomicU64::new(0)).collect();
        Self { borders, counts, sum: AtomicU64::new(0) }
    }

    pub(crate) fn observe(&self, value: f64) {
        let bucket = self.borders.partition_point(|&border| border < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // the closure always returns a value
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Writes the lines of the histogram.
    pub(crate) fn write(&self, out: &mut String, name: &str, labels: &str) {
        let mut total = 0;
        for (i, count) in self.counts.iter().enumerate() {
            total += count.load(Ordering::Relaxed);
            let border = match self.borders.get(i) {
                Some(border) => border.to_string(),
                None => "+Inf".to_owned(),
            };
            // writing to a string does not fail
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{border}\"}} {total}");
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        let _ = writeln!(out, "{name}_sum{{{labels}}} {sum}");
        let _ = writeln!(out, "{name}_count{{{labels}}} {total}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let histogram = Histogram::new(&[0.1, 1.0]);
        for value in [0.05, 0.1, 0.5, 7.0] {
            histogram.observe(value);
        }
        let mut out = String::new();
        histogram.write(&mut out, "t", "m=\"a\"");
        let expected = "t_bucket{m=\"a\",le=\"0.1\"} 2\nt_bucket{m=\"a\",le=\"1\"} 3\n\
                        t_bucket{m=\"a\",le=\"+Inf\"} 4\nt_sum{m=\"a\"} 7.65\nt_count{m=\"a\"} 4\n";
        assert_eq!(out, expected);
    }
}
