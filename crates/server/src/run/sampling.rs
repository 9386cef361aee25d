//! The options of sampling in a body.

use std::{ops::RangeInclusive, str::FromStr};

use pelton::{SamplerKind, Sampling};

use crate::{error::ApiError, input::Fields};

/// A number: the names of its field, the field of [`Sampling`], and its range.
type Number = (&'static [&'static str], fn(&mut Sampling) -> &mut f32, RangeInclusive<f64>);

const MOST: f64 = f32::MAX as f64;

const NUMBERS: [Number; 17] = [
    (&["temperature"], |s| &mut s.temperature, 0.0..=MOST),
    (&["top_p"], |s| &mut s.top_p, 0.0..=1.0),
    (&["min_p"], |s| &mut s.min_p, 0.0..=1.0),
    (&["repetition_penalty", "repeat_penalty"], |s| &mut s.repetition_penalty, 0.01..=100.0),
    (&["presence_penalty"], |s| &mut s.presence_penalty, -100.0..=100.0),
    (&["frequency_penalty"], |s| &mut s.frequency_penalty, -100.0..=100.0),
    (&["top_n_sigma"], |s| &mut s.top_n_sigma, -MOST..=MOST),
    (&["typical_p", "typ_p"], |s| &mut s.typical_p, 0.0..=1.0),
    (&["xtc_probability"], |s| &mut s.xtc_probability, 0.0..=1.0),
    (&["xtc_threshold"], |s| &mut s.xtc_threshold, 0.0..=1.0),
    (&["dynatemp_range"], |s| &mut s.dynatemp_range, 0.0..=MOST),
    (&["dynatemp_exponent"], |s| &mut s.dynatemp_exponent, -MOST..=MOST),
    (&["dry_multiplier"], |s| &mut s.dry_multiplier, 0.0..=MOST),
    (&["dry_base"], |s| &mut s.dry_base, 0.0..=MOST),
    (&["mirostat_tau"], |s| &mut s.mirostat_tau, 0.0..=MOST),
    (&["mirostat_eta"], |s| &mut s.mirostat_eta, 0.0..=MOST),
    (&["adaptive_target"], |s| &mut s.adaptive_target, -MOST..=1.0),
];

/// An integer: the names of its field, the field of [`Sampling`], the greatest value, which stands for
/// those above it, and the value that -1 stands for.
type Integer = (&'static [&'static str], fn(&mut Sampling) -> &mut usize, usize, usize);

const ANY: usize = u32::MAX as usize;

const INTEGERS: [Integer; 5] = [
    (&["top_k"], |s| &mut s.top_k, ANY, 0),
    (&["penalty_window", "repeat_last_n"], |s| &mut s.penalty_window, 4096, 4096),
    (&["dry_allowed_length"], |s| &mut s.dry_allowed_length, ANY, 2),
    (&["dry_window", "dry_penalty_last_n"], |s| &mut s.dry_window, ANY, usize::MAX),
    (&["min_keep"], |s| &mut s.min_keep, ANY, 0),
];

/// Takes the options out of a body, with the names of those that it has.
pub(super) fn take(fields: &mut Fields) -> Result<(Sampling, Vec<&'static str>), ApiError> {
    let (mut sampling, mut given) = (Sampling::default(), Vec::new());
    for (names, field, range) in NUMBERS {
        for name in names {
            if let Some(value) = fields.number(name, range.clone())? {
                *field(&mut sampling) = value as f32;
                given.push(names[0]);
            }
        }
    }
    for (names, field, most, unlimited) in INTEGERS {
        for name in names {
            if let Some(value) = fields.integer(name, -1..=i64::from(u32::MAX))? {
                let value = usize::try_from(value).map(|value| value.min(most));
                *field(&mut sampling) = value.unwrap_or(unlimited);
                given.push(names[0]);
            }
        }
    }
    if let Some(version) = fields.integer("mirostat", 0..=2)? {
        sampling.mirostat = u8::try_from(version).unwrap_or(0);
        given.push("mirostat");
    }
    if let Some(decay) = fields.number("adaptive_decay", 0.0..=0.99)? {
        sampling.adaptive_decay = decay as f32;
        given.push("adaptive_decay");
    }
    if fields.has("dry_sequence_breakers") {
        sampling.dry_breakers = fields.strings("dry_sequence_breakers")?;
        given.push("dry_breakers");
    }
    if fields.has("samplers") {
        let path = fields.at("samplers");
        let kinds = fields.strings("samplers")?.into_iter();
        let kinds: Vec<_> = kinds.map(|name| SamplerKind::from_str(&name)).collect();
        // as llama.cpp does: clients name samplers that are of no use here, such as infill
        sampling.order = kinds.iter().filter_map(|kind| kind.as_ref().ok()).copied().collect();
        if sampling.order.is_empty()
            && let Some(Err(error)) = kinds.first()
        {
            return Err(ApiError::field(path.clone(), format!("{path}: {error}")));
        }
        given.push("order");
    }
    // any 64 bits are a seed; llama.cpp's -1 is a random one
    sampling.seed = fields.bits("seed")?.filter(|&seed| seed != u64::MAX);
    Ok((sampling, given))
}

/// The options of a request, with a model's defaults for those that it does not give.
pub(super) fn with_defaults(
    mut sampling: Sampling,
    given: &[&'static str],
    defaults: &Sampling,
) -> Sampling {
    macro_rules! fill {
        ($($name:ident),*) => {$(
            if !given.contains(&stringify!($name)) {
                sampling.$name.clone_from(&defaults.$name);
            }
        )*};
    }
    fill!(
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
        presence_penalty,
        frequency_penalty,
        penalty_window,
        top_n_sigma,
        typical_p,
        xtc_probability,
        xtc_threshold,
        dynatemp_range,
        dynatemp_exponent,
        dry_multiplier,
        dry_base,
        dry_allowed_length,
        dry_window,
        dry_breakers,
        mirostat,
        mirostat_tau,
        mirostat_eta,
        adaptive_target,
        adaptive_decay,
        min_keep,
        order
    );
    sampling
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_the_model() {
        let body =
            json!({"temperature": 0.5, "repeat_penalty": 1.2, "samplers": ["top_k"], "seed": -1});
        let (sampling, given) = take(&mut Fields::new(body).unwrap()).unwrap();
        let defaults = Sampling::default().temperature(0.1).top_p(0.3).repetition_penalty(2.0);
        let sampling = with_defaults(sampling, &given, &defaults);
        assert_eq!((sampling.temperature, sampling.top_p), (0.5, 0.3));
        assert_eq!((sampling.repetition_penalty, sampling.seed), (1.2, None));
        assert_eq!(sampling.order, [SamplerKind::TopK]);
        let seeds = [(u64::MAX - 1, json!(-2)), (1 << 63, json!(1u64 << 63)), (7, json!(7.0))];
        for (expected, seed) in seeds {
            // llama.vim's samplers, and a window that is longer than the longest
            let body = json!({"samplers": ["top_k", "top_p", "infill"], "seed": seed,
                              "repeat_last_n": 100_000});
            let (sampling, _) = take(&mut Fields::new(body).unwrap()).unwrap();
            assert_eq!(sampling.seed, Some(expected));
            assert_eq!(sampling.order, [SamplerKind::TopK, SamplerKind::TopP]);
            assert_eq!(sampling.penalty_window, 4096);
        }
        let body = json!({"samplers": ["topmost"]});
        let error = take(&mut Fields::new(body).unwrap()).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("samplers"));
    }
}
