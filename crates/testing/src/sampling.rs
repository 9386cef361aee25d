//! A value in its range and one out of it for each option of sampling: the tests of bodies, flags
//! and the commands of a chat share them.

use pelton_sampling::{OptionKind, Sampling, SamplingOption};

/// An option with two values.
pub struct Case {
    /// The option.
    pub option: &'static SamplingOption,
    /// A value in its range that is not the default.
    pub good: &'static str,
    /// A value out of its range.
    pub bad: String,
    /// The sentence about that value.
    pub sentence: String,
}

impl Case {
    /// [`Sampling::default`] with the good value.
    pub fn expected(&self) -> Sampling {
        let mut sampling = Sampling::default();
        self.option.parse(&mut sampling, &[self.good]).expect("a value in its range");
        assert_ne!(sampling, Sampling::default(), "{} is the default", self.option.name);
        sampling
    }

    /// Whether the values are numbers.
    pub fn is_number(&self) -> bool {
        !matches!(self.option.kind, OptionKind::Texts(..) | OptionKind::Samplers(_))
    }
}

/// A case for each option.
pub fn cases() -> Vec<Case> {
    let case = |option: &'static SamplingOption| {
        let (good, bad) = match option.kind {
            // more than a number of 32 bits can be
            OptionKind::Number(..) => ("0.5", "1e+39".to_owned()),
            OptionKind::Integer(..) => ("3", "-2".to_owned()),
            OptionKind::Version(_, most) => ("1", (u32::from(most) + 1).to_string()),
            OptionKind::Texts(_, _, bytes) => ("ab", "x".repeat(bytes + 1)),
            OptionKind::Samplers(_) => ("xtc", "xtc,xtc".to_owned()),
            OptionKind::Seed(_) => ("7", "1.5".to_owned()),
        };
        let sentence = option.parse(&mut Sampling::default(), &[&bad]);
        Case { option, good, sentence: sentence.expect_err("a value out of its range"), bad }
    };
    Sampling::OPTIONS.iter().map(case).collect()
}
