//! Beam search with patience (Kasai et al., arXiv 2204.05424).

use super::row::{Next, Row, Source};

/// A beam search of one window.
#[derive(Debug)]
pub(super) struct Beam {
    pub(super) size: usize,
    pub(super) eot: u32,
    /// The search ends after as many finished rows.
    pub(super) most_finished: usize,
    /// Rows that have ended, with the end.
    pub(super) finished: Vec<Row>,
}

impl Beam {
    /// Continues the rows by the likeliest of all their next tokens, of which each has one more
    /// than there are beams. Returns how the rows continue, and whether the search is complete.
    ///
    /// OpenAI's code also continues rows by tokens of probability 0 where fewer than the beam's
    /// size are allowed. Here the beam is smaller then.
    pub(super) fn update(
        &mut self,
        rows: &mut Vec<Row>,
        next: &[Option<&Next>],
    ) -> (Vec<Source>, bool) {
        let mut all: Vec<(f64, usize, u32)> = Vec::new();
        for (i, (row, next)) in rows.iter().zip(next).enumerate() {
            for candidate in next.map_or(&[][..], Next::likeliest) {
                all.push((row.sum + candidate.logprob, i, candidate.token));
            }
        }
        // stable: ties keep the order of rows, then of likelihood
        all.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        let mut next = Vec::with_capacity(self.size);
        let mut sources = Vec::with_capacity(self.size);
        for (sum, i, token) in all {
            let tokens = rows[i].tokens.iter().copied().chain([token]).collect();
            let row = Row { tokens, sum };
            if token != self.eot {
                next.push(row);
                sources.push(Source { row: i, live: true });
                if next.len() == self.size {
                    break;
                }
            } else if self.finished.len() < self.most_finished {
                self.finished.push(row);
            }
        }
        *rows = next;
        let complete = self.finished.len() >= self.most_finished || rows.is_empty();
        (sources, complete)
    }

    /// The finished rows; where they are fewer than the beam's size, the likeliest others too,
    /// without the end.
    pub(super) fn finish(self, rows: Vec<Row>) -> Vec<Row> {
        let Self { size, mut finished, .. } = self;
        let mut others = rows;
        others.sort_by(|a, b| b.sum.total_cmp(&a.sum));
        let missing = size.saturating_sub(finished.len());
        finished.extend(others.into_iter().take(missing));
        finished
    }
}
