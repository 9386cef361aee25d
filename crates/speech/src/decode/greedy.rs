//! The likeliest token of each row, or independent samples.

use super::control::{Control, DrawKey};
use super::row::{Candidate, Next, Row, Source, logprob};

/// Rows that continue by themselves, each by the likeliest or by a drawn token.
#[derive(Debug)]
pub(super) struct Greedy {
    pub(super) temperature: f64,
    pub(super) eot: u32,
    /// The seed, and the id of the job.
    pub(super) seed: u64,
    pub(super) job: u64,
}

impl Greedy {
    /// Appends a token to each row that has not ended, of its next ones. Returns how the rows
    /// continue, and whether all have ended.
    pub(super) fn update<C: Control + ?Sized>(
        &self,
        rows: &mut [Row],
        next: &[Option<&Next>],
        control: &mut C,
    ) -> (Vec<Source>, bool) {
        for (sample, (row, next)) in rows.iter_mut().zip(next).enumerate() {
            let Candidate { token, logprob } = match next {
                None => continue,
                // where nothing is allowed, the text ends
                Some(Next::Likeliest(candidates)) => candidates
                    .first()
                    .copied()
                    .unwrap_or(Candidate { token: self.eot, logprob: f64::NEG_INFINITY }),
                Some(Next::All(logits, sum)) => {
                    let index = row.tokens.len();
                    let key = DrawKey { seed: self.seed, job: self.job, sample, index };
                    let drawn = control.draw(logits, self.temperature, key);
                    let of = |token| Candidate { token, logprob: logprob(logits, sum, token) };
                    let drawn = drawn.map(of).filter(|of| of.logprob > f64::NEG_INFINITY);
                    drawn.unwrap_or_else(|| of(self.eot))
                }
            };
            row.sum += logprob;
            row.tokens.push(token);
        }
        self.sources(rows)
    }

    /// How the rows continue, and whether all have ended.
    fn sources(&self, rows: &[Row]) -> (Vec<Source>, bool) {
        let live = |row: &Row| row.tokens.last() != Some(&self.eot);
        let sources: Vec<_> =
            rows.iter().enumerate().map(|(i, row)| Source { row: i, live: live(row) }).collect();
        let ended = sources.iter().all(|source| !source.live);
        (sources, ended)
    }
}
