//! Sampling options as users give them, and the table of all of them.

use crate::{PENALTY_WINDOW_MAX, noise::random_seed, order::SamplerKind};

/// An option of [`Sampling`]: its names, its range and its help.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SamplingOption {
    /// The name of the field, which HTTP bodies and sentences have too.
    pub name: &'static str,
    /// The flag of the command line, without its dashes.
    pub flag: &'static str,
    /// The value's name in the flag's help.
    pub value_name: &'static str,
    /// The name in llama.cpp's API.
    pub llama_cpp: &'static str,
    /// Further names in HTTP bodies.
    pub aliases: &'static [&'static str],
    /// The field, with its type and range.
    pub kind: OptionKind,
    /// A line about the effect, without a full stop.
    pub help: &'static str,
    /// Where a draw runs in which the option has an effect.
    pub runs: &'static str,
}

/// The type and the range of an option, and its field.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// A number between a least and a greatest one.
    Number(Field<f32>, f32, f32),
    /// An integer from 0 to a greatest one, and the value that -1 stands for, as in llama.cpp.
    Integer(Field<usize>, usize, usize),
    /// An integer from 0 to a greatest one, in which -1 has no meaning.
    Version(Field<u8>, u8),
    /// Strings: how many at most, and the bytes of each at most; none is empty.
    Texts(Field<Vec<String>>, usize, usize),
    /// The order of samplers, each at most once.
    Samplers(Field<Vec<SamplerKind>>),
    /// An integer of 64 bits, or a random one.
    Seed(Field<Option<u64>>),
}

/// Access to one field of [`Sampling`].
#[derive(Debug)]
pub struct Field<T> {
    /// The field.
    pub get: fn(&Sampling) -> &T,
    /// The field, to be changed.
    pub get_mut: fn(&mut Sampling) -> &mut T,
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Field<T> {}

/// The greatest number of an option without a greatest value.
const MOST: f32 = f32::MAX;
/// The greatest integer of an option without a greatest value.
const ANY: usize = u32::MAX as usize;
/// The place of samplers that are part of a [`Draw`](crate::Draw).
const LOGITS: &str = "where the logits are";
/// The place of all other samplers.
const HOST: &str = "on the host";

/// Declares the options: a field, its default, its builder method and its entry in the table. A new
/// option is one entry here, and its effect in [`method`](crate::method).
macro_rules! options {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident: $type:ty = $default:expr, $kind:ident($($range:expr),*),
        --$flag:literal $value:literal, $llama_cpp:literal $aliases:expr, $help:literal, $runs:expr;
    )*) => {
        /// Options of sampling. Each field has a builder method of the same name.
        ///
        /// The samplers run in the [`order`](Self::order); a sampler that it does not name is off.
        /// Mirostat replaces all of them but the temperature; adaptive-p is always last. Penalties,
        /// top-k, top-p, min-p and temperature in their usual order run where the logits are, on a
        /// GPU too. All others, and all other orders, run on the host
        /// ([`runs_on_host`](Self::runs_on_host)): then each token waits for the logits of the one
        /// before.
        ///
        /// ```
        /// use pelton_sampling::Sampling;
        ///
        /// let sampling = Sampling::default().temperature(0.3).seed(7);
        /// assert!(sampling.check().is_ok());
        /// assert!(sampling.top_p(1.5).check().is_err());
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct Sampling {$(
            $(#[doc = $doc])*
            pub $name: $type,
        )*}

        impl Default for Sampling {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Sampling {
            /// All options, in the order of the fields. HTTP bodies, flags, documents and checks of
            /// ranges are made from them.
            pub const OPTIONS: &'static [SamplingOption] = &[$(
                SamplingOption {
                    name: stringify!($name),
                    flag: $flag,
                    value_name: $value,
                    llama_cpp: $llama_cpp,
                    aliases: &$aliases,
                    kind: OptionKind::$kind(
                        Field { get: |s| &s.$name, get_mut: |s| &mut s.$name }
                        $(, $range)*
                    ),
                    help: $help,
                    runs: $runs,
                },
            )*];

            $(options!(@builder $name: $type);)*
        }
    };
    // `None` is the default: a caller gives a number
    (@builder seed: $type:ty) => {
        /// Sets [`seed`](Self#structfield.seed).
        #[must_use]
        pub fn seed(mut self, seed: u64) -> Self {
            self.seed = Some(seed);
            self
        }
    };
    (@builder $name:ident: $type:ty) => {
        #[doc = concat!("Sets [`", stringify!($name), "`](Self#structfield.", stringify!($name), ").")]
        #[must_use]
        pub fn $name(mut self, $name: $type) -> Self {
            self.$name = $name;
            self
        }
    };
}

options! {
    /// Divisor of the logits, from 0; 0 takes the likeliest token always.
    temperature: f32 = 0.8, Number(0.0, MOST),
        --"temperature" "T", "temperature" [],
        "Divisor of the logits; 0 always takes the likeliest token", LOGITS;
    /// Number of likeliest tokens to keep; 0 keeps all.
    top_k: usize = 40, Integer(ANY, 0),
        --"top-k" "K", "top_k" [],
        "Draw from the K likeliest tokens; 0 for all", LOGITS;
    /// Probability that the kept likeliest tokens must reach together, in 0 to 1; 1 keeps all.
    top_p: f32 = 0.95, Number(0.0, 1.0),
        --"top-p" "P", "top_p" [],
        "Draw from the likeliest tokens whose probabilities sum to P; 1 for all", LOGITS;
    /// Least probability of a kept token relative to the likeliest token's, in 0 to 1; 0 keeps
    /// all.
    min_p: f32 = 0.05, Number(0.0, 1.0),
        --"min-p" "P", "min_p" [],
        "Leave out tokens with less than P times the probability of the likeliest one; 0 for none",
        LOGITS;
    /// Divisor of the positive logits of recent tokens, and factor of the negative ones, in 0.01
    /// to 100; 1 for none (Keskar et al., arXiv 1909.05858).
    repetition_penalty: f32 = 1.0, Number(0.01, 100.0),
        --"repetition-penalty" "X", "repeat_penalty" [],
        "Divide the positive logits of recent tokens by X and multiply the negative ones; 1 for off",
        LOGITS;
    /// Amount subtracted from the logits of recent tokens once, in -100 to 100; 0 for none.
    presence_penalty: f32 = 0.0, Number(-100.0, 100.0),
        --"presence-penalty" "X", "presence_penalty" [],
        "Subtract X from the logits of recent tokens, once for each token; 0 for off", LOGITS;
    /// Amount subtracted from the logits of recent tokens for each occurrence, in -100 to 100; 0
    /// for none.
    frequency_penalty: f32 = 0.0, Number(-100.0, 100.0),
        --"frequency-penalty" "X", "frequency_penalty" [],
        "Subtract X from the logits of recent tokens for each time they occur; 0 for off", LOGITS;
    /// Number of newest tokens that count as recent, prompt included, in 0 to
    /// [`PENALTY_WINDOW_MAX`]; 0 disables all three penalties.
    penalty_window: usize = 64, Integer(PENALTY_WINDOW_MAX, PENALTY_WINDOW_MAX),
        --"penalty-window" "N", "repeat_last_n" [],
        "Newest tokens, those of the prompt included, that the penalties count as recent", LOGITS;
    /// Standard deviations of the logits below the greatest one that are kept; 0 or less keeps all
    /// (Tang et al., arXiv 2411.07641).
    top_n_sigma: f32 = 0.0, Number(-MOST, MOST),
        --"top-n-sigma" "N", "top_n_sigma" [],
        "Leave out tokens whose logits are more than N standard deviations below the greatest; 0 for none",
        HOST;
    /// Probability that the kept tokens of typical information must exceed together, in 0 to 1; 1
    /// keeps all (Meister et al., arXiv 2202.00666).
    typical_p: f32 = 1.0, Number(0.0, 1.0),
        --"typical-p" "P", "typical_p" ["typ_p"],
        "Draw from the tokens of the most typical information whose probabilities sum to P; 1 for all",
        HOST;
    /// Probability of removing all tokens above the threshold of XTC but the least likely of them,
    /// in 0 to 1; 0 for never.
    xtc_probability: f32 = 0.0, Number(0.0, 1.0),
        --"xtc-probability" "P", "xtc_probability" [],
        "Leave out the top choices but the least likely one with probability P (XTC); 0 for never",
        HOST;
    /// Least probability of a token that XTC removes, in 0 to 1; above 0.5 it removes none.
    xtc_threshold: f32 = 0.1, Number(0.0, 1.0),
        --"xtc-threshold" "P", "xtc_threshold" [],
        "The least probability of a top choice of XTC; above 0.5 for none", HOST;
    /// Half of the range of the temperature, which then depends on the entropy; 0 for none.
    dynatemp_range: f32 = 0.0, Number(0.0, MOST),
        --"dynatemp-range" "R", "dynatemp_range" [],
        "Half of the range in which the temperature follows the entropy; 0 for a fixed one", HOST;
    /// Exponent of the entropy, relative to its maximum, in the dynamic temperature.
    dynatemp_exponent: f32 = 1.0, Number(-MOST, MOST),
        --"dynatemp-exponent" "X", "dynatemp_exponent" [],
        "The exponent of the entropy in the temperature", HOST;
    /// Penalty (DRY) of a token that would continue an earlier occurrence of the newest
    /// [`dry_allowed_length`](Self::dry_allowed_length) tokens, from 0; 0 for none.
    dry_multiplier: f32 = 0.0, Number(0.0, MOST),
        --"dry-multiplier" "X", "dry_multiplier" [],
        "Penalty of tokens that continue a repetition (DRY); 0 for off", HOST;
    /// Growth of the DRY penalty with each further repeated token; below 1 for no penalty.
    dry_base: f32 = 1.75, Number(0.0, MOST),
        --"dry-base" "X", "dry_base" [],
        "Growth of DRY's penalty with each repeated token", HOST;
    /// Length of the shortest repetition that DRY penalizes.
    dry_allowed_length: usize = 2, Integer(ANY, 2),
        --"dry-allowed-length" "N", "dry_allowed_length" [],
        "Tokens of the shortest repetition that DRY penalizes", HOST;
    /// Number of newest tokens that DRY searches, prompt included; 0 for no penalty.
    dry_window: usize = 64, Integer(ANY, ANY),
        --"dry-window" "N", "dry_penalty_last_n" [],
        "Newest tokens, those of the prompt included, that DRY searches", HOST;
    /// Strings that no repetition of DRY crosses: at most 64, of 1 to 40 bytes each.
    dry_breakers: Vec<String> = ["\n", ":", "\"", "*"].map(str::to_owned).to_vec(), Texts(64, 40),
        --"dry-breaker" "TEXT", "dry_sequence_breakers" [],
        "A string that no repetition of DRY crosses, with \\n for a line break; may be given several times",
        HOST;
    /// Version of Mirostat (Basu et al., arXiv 2007.14966): 1 or 2; 0 for none.
    mirostat: u8 = 0, Version(2),
        --"mirostat" "V", "mirostat" [],
        "Mirostat's version, 1 or 2, in place of all samplers but the temperature; 0 for off", HOST;
    /// Surprise that Mirostat aims at, in bits, from 0.
    mirostat_tau: f32 = 5.0, Number(0.0, MOST),
        --"mirostat-tau" "X", "mirostat_tau" [],
        "The surprise that Mirostat aims at, in bits", HOST;
    /// Learning rate of Mirostat, from 0.
    mirostat_eta: f32 = 0.1, Number(0.0, MOST),
        --"mirostat-eta" "X", "mirostat_eta" [],
        "Mirostat's learning rate", HOST;
    /// Probability near which adaptive-p draws, up to 1; below 0 for none.
    adaptive_target: f32 = -1.0, Number(-MOST, 1.0),
        --"adaptive-target" "P", "adaptive_target" [],
        "Draw tokens near this probability (adaptive-p); below 0 for off", HOST;
    /// Decay of the average of adaptive-p, in 0 to 0.99.
    adaptive_decay: f32 = 0.9, Number(0.0, 0.99),
        --"adaptive-decay" "X", "adaptive_decay" [],
        "The decay of adaptive-p's average", HOST;
    /// Tokens that typical-p, top-p, min-p and XTC keep at least.
    min_keep: usize = 0, Integer(ANY, 0),
        --"min-keep" "N", "min_keep" [],
        "Tokens that typical-p, top-p, min-p and XTC keep at least", "on the host from 2 on";
    /// The samplers in their order, each at most once; those that are left out are off.
    order: Vec<SamplerKind> = SamplerKind::ORDER.to_vec(), Samplers(),
        --"samplers" "NAMES", "samplers" [],
        "The samplers in their order, with commas; others are off",
        "on the host where the active ones are in another order";
    /// Key of the noise: the same seed gives the same text. `None` takes a random one.
    seed: Option<u64> = None, Seed(),
        --"seed" "N", "seed" [],
        "Seed of the draws: the same one gives the same text; by default a random one", LOGITS;
}

impl Sampling {
    /// Options that take the likeliest token always.
    pub fn greedy() -> Self {
        Self::default().temperature(0.0)
    }

    /// The seed, or a random one where none is set.
    pub fn seed_or_random(&self) -> u64 {
        self.seed.unwrap_or_else(random_seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_kept() {
        assert_eq!(Sampling::default().seed(5).seed_or_random(), 5);
    }
}
