//! The names of samplers, of which an order is made.

use std::{fmt, str::FromStr};

/// A sampler of an [order](crate::Sampling::order).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SamplerKind {
    /// Repetition, presence and frequency penalties.
    Penalties,
    /// The penalty for continuing a repetition.
    Dry,
    /// Logits within some standard deviations of the greatest.
    TopNSigma,
    /// The likeliest tokens by number.
    TopK,
    /// The tokens of typical information.
    TypicalP,
    /// The likeliest tokens by the sum of their probabilities.
    TopP,
    /// The tokens by their probability relative to the likeliest one's.
    MinP,
    /// Exclusion of top choices.
    Xtc,
    /// Temperature, constant or dynamic.
    Temperature,
}

impl SamplerKind {
    /// All samplers in the usual order, that of llama.cpp.
    pub const ORDER: [Self; 9] = [
        Self::Penalties,
        Self::Dry,
        Self::TopNSigma,
        Self::TopK,
        Self::TypicalP,
        Self::TopP,
        Self::MinP,
        Self::Xtc,
        Self::Temperature,
    ];

    /// Its name, as in [`FromStr`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Penalties => "penalties",
            Self::Dry => "dry",
            Self::TopNSigma => "top_n_sigma",
            Self::TopK => "top_k",
            Self::TypicalP => "typical_p",
            Self::TopP => "top_p",
            Self::MinP => "min_p",
            Self::Xtc => "xtc",
            Self::Temperature => "temperature",
        }
    }
}

impl fmt::Display for SamplerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SamplerKind {
    type Err = String;

    /// Parses a name, with `-` or `_` between its words, or one of llama.cpp's other spellings.
    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.trim().to_ascii_lowercase().replace('-', "_");
        let known = Self::ORDER.into_iter().find(|kind| kind.name() == name);
        known
            .or(match name.as_str() {
                "temp" => Some(Self::Temperature),
                "typ_p" | "typical" => Some(Self::TypicalP),
                "nucleus" => Some(Self::TopP),
                _ => None,
            })
            .ok_or_else(|| {
                let names = Self::ORDER.map(Self::name).join(", ");
                format!("'{text}' is no sampler, expected one of {names}")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        for kind in SamplerKind::ORDER {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(kind.name().replace('_', "-").parse(), Ok(kind));
        }
        assert_eq!("typ_p".parse(), Ok(SamplerKind::TypicalP));
        let sentence = "top".parse::<SamplerKind>().unwrap_err();
        assert!(sentence.starts_with("'top' is no sampler, expected one of penalties, dry, "));
    }
}
