//! Values of sampling options: from numbers and text, to text, and checks of their ranges.

use std::fmt::Display;

use crate::{
    options::{OptionKind, Sampling, SamplingOption},
    order::SamplerKind,
};

impl Sampling {
    /// Checks that every value is in its range.
    ///
    /// # Errors
    ///
    /// A sentence that names the first value out of its range, and the range.
    pub fn check(&self) -> Result<(), String> {
        Self::OPTIONS.iter().try_for_each(|option| option.check(self))
    }
}

impl SamplingOption {
    /// The option with a name, of any API or of a flag, with `-` or `_` between its words.
    pub fn find(name: &str) -> Option<&'static Self> {
        let name = name.replace('-', "_");
        let has = |option: &&Self| {
            option.keys().any(|key| key == name) || option.flag.replace('-', "_") == name
        };
        Sampling::OPTIONS.iter().find(has)
    }

    /// Its names in HTTP bodies, that of the field first.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        let llama_cpp = (self.llama_cpp != self.name).then_some(self.llama_cpp);
        [self.name].into_iter().chain(llama_cpp).chain(self.aliases.iter().copied())
    }

    /// The values that it can have, in words.
    pub fn expected(&self) -> String {
        match self.kind {
            OptionKind::Number(_, f32::MIN, f32::MAX) => "a number".to_owned(),
            OptionKind::Number(_, f32::MIN, most) => format!("a number up to {most}"),
            OptionKind::Number(_, least, f32::MAX) => format!("a number from {least}"),
            OptionKind::Number(_, least, most) => format!("a number from {least} to {most}"),
            OptionKind::Integer(_, most, _) => format!("an integer from 0 to {most}"),
            OptionKind::Version(_, most) => format!("an integer from 0 to {most}"),
            OptionKind::Texts(_, count, bytes) => {
                format!("at most {count} strings of 1 to {bytes} bytes each")
            }
            OptionKind::Samplers(_) => "names of samplers, each at most once".to_owned(),
            OptionKind::Seed(_) => "an integer of 64 bits".to_owned(),
        }
    }

    /// The sentence about a value out of its range. `name` is how the caller wrote the option.
    pub fn refusal(&self, name: &str, found: &dyn Display) -> String {
        format!("{name} is {found}, expected {}", self.expected())
    }

    /// Sets a number. Returns whether the option is one, and the number in its range.
    pub fn set_number(&self, sampling: &mut Sampling, number: f64) -> bool {
        let OptionKind::Number(field, least, most) = self.kind else { return false };
        let number = number as f32;
        let is_valid = (least..=most).contains(&number);
        if is_valid {
            *(field.get_mut)(sampling) = number;
        }
        is_valid
    }

    /// Sets an integer, of which -1 can have a meaning of its own. Returns whether the option is
    /// one, and the integer in its range.
    pub fn set_integer(&self, sampling: &mut Sampling, integer: i64) -> bool {
        match self.kind {
            OptionKind::Integer(field, most, of_minus_one) => {
                let value = match integer {
                    -1 => Some(of_minus_one),
                    other => usize::try_from(other).ok().filter(|&value| value <= most),
                };
                value.map(|value| *(field.get_mut)(sampling) = value).is_some()
            }
            OptionKind::Version(field, most) => {
                let value = u8::try_from(integer).ok().filter(|&value| value <= most);
                value.map(|value| *(field.get_mut)(sampling) = value).is_some()
            }
            // -1 is a random one
            OptionKind::Seed(field) => {
                *(field.get_mut)(sampling) = (integer != -1).then_some(integer.cast_unsigned());
                true
            }
            OptionKind::Number(..) | OptionKind::Texts(..) | OptionKind::Samplers(_) => false,
        }
    }

    /// Sets the option to its value in words, as a flag has it. A list has several texts;
    /// the last one counts for other options.
    ///
    /// # Errors
    ///
    /// A sentence with what was found, and what was expected. A list may have changed then.
    pub fn parse<T: AsRef<str>>(&self, sampling: &mut Sampling, texts: &[T]) -> Result<(), String> {
        let texts = texts.iter().map(AsRef::as_ref);
        match self.kind {
            OptionKind::Texts(field, ..) => {
                *(field.get_mut)(sampling) = texts.map(unescaped).collect::<Result<_, _>>()?;
                return self.check(sampling);
            }
            OptionKind::Samplers(field) => {
                let names = texts.flat_map(|text| text.split(',')).map(str::trim);
                let names = names.filter(|name| !name.is_empty());
                *(field.get_mut)(sampling) = names.map(str::parse).collect::<Result<_, _>>()?;
                return self.check(sampling);
            }
            OptionKind::Number(..)
            | OptionKind::Integer(..)
            | OptionKind::Version(..)
            | OptionKind::Seed(_) => {}
        }
        let Some(text) = texts.last() else { return Ok(()) };
        let number = text.parse::<f64>().ok();
        let is_valid = match self.kind {
            OptionKind::Number(..) => {
                number.is_some_and(|number| self.set_number(sampling, number))
            }
            OptionKind::Seed(field) if let Ok(seed) = text.parse::<u64>() => {
                *(field.get_mut)(sampling) = Some(seed);
                true
            }
            _ => text.parse::<i64>().is_ok_and(|integer| self.set_integer(sampling, integer)),
        };
        match (is_valid, number) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(self.refusal(self.name, &text)),
            (false, None) => Err(self.refusal(self.name, &format!("{text:?}"))),
        }
    }

    /// The value in words, as [`parse`](Self::parse) reads it: one text, of a list of strings one
    /// for each, of a random seed none.
    pub fn show(&self, sampling: &Sampling) -> Vec<String> {
        match self.kind {
            OptionKind::Number(field, ..) => vec![(field.get)(sampling).to_string()],
            OptionKind::Integer(field, ..) => vec![(field.get)(sampling).to_string()],
            OptionKind::Version(field, _) => vec![(field.get)(sampling).to_string()],
            OptionKind::Texts(field, ..) => {
                (field.get)(sampling).iter().map(|text| escaped(text)).collect()
            }
            OptionKind::Samplers(field) => {
                let names: Vec<&str> =
                    (field.get)(sampling).iter().map(|kind| kind.name()).collect();
                vec![names.join(",")]
            }
            OptionKind::Seed(field) => (field.get)(sampling).iter().map(u64::to_string).collect(),
        }
    }

    /// Copies the value.
    pub fn copy(&self, from: &Sampling, to: &mut Sampling) {
        match self.kind {
            OptionKind::Number(field, ..) => *(field.get_mut)(to) = *(field.get)(from),
            OptionKind::Integer(field, ..) => *(field.get_mut)(to) = *(field.get)(from),
            OptionKind::Version(field, _) => *(field.get_mut)(to) = *(field.get)(from),
            OptionKind::Texts(field, ..) => (field.get_mut)(to).clone_from((field.get)(from)),
            OptionKind::Samplers(field) => (field.get_mut)(to).clone_from((field.get)(from)),
            OptionKind::Seed(field) => *(field.get_mut)(to) = *(field.get)(from),
        }
    }

    /// Checks that the value is in its range.
    ///
    /// # Errors
    ///
    /// A sentence that names the option, what was found and what was expected.
    pub fn check(&self, sampling: &Sampling) -> Result<(), String> {
        let refuse = |found: &dyn Display| Err(self.refusal(self.name, found));
        match self.kind {
            OptionKind::Number(field, least, most) => match (field.get)(sampling) {
                value if (least..=most).contains(value) => Ok(()),
                value => refuse(value),
            },
            OptionKind::Integer(field, most, _) => match (field.get)(sampling) {
                value if *value <= most => Ok(()),
                value => refuse(value),
            },
            OptionKind::Version(field, most) => match (field.get)(sampling) {
                value if *value <= most => Ok(()),
                value => refuse(value),
            },
            OptionKind::Texts(field, count, bytes) => {
                self.check_texts((field.get)(sampling), count, bytes)
            }
            OptionKind::Samplers(field) => check_order((field.get)(sampling)),
            OptionKind::Seed(_) => Ok(()),
        }
    }

    fn check_texts(&self, texts: &[String], most: usize, bytes: usize) -> Result<(), String> {
        let (name, found) = (self.name, texts.len());
        if found > most {
            return Err(format!("{name} has {found} strings, expected at most {most}"));
        }
        match texts.iter().map(String::len).find(|len| !(1..=bytes).contains(len)) {
            None => Ok(()),
            Some(found) => {
                Err(format!("a string of {name} has {found} bytes, expected 1 to {bytes}"))
            }
        }
    }
}

fn check_order(order: &[SamplerKind]) -> Result<(), String> {
    let twice = order.iter().enumerate().find(|(at, kind)| order[..*at].contains(kind));
    match twice {
        None => Ok(()),
        Some((_, kind)) => {
            Err(format!("the order of samplers names {kind} twice, expected it once"))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_by_name() {
        let good = Sampling::default;
        assert_eq!(good().check(), Ok(()));
        assert_eq!(Sampling::greedy().check(), Ok(()));
        let bad = [
            ("temperature", good().temperature(-1.0)),
            ("temperature", good().temperature(f32::INFINITY)),
            ("top_p", good().top_p(1.1)),
            ("top_p", good().top_p(f32::NAN)),
            ("min_p", good().min_p(-0.1)),
            ("repetition_penalty", good().repetition_penalty(0.0)),
            ("repetition_penalty", good().repetition_penalty(f32::NAN)),
            ("presence_penalty", good().presence_penalty(100.5)),
            ("frequency_penalty", good().frequency_penalty(f32::NEG_INFINITY)),
            ("penalty_window", good().penalty_window(4097)),
            ("typical_p", good().typical_p(1.5)),
            ("xtc_threshold", good().xtc_threshold(-0.5)),
            ("dynatemp_range", good().dynatemp_range(f32::NAN)),
            ("dry_base", good().dry_base(-1.0)),
            ("mirostat", good().mirostat(3)),
            ("mirostat_eta", good().mirostat_eta(f32::INFINITY)),
            ("adaptive_target", good().adaptive_target(1.5)),
            ("adaptive_decay", good().adaptive_decay(1.0)),
        ];
        for (name, sampling) in bad {
            let sentence = sampling.check().unwrap_err();
            assert!(sentence.starts_with(&format!("{name} is ")), "{sentence}");
        }
        let breakers = good().dry_breakers(vec![String::new()]).check().unwrap_err();
        assert_eq!(breakers, "a string of dry_breakers has 0 bytes, expected 1 to 40");
        let twice = good().order(vec![SamplerKind::TopK; 2]).check().unwrap_err();
        assert_eq!(twice, "the order of samplers names top_k twice, expected it once");
        let ends = good()
            .presence_penalty(-100.0)
            .frequency_penalty(100.0)
            .penalty_window(4096)
            .repetition_penalty(0.01);
        assert_eq!(ends.check(), Ok(()));
    }

    /// The defaults and the ends of the ranges, in words and back.
    #[test]
    fn values_are_shown_as_they_are_parsed() {
        let mut texts = vec![(Sampling::default(), Vec::new())];
        for option in Sampling::OPTIONS {
            let ends = match option.kind {
                OptionKind::Number(_, least, most) => vec![least.to_string(), most.to_string()],
                OptionKind::Integer(_, most, _) => vec!["0".to_owned(), most.to_string()],
                OptionKind::Version(_, most) => vec!["0".to_owned(), most.to_string()],
                OptionKind::Texts(..) => ["a\\n\\t\\\\b", "*"].map(str::to_owned).to_vec(),
                OptionKind::Samplers(_) => {
                    ["temperature,top_k", "", "xtc"].map(str::to_owned).to_vec()
                }
                OptionKind::Seed(_) => vec!["0".to_owned(), u64::MAX.to_string()],
            };
            for end in ends {
                let mut sampling = Sampling::default();
                option.parse(&mut sampling, &[&end]).unwrap();
                assert_eq!(option.show(&sampling), [&*end], "{}", option.name);
                texts.push((sampling, vec![option.name]));
            }
        }
        for (sampling, changed) in texts {
            assert_eq!(sampling.check(), Ok(()));
            let mut parsed = Sampling::greedy().min_keep(7).order(vec![]);
            for option in Sampling::OPTIONS {
                option.parse(&mut parsed, &option.show(&sampling)).unwrap();
            }
            assert_eq!(parsed, sampling, "{changed:?}");
            let mut copied = Sampling::greedy().min_keep(7).order(vec![]);
            Sampling::OPTIONS.iter().for_each(|option| option.copy(&sampling, &mut copied));
            assert_eq!(copied, sampling, "{changed:?}");
        }
    }

    #[test]
    fn texts_that_are_refused() {
        for (name, text, sentence) in [
            ("temperature", "hot", "temperature is \"hot\", expected a number from 0"),
            ("temperature", "-0.5", "temperature is -0.5, expected a number from 0"),
            ("top-p", "7", "top_p is 7, expected a number from 0 to 1"),
            ("repeat_penalty", "0", "repetition_penalty is 0, expected a number from 0.01 to 100"),
            ("adaptive_target", "1.5", "adaptive_target is 1.5, expected a number up to 1"),
            ("top_n_sigma", "nan", "top_n_sigma is nan, expected a number"),
            ("top_k", "-2", "top_k is -2, expected an integer from 0 to 4294967295"),
            ("top_k", "1.5", "top_k is 1.5, expected an integer from 0 to 4294967295"),
            ("repeat-last-n", "5000", "penalty_window is 5000, expected an integer from 0 to 4096"),
            ("mirostat", "-1", "mirostat is -1, expected an integer from 0 to 2"),
            ("seed", "1.5", "seed is 1.5, expected an integer of 64 bits"),
            ("dry-breaker", "", "a string of dry_breakers has 0 bytes, expected 1 to 40"),
        ] {
            let option = SamplingOption::find(name).unwrap();
            let refused = option.parse(&mut Sampling::default(), &[text]).unwrap_err();
            assert_eq!(refused, sentence);
        }
        let order = SamplingOption::find("samplers").unwrap();
        let refused = order.parse(&mut Sampling::default(), &["top_k,most"]).unwrap_err();
        assert!(refused.starts_with("'most' is no sampler, expected one of"), "{refused}");
        assert!(SamplingOption::find("warmth").is_none());
    }

    /// llama.cpp's -1.
    #[test]
    fn minus_one_is_all() {
        let set = |name: &str| {
            let mut sampling = Sampling::default().seed(5);
            SamplingOption::find(name).unwrap().parse(&mut sampling, &["-1"]).unwrap();
            assert_eq!(sampling.check(), Ok(()));
            sampling
        };
        assert_eq!(set("top_k").top_k, 0);
        assert_eq!(set("repeat_last_n").penalty_window, 4096);
        assert_eq!(set("dry_penalty_last_n").dry_window, u32::MAX as usize);
        assert_eq!(set("seed").seed, None);
    }

    #[test]
    fn each_name_is_of_one_option() {
        let mut names: Vec<String> = Sampling::OPTIONS
            .iter()
            .flat_map(|option| {
                let flag = option.flag.replace('-', "_");
                let mut names: Vec<String> =
                    option.keys().map(str::to_owned).chain([flag]).collect();
                names.sort();
                names.dedup();
                names
            })
            .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }
}
