//! The values of a body, counted while its bytes arrive.

use super::json::{COST_MAX, KEY, OBJECT, VALUE, too_many};
use crate::error::ApiError;

/// A count of the values in the bytes so far. It never exceeds the cost that the parser finds, so
/// that a body that parses is never refused here.
#[derive(Debug, Default)]
pub(super) struct ValueCount {
    cost: usize,
    in_string: bool,
    /// Whether the byte before was a backslash in a string.
    escaped: bool,
}

impl ValueCount {
    /// Adds the next bytes of the body.
    ///
    /// # Errors
    ///
    /// If the body has more values than one may have.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), ApiError> {
        for &byte in bytes {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                // each separates two values
                b',' => self.cost += VALUE.min(KEY),
                b'{' => self.cost += OBJECT,
                _ => {}
            }
        }
        match self.cost <= COST_MAX {
            true => Ok(()),
            false => Err(ApiError::invalid(too_many())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings_in_any_chunks() {
        let list =
            |element: &str, count: usize| format!("[{}0]", format!("{element},").repeat(count));
        let text = format!("[\"{}\"]", r#"a\",b,{\\"#.repeat(1_000_000));
        for (body, is_refused) in [
            (list("[]", 10_000_000), true),
            (list("{}", 1_000_000), true),
            (list("123456", 700_000), false),
            (text, false),
        ] {
            for chunk in [7, 1 << 14, body.len()] {
                let mut count = ValueCount::default();
                let outcome = body.as_bytes().chunks(chunk).try_for_each(|part| count.add(part));
                assert_eq!(outcome.is_err(), is_refused, "{} in {chunk}", &body[..20]);
            }
        }
    }
}
