//! Translation of regular expressions from Oniguruma's syntax, as Ruby has it, to Rust's.
//!
//! The differences that occur in published files are those of kkos/oniguruma, `doc/RE`. There `\w`
//! has some numbers and no joiners, and `\h` is a hexadecimal digit. `^` and `$` match at line
//! breaks, and `(?m)` lets the full stop match them. `--` and `~~` are no operators in a class.

/// A word character in Oniguruma: letters, marks, digits, connectors, and the powers and fractions
/// of Latin-1.
pub(super) const WORD: &str = r"\p{Alphabetic}\p{M}\p{Nd}\p{Nl}\p{Pc}²³¹¼½¾";

/// A pattern in Rust's syntax.
pub(super) struct Translated {
    pub(super) pattern: String,
    /// Whether the pattern needs no look-around, possessive repetitions or references.
    pub(super) regular: bool,
}

/// # Errors
/// The reason that the pattern is not supported, as the end of a sentence.
pub(super) fn translate(pattern: &str) -> Result<Translated, String> {
    let mut out = String::from("(?m:");
    let mut regular = true;
    // The number of classes that are open.
    let mut depth = 0usize;
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let mut used = c.len_utf8();
        match c {
            '\\' => {
                let Some(escaped) = after.chars().next() else {
                    return Err("ends with a backslash".to_owned());
                };
                used += escaped.len_utf8();
                escape(escaped, depth > 0, &mut out, &mut regular);
            }
            '[' if depth > 0 && after.starts_with(':') => {
                let (class, length) = posix(after)?;
                out.push_str(class);
                used += length;
            }
            '[' => {
                depth += 1;
                out.push('[');
                // A bracket at the beginning of a class is a character of it.
                let start = after.strip_prefix('^').unwrap_or(after);
                out.push_str(&after[..after.len() - start.len()]);
                used += after.len() - start.len();
                if start.starts_with(']') {
                    out.push_str(r"\]");
                    used += 1;
                }
            }
            ']' if depth > 0 => {
                depth -= 1;
                out.push(']');
            }
            '-' | '~' if depth > 0 && after.starts_with(c) => {
                out.extend(['\\', c, '\\', c]);
                used += 1;
            }
            '(' if depth == 0 && after.starts_with('?') => {
                let flags = after[1..].bytes().take_while(|b| b"imx-".contains(b)).count();
                let end = after.as_bytes().get(1 + flags);
                if flags > 0 && matches!(end, Some(b':' | b')')) {
                    out.push_str("(?");
                    out.push_str(&after[1..=flags].replace('m', "s"));
                    used += 1 + flags;
                } else {
                    regular &= end == Some(&b':');
                    out.push('(');
                }
            }
            '*' | '+' | '?' if depth == 0 && after.starts_with('+') => {
                regular = false;
                out.extend([c, '+']);
                used += 1;
            }
            _ => out.push(c),
        }
        rest = &rest[used..];
    }
    out.push(')');
    Ok(Translated { pattern: out, regular })
}

/// Translates the escape of a character.
fn escape(c: char, in_class: bool, out: &mut String, regular: &mut bool) {
    let class = |out: &mut String, negated: &str, set: &str| {
        if in_class && negated.is_empty() {
            out.push_str(set);
        } else {
            out.extend(["[", negated, set, "]"]);
        }
    };
    match c {
        'w' => class(out, "", WORD),
        'W' => class(out, "^", WORD),
        'h' => class(out, "", "0-9a-fA-F"),
        'H' => class(out, "^", "0-9a-fA-F"),
        'b' if !in_class => {
            *regular = false;
            out.push_str(&format!("(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))"));
        }
        'B' if !in_class => {
            *regular = false;
            out.push_str(&format!("(?:(?<=[{WORD}])(?=[{WORD}])|(?<![{WORD}])(?![{WORD}]))"));
        }
        '<' | '>' => out.push(c),
        '1'..='9' | 'k' | 'g' | 'G' | 'K' | 'X' | 'R' | 'Z' | 'N' | 'O' | 'y' | 'Y'
            if !in_class =>
        {
            *regular = false;
            out.extend(['\\', c]);
        }
        _ => out.extend(['\\', c]),
    }
}

/// A bracket expression of POSIX after its first bracket, in Rust's syntax, and its length.
fn posix(text: &str) -> Result<(&'static str, usize), String> {
    const CLASSES: &[(&str, &str)] = &[
        (":alpha:]", r"\p{Alphabetic}"),
        (":alnum:]", r"\p{Alphabetic}\p{Nd}"),
        (":digit:]", r"\p{Nd}"),
        (":lower:]", r"\p{Lowercase}"),
        (":space:]", r"\s"),
        (":upper:]", r"\p{Uppercase}"),
    ];
    CLASSES
        .iter()
        .find(|(name, _)| text.starts_with(name))
        .map(|(name, class)| (*class, name.len()))
        .ok_or_else(|| {
            "has a class of POSIX other than alpha, alnum, digit, lower, space and upper".to_owned()
        })
}
