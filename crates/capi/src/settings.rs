//! Options by name: tables of names and of functions that set them from text.

use std::{fmt::Display, str::FromStr, time::Duration};

use crate::fault::Fault;

/// An option of a `T`.
pub(crate) struct Setting<T: 'static> {
    pub(crate) name: &'static str,
    /// Sets the value from its text.
    ///
    /// # Errors
    ///
    /// A clause that begins with *expected*.
    pub(crate) set: fn(&mut T, &str) -> Result<(), String>,
}

/// A [`Setting`] of a name, a function that reads the text, and what its value changes.
macro_rules! setting {
    ($name:literal, $read:expr, |$to:ident, $value:ident| $change:expr) => {
        $crate::settings::Setting {
            name: $name,
            set: |$to, text| {
                let $value = $read(text)?;
                $change;
                Ok(())
            },
        }
    };
}
pub(crate) use setting;

/// The names of settings.
pub(crate) fn names<T>(settings: &[Setting<T>]) -> Vec<&'static str> {
    settings.iter().map(|setting| setting.name).collect()
}

/// Sets the option with a name.
///
/// # Errors
///
/// There is no such option, or the value is not one of it.
pub(crate) fn set<T>(
    settings: &[Setting<T>],
    to: &mut T,
    name: &str,
    value: &str,
) -> Result<(), Fault> {
    let Some(setting) = settings.iter().find(|setting| setting.name == name) else {
        return Err(unknown("option", name, &names(settings)));
    };
    (setting.set)(to, value).map_err(|expected| refused(name, value, &expected))
}

/// The error of a value; `expected` is a clause that begins with *expected*.
pub(crate) fn refused(name: &str, value: &str, expected: &str) -> Fault {
    Fault::invalid(format_args!("option '{name}' is '{value}', {expected}"))
}

/// The error of a name that is none of `names`.
pub(crate) fn unknown(kind: &str, name: &str, names: &[&str]) -> Fault {
    let names = names.join(", ");
    Fault::invalid(format_args!("there is no {kind} '{name}', expected one of {names}"))
}

/// A value that parses.
///
/// # Errors
///
/// *Expected* and `expected`, if it does not.
pub(crate) fn parsed<V: FromStr>(value: &str, expected: impl Display) -> Result<V, String> {
    value.parse().map_err(|_| format!("expected {expected}"))
}

/// A text as it is.
pub(crate) fn word(value: &str) -> Result<String, String> {
    Ok(value.to_owned())
}

/// A whole number from 0.
pub(crate) fn whole<V: FromStr>(value: &str) -> Result<V, String> {
    parsed(value, "a whole number from 0")
}

/// A number of things.
pub(crate) fn count(value: &str) -> Result<usize, String> {
    whole(value)
}

/// Seconds as a time.
pub(crate) fn seconds(value: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(amount(value)?)
        .map_err(|_| "expected a number of seconds".to_owned())
}

/// A finite number from 0.
pub(crate) fn amount(value: &str) -> Result<f64, String> {
    let number = value.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "expected a number from 0".to_owned())
}

/// Yes or no.
pub(crate) fn flag(value: &str) -> Result<bool, String> {
    match value {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err("expected 1 or 0".to_owned()),
    }
}

/// A text, and a number after its last `=` (1 without).
pub(crate) fn scaled(value: &str) -> Result<(&str, f32), String> {
    match value.rsplit_once('=') {
        None => Ok((value, 1.0)),
        Some((name, scale)) => Ok((name, parsed(scale, "a name, or a name and = and a scale")?)),
    }
}
