//! Limits of values that a template makes.

use minijinja::{Error, ErrorKind};

/// The greatest width that a template pads a text to, in characters.
pub(super) const WIDTH: usize = 9999;

/// The greatest depth of a value.
pub(super) const DEPTH: usize = 128;

/// Refuses widths and precisions of more than four digits in a format.
pub(super) fn check_widths(format: &str) -> Result<(), Error> {
    match format.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 4) {
        true => Err(Error::new(ErrorKind::InvalidOperation, "the width of a text is too large")),
        false => Ok(()),
    }
}
