//! The likeliest token of each row, or independent samples.

use super::candidates::likeliest;
use super::control::{Control, DrawKey};
use super::row::{Row, Source, logprob};

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
    /// Appends a token to each row, of filtered logits `[vocab]` of the rows that have not ended. Returns
    /// how the rows continue, and whether all have ended.
    pub(super) fn update<C: Control + ?Sized>(
        &self,
        rows: &mut [Row],
        logits: &[Option<&[f32]>],
        control: &mut C,
    ) -> (Vec<Source>, bool) {
        for (sample, (row, logits)) in rows.iter_mut().zip(logits).enumerate() {
            let Some(logits) = logits else { continue };
            let token = if self.temperature == 0.0 {
                likeliest(logits, 1).first().copied()
            } else {
                let index = row.tokens.len();
                let key = DrawKey { seed: self.seed, job: self.job, sample, index };
                let drawn = control.draw(logits, self.temperature, key);
                drawn.filter(|&token| logprob(logits, token) > f64::NEG_INFINITY)
            };
            // where nothing is allowed, the text ends
            let token = token.unwrap_or(self.eot);
            row.sum += logprob(logits, token);
            row.tokens.push(token);
        }
        let live = |row: &Row| row.tokens.last() != Some(&self.eot);
        let sources: Vec<_> =
            rows.iter().enumerate().map(|(i, row)| Source { row: i, live: live(row) }).collect();
        let ended = sources.iter().all(|source| !source.live);
        (sources, ended)
    }
}
