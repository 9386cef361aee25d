//! Limits of values that a template makes.

use minijinja::{
    Error, ErrorKind,
    value::{Value, ValueKind},
};

/// The greatest width that a template pads a text to, in characters.
pub(super) const WIDTH: usize = 9999;

/// The greatest depth of a value.
pub(super) const DEPTH: usize = 128;

/// The greatest number of values within one that is printed.
const VALUES: usize = 4 << 20;

/// Refuses a value whose printing would recurse without an end, such as a namespace within itself.
pub(super) fn check_depth(value: &Value) -> Result<(), Error> {
    let holds = |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::Map);
    if !holds(value) {
        return Ok(());
    }
    let mut left = vec![(value.clone(), 0)];
    let mut count = 0;
    while let Some((value, depth)) = left.pop() {
        count += 1;
        if depth > DEPTH || count > VALUES {
            return Err(Error::new(ErrorKind::InvalidOperation, "the value is nested too deeply"));
        }
        for key in value.try_iter()? {
            let inner = match value.kind() {
                ValueKind::Map => value.get_item(&key)?,
                _ => key,
            };
            if holds(&inner) {
                left.push((inner, depth + 1));
            }
        }
    }
    Ok(())
}

/// Refuses widths and precisions of more than four digits in a format.
pub(super) fn check_widths(format: &str) -> Result<(), Error> {
    match format.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 4) {
        true => Err(Error::new(ErrorKind::InvalidOperation, "the width of a text is too large")),
        false => Ok(()),
    }
}
