//! Statistics of scores.

use serde_json::{Value, json};

use super::score::Score;

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

impl Mean {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let n = values.clone().count() as f64;
        let value = values.clone().sum::<f64>() / n;
        let variance = values.map(|x| (x - value).powi(2)).sum::<f64>() / n;
        Self { value, error: (variance / (n - 1.0).max(1.0)).sqrt() }
    }

    pub(crate) fn to_json(self) -> Value {
        json!({"value": self.value, "error": self.error})
    }
}

/// The statistics of the scores of a text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) tokens: usize,
    pub(crate) perplexity: Mean,
    pub(crate) base: Option<BaseSummary>,
}

/// The statistics against saved logits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BaseSummary {
    /// The perplexity of the base.
    pub(crate) perplexity: Mean,
    /// The logarithm of the ratio of both perplexities, of the same tokens.
    pub(crate) log_ratio: Mean,
    /// The divergence in nats.
    pub(crate) divergence: Mean,
    pub(crate) median: f64,
    pub(crate) percentile_99: f64,
    pub(crate) greatest: f64,
    /// The root of the mean square difference of the probabilities of the next tokens.
    pub(crate) probability_rms: f64,
    /// Rows whose likeliest token is that of the base, a share of all.
    pub(crate) same_top: Mean,
}

impl Summary {
    /// Summarizes scores, at least one; all of them have scores against a base or none.
    pub(crate) fn of(scores: &[Score]) -> Self {
        let base: Vec<_> =
            scores.iter().filter_map(|s| s.base.map(|base| (s.nats, base))).collect();
        let base = (!base.is_empty()).then(|| {
            let divergences = divergences(scores);
            let rms = base.iter().map(|(nats, base)| ((-nats).exp() - (-base.nats).exp()).powi(2));
            BaseSummary {
                perplexity: perplexity(base.iter().map(|(_, base)| base.nats)),
                log_ratio: Mean::of(base.iter().map(|(nats, base)| nats - base.nats)),
                divergence: Mean::of(divergences.iter().copied()),
                median: percentile(&divergences, 0.5),
                percentile_99: percentile(&divergences, 0.99),
                greatest: percentile(&divergences, 1.0),
                probability_rms: (rms.sum::<f64>() / base.len() as f64).sqrt(),
                same_top: Mean::of(base.iter().map(|(_, base)| f64::from(u8::from(base.same_top)))),
            }
        });
        let perplexity = perplexity(scores.iter().map(|score| score.nats));
        Self { tokens: scores.len(), perplexity, base }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut object = json!({
            "scored_tokens": self.tokens,
            "perplexity": self.perplexity.to_json(),
        });
        if let Some(base) = &self.base {
            object["base"] = base.to_json();
        }
        object
    }

    pub(crate) fn to_text(&self) -> String {
        let Mean { value, error } = self.perplexity;
        let mut text =
            format!("perplexity       {value:.4} ± {error:.4} ({} tokens)\n", self.tokens);
        if let Some(base) = &self.base {
            let Mean { value, error } = base.perplexity;
            text += &format!("{:16} {value:.6} ± {error:.6}\n", "of the base");
            text += &base.to_text();
        }
        text
    }
}

impl BaseSummary {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "perplexity": self.perplexity.to_json(),
            "log_perplexity_ratio": self.log_ratio.to_json(),
            "kl_divergence": {
                "mean": self.divergence.to_json(), "median": self.median,
                "percentile_99": self.percentile_99, "maximum": self.greatest,
            },
            "probability_difference_rms": self.probability_rms,
            "same_top_token": self.same_top.to_json(),
        })
    }

    /// The statistics but for the perplexity of the base.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let rows =
            [("ln of ratio", self.log_ratio, ""), ("KL divergence", self.divergence, " nats")];
        for (name, Mean { value, error }, unit) in rows {
            text += &format!("{name:16} {value:.6} ± {error:.6}{unit}\n");
        }
        let [median, high, most] = [self.median, self.percentile_99, self.greatest];
        text += &format!("  median         {median:.6}\n  99 %           {high:.6}\n");
        text += &format!("  maximum        {most:.6}\n");
        let Mean { value, error } = self.same_top;
        let (value, error) = (100.0 * value, 100.0 * error);
        text += &format!("same top token   {value:.2} ± {error:.2} %\n");
        text += &format!("RMS difference   {:.3} % of probability\n", 100.0 * self.probability_rms);
        text
    }
}

/// The divergences of scores from a base, in ascending order.
pub(crate) fn divergences(scores: &[Score]) -> Vec<f64> {
    let mut all: Vec<f64> =
        scores.iter().filter_map(|score| score.base.map(|base| base.divergence)).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn perplexity(nats: impl Iterator<Item = f64> + Clone) -> Mean {
    let Mean { value, error } = Mean::of(nats);
    Mean { value: value.exp(), error: value.exp() * error }
}

/// A percentile of values in ascending order, between neighbours on a line.
pub(crate) fn percentile(values: &[f64], fraction: f64) -> f64 {
    let place = fraction * values.len().saturating_sub(1) as f64;
    let low = place.floor() as usize;
    let high = (low + 1).min(values.len() - 1);
    let rest = place - low as f64;
    values[low] * (1.0 - rest) + values[high] * rest
}
