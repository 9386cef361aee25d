//! The scores of a matrix's inputs, |x|·‖W‖: their distribution on a text, and the thresholds of
//! live inputs that follow from it.

use super::form::LOWER_HALF;

/// Bins of a doubling of scores: one differs from the next by at most 2 %.
const BINS: usize = 64;
/// Bits of a score below those of its bin.
const BELOW_BIN: u32 = 23 - BINS.ilog2();

/// Quantiles `[64]` of the scores of a matrix's inputs on a text, ascending: number `i` of them is
/// above `i / 63` of all scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputScores([f32; InputScores::COUNT]);

impl InputScores {
    /// The number of quantiles.
    pub const COUNT: usize = 64;

    /// Quantiles, ascending, finite and not below 0.
    ///
    /// # Errors
    ///
    /// A sentence about the first that is not.
    pub fn new(quantiles: [f32; Self::COUNT]) -> Result<Self, String> {
        let is_score = |score: &&f32| score.is_finite() && score.is_sign_positive();
        if let Some(wrong) = quantiles.iter().find(|score| !is_score(score)) {
            return Err(format!("the score {wrong}, expected a finite one of at least 0"));
        }
        if !quantiles.is_sorted() {
            return Err("scores that do not ascend, expected none below the one before".to_owned());
        }
        Ok(Self(quantiles))
    }

    /// The quantiles.
    pub const fn quantiles(&self) -> &[f32; Self::COUNT] {
        &self.0
    }

    /// The fraction of all scores that a score exceeds.
    fn fraction(&self, score: f64) -> f64 {
        let below = self.0.partition_point(|&quantile| f64::from(quantile) <= score);
        let (Some(low), Some(high)) = (below.checked_sub(1), self.0.get(below)) else {
            return if below == 0 { 0.0 } else { 1.0 };
        };
        let [low_score, high] = [self.0[low], *high].map(f64::from);
        (low as f64 + (score - low_score) / (high - low_score)) / (Self::COUNT - 1) as f64
    }

    /// The score above which a fraction of all halves of codes is, where a lower half counts if the
    /// score is [`LOWER_HALF`] times as great.
    pub fn threshold(&self, fraction: f64) -> f32 {
        let live = |threshold: f64| {
            let lower = threshold * f64::from(LOWER_HALF);
            1.0 - (self.fraction(threshold) + self.fraction(lower)) / 2.0
        };
        let (mut low, mut high) = (0.0, f64::from(self.0[Self::COUNT - 1]));
        // as exact as an f32
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            match live(middle) > fraction {
                true => low = middle,
                false => high = middle,
            }
        }
        high as f32
    }
}

/// Counts of scores by size, of which [`InputScores`] are the quantiles. They do not depend on the
/// order in which scores are added.
#[derive(Clone, Debug)]
pub struct ScoreCounts {
    counts: Vec<u64>,
    greatest: f32,
}

impl Default for ScoreCounts {
    fn default() -> Self {
        let bins = (f32::INFINITY.to_bits() >> BELOW_BIN) as usize;
        Self { counts: vec![0; bins], greatest: 0.0 }
    }
}

impl ScoreCounts {
    /// Adds the scores of a row `x` `[cols]`, by the norms `[cols]` of the columns. InputScores
    /// that are not finite are left out.
    pub fn add(&mut self, x: &[f32], norms: &[f32]) {
        for (x, norm) in x.iter().zip(norms) {
            let score = (x * norm).abs();
            if let Some(count) = self.counts.get_mut((score.to_bits() >> BELOW_BIN) as usize) {
                *count += 1;
                self.greatest = self.greatest.max(score);
            }
        }
    }

    /// The quantiles, to half a bin. Without scores all are 0.
    pub fn scores(&self) -> InputScores {
        let all: u64 = self.counts.iter().sum();
        let mut quantiles = [self.greatest; InputScores::COUNT];
        let (mut bin, mut before) = (0, 0);
        for (i, quantile) in quantiles.iter_mut().enumerate() {
            let wanted = all as f64 * (i as f64 / (InputScores::COUNT - 1) as f64);
            while bin < self.counts.len() && (before + self.counts[bin]) as f64 <= wanted {
                before += self.counts[bin];
                bin += 1;
            }
            let Some(&count) = self.counts.get(bin) else { break };
            let [low, high] =
                [bin, bin + 1].map(|bin| f64::from(f32::from_bits((bin as u32) << BELOW_BIN)));
            // the last bin ends with infinity
            let part = (wanted - before as f64) / count as f64;
            let value = if part > 0.0 { low + (high - low) * part } else { low };
            *quantile = (value as f32).min(self.greatest);
        }
        InputScores(quantiles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even() -> InputScores {
        InputScores::new(std::array::from_fn(|i| i as f32 / 63.0)).unwrap_or(InputScores([0.0; 64]))
    }

    #[test]
    fn thresholds_of_even_scores() {
        // upper halves are live above t and lower ones above 9.2 t: (2 - 10.2 t) / 2 of all halves
        // while 9.2 t is below 1, and then (1 - t) / 2
        for (fraction, expected) in [(0.8, 0.4 / 10.2), (0.5, 1.0 / 10.2), (0.25, 0.5), (0.1, 0.8)]
        {
            let threshold = f64::from(even().threshold(fraction));
            assert!((threshold - expected).abs() < 1e-6, "{fraction}: {threshold}");
        }
    }

    #[test]
    fn quantiles_of_counted_scores() {
        // the scores are 1 to 6300, in any order
        let mut counts = ScoreCounts::default();
        let x: Vec<f32> = (0..6300).map(|i| ((i * 37) % 6300 + 1) as f32 / 2.0).collect();
        counts.add(&x, &vec![-2.0; 6300]);
        counts.add(&[f32::NAN, f32::INFINITY], &[1.0; 2]);
        for (i, &quantile) in counts.scores().quantiles().iter().enumerate() {
            let expected = (i * 100) as f32;
            assert!((quantile - expected).abs() <= 1.0 + expected / 64.0, "{i}: {quantile}");
        }
        assert_eq!(ScoreCounts::default().scores(), InputScores([0.0; 64]));
    }

    #[test]
    fn scores_that_are_refused() {
        for (at, wrong, what) in [
            (3, f32::NAN, "the score NaN"),
            (63, f32::INFINITY, "the score inf"),
            (0, -1.0, "the score -1"),
            (9, 0.0, "ascend"),
        ] {
            let mut quantiles = *even().quantiles();
            quantiles[at] = wrong;
            let error = InputScores::new(quantiles).err().unwrap_or_default();
            assert!(error.contains(what), "{error}");
        }
    }
}
