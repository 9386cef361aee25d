//! The options of sampling in a body, from the table of [`Sampling::OPTIONS`].

use pelton::{OptionKind, SamplerKind, Sampling, SamplingOption};
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    input::{Fields, integer, kind},
};

/// The greatest integer in a body. One above an option's greatest value stands for that.
const INTEGER_MAX: i64 = u32::MAX as i64;

/// Takes the options out of a body, with the names of those that it has.
pub(super) fn take(fields: &mut Fields) -> Result<(Sampling, Vec<&'static str>), ApiError> {
    let (mut sampling, mut given) = (Sampling::default(), Vec::new());
    for option in Sampling::OPTIONS {
        for key in option.keys() {
            if fields.has(key) {
                take_one(fields, option, key, &mut sampling)?;
                given.push(option.name);
            }
        }
    }
    Ok((sampling, given))
}

fn take_one(
    fields: &mut Fields,
    option: &SamplingOption,
    key: &'static str,
    sampling: &mut Sampling,
) -> Result<(), ApiError> {
    let path = fields.at(key);
    let fail = |sentence: String| Err(ApiError::field(path.clone(), sentence));
    let (is_valid, found) = match option.kind {
        OptionKind::Texts(field, ..) => {
            *(field.get_mut)(sampling) = fields.strings(key)?;
            return option.check(sampling).or_else(fail);
        }
        OptionKind::Samplers(field) => {
            let kinds: Vec<_> = fields.strings(key)?.iter().map(|name| name.parse()).collect();
            // as llama.cpp does: clients name samplers that are of no use here, such as infill
            let known: Vec<SamplerKind> = kinds.iter().filter_map(|k| k.clone().ok()).collect();
            if known.is_empty()
                && let Some(Err(error)) = kinds.into_iter().next()
            {
                let error: String = error;
                return fail(format!("{path}: {error}"));
            }
            *(field.get_mut)(sampling) = known;
            return option.check(sampling).or_else(fail);
        }
        OptionKind::Number(..) => {
            let Some(value) = fields.take(key) else { return Ok(()) };
            (value.as_f64().is_some_and(|number| option.set_number(sampling, number)), value)
        }
        OptionKind::Integer(_, most, _) => {
            let Some(value) = fields.take(key) else { return Ok(()) };
            let most = i64::try_from(most).unwrap_or(INTEGER_MAX);
            let clamped = |found| if found > INTEGER_MAX { found } else { most.min(found) };
            let found = integer(&value).map(clamped);
            (found.is_some_and(|found| option.set_integer(sampling, found)), value)
        }
        OptionKind::Version(..) => {
            let Some(value) = fields.take(key) else { return Ok(()) };
            (integer(&value).is_some_and(|found| option.set_integer(sampling, found)), value)
        }
        OptionKind::Seed(_) => {
            let Some(value) = fields.take(key) else { return Ok(()) };
            // the upper half of 64 bits has no sign
            let bits = value.as_u64().map(u64::cast_signed).or_else(|| integer(&value));
            (bits.is_some_and(|bits| option.set_integer(sampling, bits)), value)
        }
    };
    if is_valid { Ok(()) } else { fail(option.refusal(&path, &kind(&found))) }
}

/// The options of a request, with a model's defaults for those that it does not give.
pub(super) fn with_defaults(
    mut sampling: Sampling,
    given: &[&'static str],
    defaults: &Sampling,
) -> Sampling {
    for option in Sampling::OPTIONS {
        let is_seed = matches!(option.kind, OptionKind::Seed(_));
        if !is_seed && !given.contains(&option.name) {
            option.copy(defaults, &mut sampling);
        }
    }
    sampling
}

/// The value of an option in JSON; null if it has none.
pub(crate) fn option_json(option: &SamplingOption, sampling: &Sampling) -> Value {
    match option.kind {
        OptionKind::Number(field, ..) => decimal(*(field.get)(sampling)),
        OptionKind::Integer(field, ..) => json!((field.get)(sampling)),
        OptionKind::Version(field, _) => json!((field.get)(sampling)),
        OptionKind::Texts(field, ..) => json!((field.get)(sampling)),
        OptionKind::Samplers(field) => {
            (field.get)(sampling).iter().map(|kind| kind.name()).collect()
        }
        OptionKind::Seed(field) => json!((field.get)(sampling)),
    }
}

/// A number with the digits that it was written with.
pub(crate) fn decimal(number: f32) -> Value {
    number.to_string().parse::<f64>().unwrap_or_default().into()
}

/// The schema of an option's fields.
pub(crate) fn option_schema(option: &SamplingOption) -> Value {
    let mut schema = match option.kind {
        OptionKind::Number(_, least, most) => {
            let mut schema = json!({"type": ["number", "null"]});
            if least > f32::MIN {
                schema["minimum"] = decimal(least);
            }
            if most < f32::MAX {
                schema["maximum"] = decimal(most);
            }
            schema
        }
        OptionKind::Integer(..) => {
            json!({"type": ["integer", "null"], "minimum": -1, "maximum": INTEGER_MAX})
        }
        OptionKind::Version(_, most) => {
            json!({"type": ["integer", "null"], "minimum": 0, "maximum": most})
        }
        OptionKind::Texts(..) | OptionKind::Samplers(_) => {
            json!({"type": ["string", "array", "null"], "items": {"type": "string"}})
        }
        OptionKind::Seed(_) => json!({"type": ["integer", "null"]}),
    };
    schema["description"] = option.help.into();
    schema
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

    /// Every option, by every name that it has in bodies.
    #[test]
    fn all_options_of_the_table() {
        let body = |key: &str, value: Value| Fields::new(json!({(key): value})).unwrap();
        for case in pelton_testing::sampling::cases() {
            let value = |text: &str| match case.is_number() {
                true => serde_json::from_str(text).unwrap(),
                false => json!(text.split(',').collect::<Vec<_>>()),
            };
            for key in case.option.keys() {
                let (sampling, given) = take(&mut body(key, value(case.good))).unwrap();
                assert_eq!(sampling, case.expected(), "{key}");
                assert_eq!(given, [case.option.name]);
                let kept = with_defaults(sampling, &given, &Sampling::greedy().min_keep(9));
                assert_eq!(case.option.show(&kept), [case.good]);

                let error = take(&mut body(key, value(&case.bad))).unwrap_err();
                let name = case.option.name;
                assert_eq!(
                    error.message,
                    case.sentence.replacen(&format!("{name} is"), &format!("{key} is"), 1)
                );
                assert_eq!(error.param.as_deref(), Some(key));
                let null = take(&mut body(key, Value::Null)).unwrap();
                assert_eq!(null, (Sampling::default(), vec![]));
            }
            let mut wrong = body(case.option.name, json!({}));
            assert_eq!(take(&mut wrong).unwrap_err().param.as_deref(), Some(case.option.name));
        }
    }
}
