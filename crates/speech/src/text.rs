//! Python's rules of texts, which OpenAI's code relies on.

/// Whether Python's `str.strip` removes a character: Unicode's white space and the four separators
/// of ASCII.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// A text without white space at its ends.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// The last `n` values as `values[-n:]` of Python: all for 0, all but the first `-n` below 0.
pub(crate) fn last<T>(values: &[T], n: isize) -> &[T] {
    let skip = match n {
        ..=0 => n.unsigned_abs().min(values.len()),
        _ => values.len().saturating_sub(n.unsigned_abs()),
    };
    &values[skip..]
}

/// Rounds seconds to hundredths as Python's `round(x, 2)`: to the nearest decimal, ties to even.
pub(crate) fn hundredths(seconds: f64) -> f64 {
    // formatting rounds the exact binary value
    format!("{seconds:.2}").parse().unwrap_or(seconds)
}

/// The nearest frame of a time in seconds at 100 frames a second, ties to even.
pub(crate) fn frame(seconds: f64) -> usize {
    // the cast saturates
    (seconds * 100.0).round_ties_even() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_as_python_takes_them() {
        let values = [1, 2, 3];
        assert_eq!(last(&values, 0), [1, 2, 3]);
        assert_eq!(last(&values, 2), [2, 3]);
        assert_eq!(last(&values, 9), [1, 2, 3]);
        assert_eq!(last(&values, -1), [2, 3]);
        assert_eq!(last(&values, -9), []);
    }

    /// `round` of Python 3: 2.675 is below its decimal, 0.125 is a tie.
    #[test]
    fn rounds_as_python() {
        assert_eq!(hundredths(2.675), 2.67);
        assert_eq!(hundredths(0.125), 0.12);
        assert_eq!(hundredths(0.375), 0.38);
        assert_eq!(frame(0.125), 12);
        assert_eq!(frame(-1.0), 0);
    }

    #[test]
    fn strips_as_python() {
        assert_eq!(strip("\u{1f}\u{3000} a b\u{85}\n"), "a b");
    }
}
