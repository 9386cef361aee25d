//! Defaults of sampling that a model file has.

use pelton_sampling::{SamplerKind, Sampling};
use pelton_weights::{Metadata, Value};

/// Sampling options with the values that a model file recommends.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SamplingDefaults {
    /// [`Sampling::default`] with the file's values.
    pub sampling: Sampling,
    /// The options that the file sets, as `name value`.
    pub from_file: Vec<String>,
    /// The values that are out of their ranges and have no effect, a sentence each.
    pub ignored: Vec<String>,
}

impl SamplingDefaults {
    /// Changes one option, unless the result is out of its range.
    fn set(&mut self, name: &str, shown: &str, change: impl FnOnce(Sampling) -> Sampling) {
        let changed = change(self.sampling.clone());
        match changed.check() {
            Ok(()) => {
                self.sampling = changed;
                self.from_file.push(format!("{name} {shown}"));
            }
            Err(sentence) => self.ignored.push(sentence),
        }
    }
}

type SetNumber = fn(Sampling, f32) -> Sampling;
type SetSize = fn(Sampling, usize) -> Sampling;

/// Keys of numbers, the options that they set, and how.
const NUMBERS: [(&str, &str, SetNumber); 8] = [
    ("temp", "temperature", Sampling::temperature),
    ("top_p", "top_p", Sampling::top_p),
    ("min_p", "min_p", Sampling::min_p),
    ("xtc_probability", "xtc_probability", Sampling::xtc_probability),
    ("xtc_threshold", "xtc_threshold", Sampling::xtc_threshold),
    ("penalty_repeat", "repetition_penalty", Sampling::repetition_penalty),
    ("mirostat_tau", "mirostat_tau", Sampling::mirostat_tau),
    ("mirostat_eta", "mirostat_eta", Sampling::mirostat_eta),
];

/// Keys of integers, the options that they set, and how.
const SIZES: [(&str, &str, SetSize); 3] = [
    ("top_k", "top_k", Sampling::top_k),
    ("penalty_last_n", "penalty_window", Sampling::penalty_window),
    ("mirostat", "mirostat", |s, version| s.mirostat(u8::try_from(version).unwrap_or(u8::MAX))),
];

/// The defaults of a model file.
pub(super) fn of(metadata: &Metadata) -> SamplingDefaults {
    let mut defaults = SamplingDefaults {
        sampling: Sampling::default(),
        from_file: Vec::new(),
        ignored: Vec::new(),
    };
    let value = |key: &str| metadata.get(&format!("general.sampling.{key}"));
    for (key, name, change) in NUMBERS {
        let number = match value(key) {
            Some(Value::F32(number)) => *number,
            Some(Value::F64(number)) => *number as f32,
            Some(other) => other.as_integer().map_or(f32::NAN, |integer| integer as f32),
            None => continue,
        };
        defaults.set(name, &number.to_string(), |sampling| change(sampling, number));
    }
    for (key, name, change) in SIZES {
        let Some(value) = value(key) else { continue };
        // a negative number or none of either kind is out of every range
        let size = match value.as_integer() {
            // llama.cpp's -1 is all
            Some(-1) if key == "top_k" => 0,
            integer => integer.and_then(|i| usize::try_from(i).ok()).unwrap_or(usize::MAX),
        };
        defaults.set(name, &size.to_string(), |sampling| change(sampling, size));
    }
    if let Some(Value::String(text)) = value("sequence") {
        let text = String::from_utf8_lossy(text);
        match order(&text) {
            Ok(order) => defaults.set("order", &text, |sampling| sampling.order(order)),
            Err(sentence) => defaults.ignored.push(sentence),
        }
    }
    defaults
}

/// An order of samplers as llama.cpp writes it: names with `;` between them.
fn order(text: &str) -> Result<Vec<SamplerKind>, String> {
    text.split(';').map(str::trim).filter(|name| !name.is_empty()).map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use pelton_weights::{Checkpoint, GgufWriter};

    use super::*;

    #[test]
    fn values_of_a_file_replace_defaults_unless_they_are_out_of_range() {
        let mut writer = GgufWriter::new();
        let mut set = |key: &str, value: Value| {
            writer.set(&format!("general.sampling.{key}"), value).unwrap();
        };
        set("temp", Value::F32(0.6));
        set("top_k", Value::I32(20));
        set("top_p", Value::F32(7.0));
        set("mirostat", Value::I32(-3));
        set("penalty_last_n", Value::U32(128));
        set("sequence", Value::String("top_k;temperature".into()));
        let bytes = writer.begin(Vec::new()).unwrap().finish().unwrap();
        let checkpoint = Checkpoint::from_bytes("a file", bytes).unwrap();
        let defaults = of(checkpoint.metadata());
        let order = vec![SamplerKind::TopK, SamplerKind::Temperature];
        let expected =
            Sampling::default().temperature(0.6).top_k(20).penalty_window(128).order(order);
        assert_eq!(defaults.sampling, expected);
        assert_eq!(
            defaults.from_file.join(", "),
            "temperature 0.6, top_k 20, penalty_window 128, order top_k;temperature"
        );
        assert_eq!(defaults.ignored.len(), 2, "{:?}", defaults.ignored);
        assert!(defaults.ignored[0].starts_with("top_p is 7, expected"));
    }
}
