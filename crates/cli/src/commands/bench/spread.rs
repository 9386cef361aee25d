//! Statistics of measured values.

use serde_json::{Value, json};

/// The median and the range of a figure over several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |i: usize| values.get(i).copied().unwrap_or(0.0);
        let last = values.len().saturating_sub(1);
        // the two middle values are one where their number is odd
        let median = (at(last / 2) + at(last.div_ceil(2))) / 2.0;
        Self { median, min: at(0), max: at(last) }
    }

    pub(super) fn to_json(self) -> Value {
        json!({"median": self.median, "min": self.min, "max": self.max})
    }
}

/// The value that `percent` per cent of the values do not exceed (the nearest rank); 0 for none.
pub(super) fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent).div_ceil(100);
    values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let of = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(of(&[3.0]), Spread { median: 3.0, min: 3.0, max: 3.0 });
        assert_eq!(of(&[4.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 4.0 });
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, min: 1.0, max: 4.0 });
    }

    #[test]
    fn percentiles() {
        let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 50), 100.0);
        assert_eq!(percentile(&mut values, 99), 198.0);
        assert_eq!(percentile(&mut [7.0], 99), 7.0);
        assert_eq!(percentile(&mut [1.0, 2.0], 50), 1.0);
        assert_eq!(percentile(&mut [], 50), 0.0);
    }
}
