//! Values of load options: from text, and in words.

use std::{str::FromStr, time::Duration};

use super::{
    options::{DraftSource, KvMemory, LoadOptions, Lora},
    table::{LoadKind, LoadOption},
};
use crate::api::source::ModelSource;

impl LoadOption {
    /// The option with this name in the C API.
    pub fn find(name: &str) -> Option<&'static Self> {
        LoadOptions::OPTIONS.iter().find(|option| option.name == name)
    }

    /// The option with this keyword argument in Python.
    pub fn find_python(name: &str) -> Option<&'static Self> {
        LoadOptions::OPTIONS.iter().find(|option| option.python == name)
    }

    /// The values that it can have, in words.
    pub fn expected(&self) -> String {
        match self.kind {
            LoadKind::Switch(_) => "true or false".to_owned(),
            LoadKind::Integer(least, usize::MAX, _) => format!("a whole number from {least}"),
            LoadKind::Integer(least, most, _) => format!("a whole number from {least} to {most}"),
            LoadKind::Bytes(..) => "bytes such as 800M or 2G".to_owned(),
            LoadKind::Time(_) => "seconds such as 0.5, or milliseconds such as 500ms".to_owned(),
            LoadKind::Words(words, _) => match words.split_last() {
                Some((last, [])) => (*last).to_owned(),
                Some((last, others)) => format!("{} or {last}", others.join(", ")),
                None => String::new(),
            },
            LoadKind::Text(words, _) | LoadKind::List(words, _) => words.to_owned(),
        }
    }

    /// Sets the option to its value in words; of a list, adds the value. Whether the text is one
    /// does not depend on the options.
    ///
    /// # Errors
    ///
    /// A clause that says what was expected, such as *expected auto or a number*. The caller names
    /// the option as its users do, and says what was found.
    pub fn set(&self, options: &mut LoadOptions, text: &str) -> Result<(), String> {
        let wrong = || format!("expected {}", self.expected());
        match self.kind {
            LoadKind::Switch(change) => match text {
                "1" | "true" => change(options, true),
                "0" | "false" => change(options, false),
                _ => return Err(wrong()),
            },
            LoadKind::Integer(least, most, change) => {
                let number = text.parse().ok().filter(|number| (least..=most).contains(number));
                change(options, number.ok_or_else(wrong)?);
            }
            LoadKind::Bytes(least, change) => {
                let number = bytes(text).filter(|&number| number >= least);
                change(options, number.ok_or_else(wrong)?);
            }
            LoadKind::Time(change) => change(options, time(text).ok_or_else(wrong)?),
            LoadKind::Words(_, change) | LoadKind::Text(_, change) | LoadKind::List(_, change) => {
                change(options, text)?;
            }
        }
        Ok(())
    }
}

/// Parses bytes with the suffix K, M or G (powers of 1,024), or none.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses seconds, or milliseconds with the suffix ms.
fn time(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds = number.parse::<f64>().ok()? * unit;
    // whole nanoseconds of decimal fractions
    Duration::try_from_secs_f64((seconds * 1e9).round() / 1e9).ok()
}

impl KvMemory {
    /// The values that a text can have.
    pub(super) const EXPECTED: &'static str =
        "auto, bytes such as 800M or 2G, or a share of the free memory such as 50%";
}

impl FromStr for KvMemory {
    type Err = String;

    /// Parses `auto`, bytes with the suffix K, M or G (powers of 1,024), or a percentage.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected {}", Self::EXPECTED);
        if text == "auto" {
            return Ok(Self::Auto);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f32 = percent.parse().map_err(|_| wrong())?;
            return match percent > 0.0 && percent <= 100.0 {
                true => Ok(Self::ShareOfFree(percent / 100.0)),
                false => Err("expected a percentage above 0, up to 100".to_owned()),
            };
        }
        bytes(text).filter(|&bytes| bytes > 0).map(Self::Bytes).ok_or_else(wrong)
    }
}

impl FromStr for Lora {
    type Err = String;

    /// Parses the path of an adapter, with a scale after the last `=` if there is one.
    fn from_str(text: &str) -> Result<Self, String> {
        let (path, scale) = match text.rsplit_once('=') {
            Some((path, scale)) => match scale.parse::<f32>() {
                Ok(scale) if scale.is_finite() => (path, scale),
                _ => return Err("expected a number after =".to_owned()),
            },
            None => (text, 1.0),
        };
        match path {
            "" => Err("expected a path".to_owned()),
            path => Ok(Self { path: path.into(), scale }),
        }
    }
}

impl FromStr for DraftSource {
    type Err = String;

    /// Parses `mtp` for the head of the model's file, `built-in`, or the path of a model.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("expected a model, built-in or mtp".to_owned()),
            "mtp" => Ok(Self::Head),
            word => Ok(Self::Model(ModelSource::built_in(word).unwrap_or_else(|| word.into()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!("auto".parse(), Ok(KvMemory::Auto));
        assert_eq!("1000".parse(), Ok(KvMemory::Bytes(1000)));
        assert_eq!("3k".parse(), Ok(KvMemory::Bytes(3072)));
        assert_eq!("800M".parse(), Ok(KvMemory::Bytes(838_860_800)));
        assert_eq!("2G".parse(), Ok(KvMemory::Bytes(2_147_483_648)));
        assert_eq!("50%".parse(), Ok(KvMemory::ShareOfFree(0.5)));
        assert_eq!("12.5%".parse(), Ok(KvMemory::ShareOfFree(0.125)));
        let bad = [
            "",
            "G",
            "0",
            "0%",
            "101%",
            "nan%",
            "-5%",
            "%",
            "-1",
            "1.5G",
            "1GB",
            "2 G",
            "2Ω",
            "18446744073709551616",
            "18446744073709551615K",
        ];
        for text in bad {
            let sentence = text.parse::<KvMemory>().unwrap_err();
            assert!(sentence.starts_with("expected "), "{text}: {sentence}");
        }
    }

    #[test]
    fn times() {
        let ms = |ms| Some(Duration::from_millis(ms));
        for (text, expected) in [
            ("0.5", ms(500)),
            ("0.1", ms(100)),
            ("2s", ms(2000)),
            ("25ms", ms(25)),
            ("0", ms(0)),
            ("-1", None),
            ("1e300", None),
            ("nan", None),
            ("inf", None),
            ("", None),
            ("ms", None),
            ("1 s", None),
        ] {
            assert_eq!(time(text), expected, "{text}");
        }
    }

    #[test]
    fn adapters_and_drafts() {
        let lora = |path: &str, scale| Ok(Lora { path: path.into(), scale });
        assert_eq!("a.gguf".parse(), lora("a.gguf", 1.0));
        assert_eq!("a=b.gguf=-0.5".parse(), lora("a=b.gguf", -0.5));
        for text in ["", "=1", "a=", "a=nan", "a=b"] {
            assert!(text.parse::<Lora>().unwrap_err().starts_with("expected "), "{text}");
        }
        assert_eq!("mtp".parse(), Ok(DraftSource::Head));
        assert_eq!("built-in".parse(), Ok(DraftSource::Model(ModelSource::BuiltIn)));
        assert_eq!("x.gguf".parse(), Ok(DraftSource::Model("x.gguf".into())));
        assert!("".parse::<DraftSource>().is_err());
    }

    /// Rows have names of their own, their defaults are those of a load, and each
    /// says what it expects.
    #[test]
    fn the_table_is_sound() {
        let options = LoadOptions::OPTIONS;
        for (at, option) in options.iter().enumerate() {
            let name = option.name;
            for other in &options[..at] {
                assert!(other.name != name && other.python != option.python, "{name} twice");
                assert!(option.flag.is_none() || option.flag != other.flag, "{name}: flag twice");
            }
            assert_eq!(LoadOption::find(name).unwrap().name, name);
            assert_eq!(LoadOption::find_python(option.python).unwrap().name, name);
            assert!(!option.help.ends_with('.') && !option.help.is_empty(), "{name}");
            if let Some(default) = option.default {
                let mut set = LoadOptions::default();
                option.set(&mut set, default).unwrap();
                assert_eq!(set, LoadOptions::default(), "{name}: {default} is no default");
            }
            let (good, bad) = match option.kind {
                LoadKind::Switch(_) => ("1", "yes"),
                LoadKind::Integer(..) => ("77", "1.5"),
                LoadKind::Bytes(..) => ("3G", "3GB"),
                LoadKind::Time(_) => ("3ms", "-1"),
                LoadKind::Words(words, _) => {
                    assert!(
                        words.iter().all(|w| option.set(&mut LoadOptions::default(), w).is_ok())
                    );
                    let others = words.iter().filter(|word| Some(**word) != option.default);
                    (*others.clone().next().unwrap(), "?")
                }
                LoadKind::Text(..) | LoadKind::List(..) => match name {
                    "lora" => ("a.gguf=0.5", "a=b"),
                    "quantize" => ("q4_k_m", "q9"),
                    "kv" => ("q8_0/q4_0", "f17"),
                    "kv_memory" => ("50%", "101%"),
                    "kv_share" | "effort" => ("0.5", "0"),
                    "host_experts" | "host_ffn" => ("auto", "all"),
                    "split" => ("3,2", "3;2"),
                    "draft" => ("mtp", ""),
                    "mmproj" => ("mmproj.gguf", ""),
                    "override_kv" => ("a.b=int:1", "a.b=1"),
                    "rope_scale" | "rope_freq_base" => ("2.5", "-1"),
                    _ => panic!("{name} is new: give it a value here"),
                },
            };
            let mut set = LoadOptions::default();
            option.set(&mut set, good).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_ne!(set, LoadOptions::default(), "{name} changes nothing");
            let wrong = option.set(&mut set, bad).unwrap_err();
            assert!(wrong.starts_with("expected "), "{name}: {wrong}");
            if matches!(option.kind, LoadKind::Words(..)) {
                assert_eq!(wrong, format!("expected {}", option.expected()));
            }
        }
    }
}
