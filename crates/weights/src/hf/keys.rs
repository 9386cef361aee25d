//! Rules that turn keys of `config.json` into GGUF keys.

use super::config::Config;
use super::rope::Rope;
use crate::metadata::Entries;

pub(super) use crate::value::array;
use crate::{Error, Value, ValueType};

/// A GGUF key, without the architecture's prefix, and its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    name: &'static str,
    from: From,
    required: bool,
}

/// Computes a value; `None` omits the key.
pub(super) type Derive = fn(&Config, &Rope) -> Result<Option<Value>, Error>;

/// Source of a key's value. Lists are names of which the first that is present counts.
#[derive(Clone, Copy, Debug)]
enum From {
    Size(&'static [&'static str]),
    Number(&'static [&'static str]),
    Flag(&'static [&'static str]),
    Text(&'static [&'static str]),
    FixedSize(u32),
    FixedFlag(bool),
    Derived(Derive),
}

/// A required integer.
pub(super) const fn size(name: &'static str, from: &'static [&'static str]) -> Key {
    Key { name, from: From::Size(from), required: true }
}

/// A required number.
pub(super) const fn number(name: &'static str, from: &'static [&'static str]) -> Key {
    Key { name, from: From::Number(from), required: true }
}

/// A boolean.
pub(super) const fn flag(name: &'static str, from: &'static [&'static str]) -> Key {
    Key { name, from: From::Flag(from), required: true }
}

/// A string.
pub(super) const fn text(name: &'static str, from: &'static [&'static str]) -> Key {
    Key { name, from: From::Text(from), required: true }
}

/// An integer that is the same for all models.
pub(super) const fn fixed_size(name: &'static str, value: u32) -> Key {
    Key { name, from: From::FixedSize(value), required: true }
}

/// A boolean that is the same for all models.
pub(super) const fn fixed_flag(name: &'static str, value: bool) -> Key {
    Key { name, from: From::FixedFlag(value), required: true }
}

/// A computed value.
pub(super) const fn derived(name: &'static str, with: Derive) -> Key {
    Key { name, from: From::Derived(with), required: false }
}

/// A check of the configuration, which gives no key.
pub(super) const fn check(with: Derive) -> Key {
    derived("", with)
}

impl Key {
    /// The same key, omitted where the configuration has no value.
    pub(super) const fn optional(self) -> Self {
        Self { required: false, ..self }
    }

    fn value(&self, config: &Config, rope: &Rope) -> Result<Option<Value>, Error> {
        let all = &config.all;
        let (value, names, expected): (_, &[&str], _) = match self.from {
            From::Size(names) => {
                (all.size(names)?.map(|size| Value::from(size as u32)), names, "an integer")
            }
            From::Number(names) => {
                (all.number(names)?.map(|number| Value::from(number as f32)), names, "a number")
            }
            From::Flag(names) => (all.flag(names)?.map(Value::from), names, "true or false"),
            From::Text(names) => (all.text(names)?.map(Value::from), names, "a string"),
            From::FixedSize(value) => (Some(value.into()), &[], ""),
            From::FixedFlag(value) => (Some(value.into()), &[], ""),
            From::Derived(derive) => return derive(config, rope),
        };
        match value {
            None if self.required => {
                Err(all.missing(names.first().copied().unwrap_or_default(), expected))
            }
            value => Ok(value),
        }
    }
}

/// Metadata in the order of first insertion; a later value of a key replaces an earlier one.
#[derive(Debug, Default)]
pub(super) struct Out {
    keys: Vec<(String, Value)>,
}

impl Out {
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.keys.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key.to_owned(), value)),
        }
    }

    /// Applies rules for the architecture with this name in GGUF.
    pub(super) fn apply(
        &mut self,
        architecture: &str,
        rules: &[Key],
        config: &Config,
        rope: &Rope,
    ) -> Result<(), Error> {
        for rule in rules {
            if let Some(value) = rule.value(config, rope)? {
                self.set(&format!("{architecture}.{}", rule.name), value);
            }
        }
        Ok(())
    }

    pub(super) fn entries(self) -> Entries {
        let mut entries = Entries::default();
        for (key, value) in self.keys {
            entries.insert(&key, value);
        }
        entries
    }
}

/// An array of booleans.
pub(super) fn flags(values: impl IntoIterator<Item = bool>) -> Value {
    array(ValueType::Bool, values)
}

/// An array of integers.
pub(super) fn sizes(values: impl IntoIterator<Item = usize>) -> Value {
    array(ValueType::U32, values.into_iter().map(|value| value as u32))
}
