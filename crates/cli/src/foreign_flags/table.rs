//! The form of a table of options.

use super::convert::Convert;

/// A word that stands for a part of `--clip-timestamps`.
pub(super) const OFFSET: &str = "--clip-timestamps-offset";
pub(super) const DURATION: &str = "--clip-timestamps-duration";
/// Words for the types of keys and of values alone, which become one option.
pub(super) const KV_KEYS: &str = "--kv-keys";
pub(super) const KV_VALUES: &str = "--kv-values";

/// The values that follow an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Value,
    /// One if the next word is `on`, `off`, `auto`, or another word for a truth value.
    Switch,
    /// Two values.
    Two,
    /// All words up to the next option.
    List,
}

/// The fate of an option.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    /// An option of Pelton with the same value.
    Is(&'static str),
    /// An option of Pelton without a value, or with a fixed one.
    Flag(&'static str),
    /// An option of Pelton with a converted value.
    By(Convert, &'static str),
    /// The model: an argument, or `--model` where a command has it.
    Model,
    /// This model.
    Names(&'static str),
    /// An argument after the model.
    Argument,
    /// No effect: Pelton does this by itself, or has no use for it. The reason, for the pages.
    Noted(&'static str),
    /// An error with this hint.
    Refused(&'static str),
}

/// An option of another program.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// The spellings, with spaces between them.
    pub(super) names: &'static str,
    pub(super) takes: Takes,
    pub(super) fate: Fate,
    /// The environment variable that stands for the option, or nothing.
    pub(super) variable: &'static str,
}

impl Row {
    pub(super) const fn new(names: &'static str, takes: Takes, fate: Fate) -> Self {
        Self { names, takes, fate, variable: "" }
    }

    /// The row with an environment variable.
    pub(super) const fn env(mut self, variable: &'static str) -> Self {
        self.variable = variable;
        self
    }

    pub(super) fn spellings(&self) -> impl Iterator<Item = &'static str> {
        self.names.split(' ')
    }

    /// Whether the option names the model.
    pub(super) fn names_model(&self) -> bool {
        matches!(self.fate, Fate::Model | Fate::Names(_) | Fate::By(_, ""))
            && self.variable.contains("MODEL") | self.variable.contains("HF_")
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.spellings().any(|spelling| spelling == name)
    }
}

/// An option with the same value.
pub(super) const fn is(names: &'static str, own: &'static str) -> Row {
    Row::new(names, Takes::Value, Fate::Is(own))
}

/// An option without a value.
pub(super) const fn flag(names: &'static str, own: &'static str) -> Row {
    Row::new(names, Takes::Nothing, Fate::Flag(own))
}

/// An option with a converted value.
pub(super) const fn by(names: &'static str, convert: Convert, own: &'static str) -> Row {
    Row::new(names, Takes::Value, Fate::By(convert, own))
}

/// An option with a value that changes nothing.
pub(super) const fn noted(names: &'static str, why: &'static str) -> Row {
    Row::new(names, Takes::Value, Fate::Noted(why))
}

/// A flag that changes nothing.
pub(super) const fn noted_flag(names: &'static str, why: &'static str) -> Row {
    Row::new(names, Takes::Nothing, Fate::Noted(why))
}

/// An option with a value that Pelton lacks.
pub(super) const fn refused(names: &'static str, hint: &'static str) -> Row {
    Row::new(names, Takes::Value, Fate::Refused(hint))
}

/// A flag that Pelton lacks.
pub(super) const fn refused_flag(names: &'static str, hint: &'static str) -> Row {
    Row::new(names, Takes::Nothing, Fate::Refused(hint))
}

/// A program with its options.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// The commands of Pelton that take its options.
    pub(super) commands: &'static [&'static str],
    /// Parts of the table, the special one first.
    pub(super) tables: &'static [&'static [Row]],
}
