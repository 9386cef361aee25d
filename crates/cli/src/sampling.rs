//! The options of sampling, of all commands that generate text.

use pelton::Sampling;

/// How tokens are drawn.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SamplingArgs {
    /// Divisor of the logits; 0 always takes the likeliest token
    #[arg(long, value_name = "T", default_value_t = Sampling::default().temperature)]
    pub(crate) temperature: f32,
    /// Draw from the K likeliest tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = Sampling::default().top_k)]
    top_k: usize,
    /// Draw from the likeliest tokens whose probabilities sum to P; 1 for all
    #[arg(long, value_name = "P", default_value_t = Sampling::default().top_p)]
    top_p: f32,
    /// Leave out tokens with less than P times the probability of the likeliest one; 0 for none
    #[arg(long, value_name = "P", default_value_t = Sampling::default().min_p)]
    min_p: f32,
    /// Divide the positive logits of recent tokens by X and multiply the negative ones; 1 for off
    #[arg(long, value_name = "X", default_value_t = Sampling::default().repetition_penalty)]
    repetition_penalty: f32,
    /// Subtract X from the logits of recent tokens, once for each token; 0 for off
    #[arg(long, value_name = "X", default_value_t = Sampling::default().presence_penalty,
          allow_negative_numbers = true)]
    presence_penalty: f32,
    /// Subtract X from the logits of recent tokens for each time they occur; 0 for off
    #[arg(long, value_name = "X", default_value_t = Sampling::default().frequency_penalty,
          allow_negative_numbers = true)]
    frequency_penalty: f32,
    /// Newest tokens, those of the prompt included, that the penalties count as recent
    #[arg(long, value_name = "N", default_value_t = Sampling::default().penalty_window)]
    penalty_window: usize,
    /// Seed of the draws: the same one gives the same text; by default a random one
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

impl SamplingArgs {
    /// The sampling of a request.
    pub(crate) fn sampling(&self) -> Sampling {
        let mut sampling = Sampling::default()
            .temperature(self.temperature)
            .top_k(self.top_k)
            .top_p(self.top_p)
            .min_p(self.min_p)
            .repetition_penalty(self.repetition_penalty)
            .presence_penalty(self.presence_penalty)
            .frequency_penalty(self.frequency_penalty)
            .penalty_window(self.penalty_window);
        sampling.seed = self.seed;
        sampling
    }

    /// The options by their names, without those that have no value.
    pub(crate) fn values(&self) -> Vec<(&'static str, String)> {
        let mut values = vec![
            ("temperature", self.temperature.to_string()),
            ("top-k", self.top_k.to_string()),
            ("top-p", self.top_p.to_string()),
            ("min-p", self.min_p.to_string()),
            ("repetition-penalty", self.repetition_penalty.to_string()),
            ("presence-penalty", self.presence_penalty.to_string()),
            ("frequency-penalty", self.frequency_penalty.to_string()),
            ("penalty-window", self.penalty_window.to_string()),
        ];
        values.extend(self.seed.map(|seed| ("seed", seed.to_string())));
        values
    }
}
