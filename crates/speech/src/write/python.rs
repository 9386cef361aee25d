//! Texts as Python's library makes them, for files that are equal byte by byte.

use std::fmt::Write as _;

/// Whether `str.isspace` holds for a character: Unicode's white space and four separators of ASCII.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `str.strip()`.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// A string of `json.dump`: everything outside of ASCII is escaped as UTF-16.
pub(crate) fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
    out
}

/// `repr` of a float; `null` for one that is not finite, as JSON has none (RFC 8259, section 6).
pub(crate) fn float(value: f64) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Python writes positional numbers from 1e-4 to 1e16.
    if (-4..16).contains(&exponent) {
        let text = format!("{value}");
        if text.contains('.') { text } else { text + ".0" }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::float;

    /// `repr` of Python 3.
    #[test]
    fn floats_are_pythons() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (7.0, "7.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e100, "1.25e+100"),
            (5e-324, "5e-324"),
            (f64::NEG_INFINITY, "null"),
            (f64::NAN, "null"),
        ] {
            assert_eq!(float(value), expected);
        }
    }
}
