//! Flags of samplers, for commands that generate text.

use pelton::{Model, SamplerKind, Sampling};

use crate::output::note;

/// Flags of samplers. Where one is absent the model file's value counts, or else the default in
/// parentheses.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(
    next_help_heading = "Sampling (defaults are those of the model file, or those in parentheses)"
)]
pub(crate) struct SamplingArgs {
    /// Divisor of the logits; 0 always takes the likeliest token (0.8)
    #[arg(long, value_name = "T")]
    temperature: Option<f32>,
    /// Draw from the K likeliest tokens; 0 for all (40)
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Draw from the likeliest tokens whose probabilities sum to P; 1 for all (0.95)
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Leave out tokens with less than P times the probability of the likeliest one; 0 for none
    /// (0.05)
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,
    /// Leave out tokens whose logits are more than N standard deviations below the greatest; 0 for
    /// none (0)
    #[arg(long, value_name = "N")]
    top_n_sigma: Option<f32>,
    /// Draw from the tokens of the most typical information whose probabilities sum to P; 1 for all
    /// (1)
    #[arg(long, value_name = "P")]
    typical_p: Option<f32>,
    /// Leave out the top choices but the least likely one with probability P (XTC); 0 for never (0)
    #[arg(long, value_name = "P")]
    xtc_probability: Option<f32>,
    /// The least probability of a top choice of XTC; above 0.5 for none (0.1)
    #[arg(long, value_name = "P")]
    xtc_threshold: Option<f32>,
    /// Half of the range in which the temperature follows the entropy; 0 for a fixed one (0)
    #[arg(long, value_name = "R")]
    dynatemp_range: Option<f32>,
    /// The exponent of the entropy in the temperature (1)
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    dynatemp_exponent: Option<f32>,
    /// Divide the positive logits of recent tokens by X and multiply the negative ones; 1 for off (1)
    #[arg(long, value_name = "X")]
    repetition_penalty: Option<f32>,
    /// Subtract X from the logits of recent tokens, once for each token; 0 for off (0)
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: Option<f32>,
    /// Subtract X from the logits of recent tokens for each time they occur; 0 for off (0)
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,
    /// Newest tokens, those of the prompt included, that the penalties count as recent (64)
    #[arg(long, value_name = "N")]
    penalty_window: Option<usize>,
    /// Penalty of tokens that continue a repetition (DRY); 0 for off (0)
    #[arg(long, value_name = "X")]
    dry_multiplier: Option<f32>,
    /// Growth of DRY's penalty with each repeated token (1.75)
    #[arg(long, value_name = "X")]
    dry_base: Option<f32>,
    /// Tokens of the shortest repetition that DRY penalizes (2)
    #[arg(long, value_name = "N")]
    dry_allowed_length: Option<usize>,
    /// Newest tokens, those of the prompt included, that DRY searches (64)
    #[arg(long, value_name = "N")]
    dry_window: Option<usize>,
    /// A string that no repetition of DRY crosses, with \n for a line break; may be given several
    /// times (\n, :, " and *)
    #[arg(long, value_name = "TEXT", value_parser = unescaped)]
    dry_breaker: Vec<String>,
    /// Mirostat's version, 1 or 2, in place of all samplers but the temperature; 0 for off (0)
    #[arg(long, value_name = "V")]
    mirostat: Option<u8>,
    /// The surprise that Mirostat aims at, in bits (5)
    #[arg(long, value_name = "X")]
    mirostat_tau: Option<f32>,
    /// Mirostat's learning rate (0.1)
    #[arg(long, value_name = "X")]
    mirostat_eta: Option<f32>,
    /// Draw tokens near this probability (adaptive-p); below 0 for off (-1)
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    adaptive_target: Option<f32>,
    /// The decay of adaptive-p's average (0.9)
    #[arg(long, value_name = "X")]
    adaptive_decay: Option<f32>,
    /// Tokens that typical-p, top-p, min-p and XTC keep at least (0)
    #[arg(long, value_name = "N")]
    min_keep: Option<usize>,
    /// The samplers in their order, with commas; others are off (penalties, dry, top-n-sigma, top-k,
    /// typical-p, top-p, min-p, xtc, temperature)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    samplers: Option<Vec<SamplerKind>>,
    /// Seed of the draws: the same one gives the same text; by default a random one
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// Calls a macro with the names of the flags that hold a number.
macro_rules! numbers {
    ($then:ident!($($with:tt)*)) => {
        $then!($($with)* temperature, top_k, top_p, min_p, top_n_sigma, typical_p, xtc_probability,
            xtc_threshold, dynatemp_range, dynatemp_exponent, repetition_penalty, presence_penalty,
            frequency_penalty, penalty_window, dry_multiplier, dry_base, dry_allowed_length,
            dry_window, mirostat, mirostat_tau, mirostat_eta, adaptive_target, adaptive_decay,
            min_keep)
    };
}

/// Replaces options by the flags that are given.
macro_rules! replace {
    ($sampling:ident, $flags:ident, $($name:ident),*) => {
        $(if let Some(value) = $flags.$name { $sampling.$name = value; })*
    };
}

/// Sets flags to the values of options.
macro_rules! fill {
    ($flags:ident, $sampling:ident, $($name:ident),*) => {
        $($flags.$name = Some($sampling.$name);)*
    };
}

/// The names of flags with the values of options.
macro_rules! list {
    ($sampling:ident, $($name:ident),*) => {
        vec![$((stringify!($name), $sampling.$name.to_string())),*]
    };
}

impl SamplingArgs {
    /// Sets the flags that are absent to the values of the model file, or else to their defaults.
    /// What the file sets is said on standard error.
    pub(crate) fn fill(&mut self, model: &Model) {
        let defaults = model.sampling_defaults();
        if !defaults.from_file.is_empty() {
            note!("sampling by the model file: {}", defaults.from_file.join(", "));
        }
        for sentence in &defaults.ignored {
            note!("ignored in the model file: {sentence}");
        }
        let sampling = self.over(defaults.sampling);
        numbers!(fill!(self, sampling,));
        self.dry_breaker = sampling.dry_breakers;
        self.samplers = Some(sampling.order);
    }

    /// The sampling of a request.
    pub(crate) fn sampling(&self) -> Sampling {
        self.over(Sampling::default())
    }

    /// The values of all flags by their names, without those that have none.
    pub(crate) fn values(&self) -> Vec<(String, String)> {
        let sampling = self.sampling();
        let numbers = numbers!(list!(sampling,));
        let mut values: Vec<(String, String)> =
            numbers.into_iter().map(|(name, value)| (name.replace('_', "-"), value)).collect();
        let breakers = sampling.dry_breakers.iter();
        values.extend(breakers.map(|text| ("dry-breaker".to_owned(), escaped(text))));
        let order: Vec<&str> = sampling.order.iter().map(|kind| kind.name()).collect();
        values.push(("samplers".to_owned(), order.join(",")));
        values.extend(self.seed.map(|seed| ("seed".to_owned(), seed.to_string())));
        values
    }

    fn over(&self, mut sampling: Sampling) -> Sampling {
        numbers!(replace!(sampling, self,));
        if !self.dry_breaker.is_empty() {
            sampling.dry_breakers.clone_from(&self.dry_breaker);
        }
        if let Some(order) = &self.samplers {
            sampling.order.clone_from(order);
        }
        sampling.seed = self.seed;
        sampling
    }
}

/// The text with escapes, as [`unescaped`] reads them.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t")
}

/// A text with escapes for line breaks, tabs and backslashes.
fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('\\') => '\\',
                _ => return Err("expected n, t or a backslash after a backslash".to_owned()),
            },
            c => c,
        });
    }
    Ok(out)
}
