//! Methods of Python's strings, dicts and lists that templates call.

use std::fmt::Write;

use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::bounds::{WIDTH, check_widths};
use super::marks::{self, Ends};
use super::{charge, sharing, slices};

/// The methods that minijinja-contrib lacks, or that must pass over marks; then its own.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let found = match value.kind() {
        _ if method == slices::METHOD => Some(slices::slice(value, args)?),
        ValueKind::String => match value.as_str() {
            Some(text) => string(state, text, method, args)?,
            None => None,
        },
        ValueKind::Seq => sequence(value, method, args)?,
        ValueKind::Map if method == "copy" => {
            let () = from_args(args)?;
            Some(value.clone())
        }
        _ => None,
    };
    sharing::counted(match found {
        Some(value) => value,
        None => unknown_method_callback(state, value, method, args)?,
    })
}

/// `str.replace`, with at most `limit` replacements.
pub(super) fn replace(
    text: &str,
    from: &str,
    to: &str,
    limit: Option<usize>,
) -> Result<String, Error> {
    let count = text.matches(from).take(limit.unwrap_or(usize::MAX)).count();
    charge::bytes(text.len().saturating_add(count.saturating_mul(to.len())))?;
    Ok(text.replacen(from, to, limit.unwrap_or(usize::MAX)))
}

/// Refuses a format whose fields would be too long a text if each had all arguments.
pub(super) fn check_format(format: &str, field: char, args: &[Value]) -> Result<(), Error> {
    let mut all = charge::Text::default();
    for arg in args {
        write!(all, "{arg}").map_err(|_| Error::from(ErrorKind::WriteFailure))?;
    }
    let longest = all.0.len().saturating_add(64).saturating_mul(format.matches(field).count());
    match longest.saturating_add(format.len()) > charge::left() {
        true => charge::bytes(usize::MAX),
        false => Ok(()),
    }
}

fn string(
    state: &State<'_, '_>,
    text: &str,
    method: &str,
    args: &[Value],
) -> Result<Option<Value>, Error> {
    let ends = match method {
        "strip" => Some(Ends::Both),
        "lstrip" => Some(Ends::Left),
        "rstrip" => Some(Ends::Right),
        _ => None,
    };
    if let Some(ends) = ends {
        let (set,): (Option<&str>,) = from_args(args)?;
        return Ok(Some(Value::from(marks::trim(text, set, &marks::of(state), ends))));
    }
    let position = |at: Option<usize>| match at {
        Some(at) => Ok(Value::from(text[..at].chars().count())),
        None => Err(failed("substring not found")),
    };
    Ok(Some(match method {
        "format" => {
            check_widths(text)?;
            check_format(text, '{', args)?;
            return Ok(None);
        }
        "replace" => {
            let (from, to, limit): (&str, &str, Option<i64>) = from_args(args)?;
            let limit = limit.and_then(|limit| usize::try_from(limit).ok());
            Value::from(replace(text, from, to, limit)?)
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            let mut out = charge::Text::default();
            for (i, item) in items.try_iter()?.enumerate() {
                let joiner = if i > 0 { text } else { "" };
                write!(out, "{joiner}{item}").map_err(|_| Error::from(ErrorKind::WriteFailure))?;
            }
            Value::from(out.0)
        }
        "split" => {
            let (separator, limit): (Option<&str>, Option<i64>) = from_args(args)?;
            split(text, separator, limit.unwrap_or(-1))?
        }
        "rsplit" => {
            let (separator, limit): (Option<&str>, Option<i64>) = from_args(args)?;
            rsplit(text, separator, limit.unwrap_or(-1))?
        }
        "splitlines" => {
            charge::items(text.matches('\n').count())?;
            return Ok(None);
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) = text.split_once(separator).unwrap_or((text, ""));
            let found = if text.contains(separator) { separator } else { "" };
            list([before, found, after])?
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let (before, after) = text.rsplit_once(separator).unwrap_or(("", text));
            let found = if text.contains(separator) { separator } else { "" };
            list([before, found, after])?
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "index" => {
            let (what,): (&str,) = from_args(args)?;
            position(text.find(what))?
        }
        "rindex" => {
            let (what,): (&str,) = from_args(args)?;
            position(text.rfind(what))?
        }
        "casefold" => {
            let () = from_args(args)?;
            Value::from(text.to_lowercase())
        }
        "swapcase" => {
            let () = from_args(args)?;
            let swap = |c: char| -> String {
                if c.is_uppercase() {
                    c.to_lowercase().collect()
                } else {
                    c.to_uppercase().collect()
                }
            };
            Value::from(text.chars().map(swap).collect::<String>())
        }
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            let (sign, digits) = match text.strip_prefix(['+', '-']) {
                Some(digits) => text.split_at(text.len() - digits.len()),
                None => ("", text),
            };
            Value::from(format!("{sign}{}{digits}", padding(text, width, "0")?))
        }
        "ljust" | "rjust" | "center" => {
            let (width, fill): (usize, Option<&str>) = from_args(args)?;
            let fill = padding(text, width, fill.unwrap_or(" "))?;
            Value::from(match method {
                "ljust" => format!("{text}{fill}"),
                "rjust" => format!("{fill}{text}"),
                _ => {
                    // CPython puts the odd character to the left of a text of odd width.
                    let count = fill.chars().count();
                    let left = count / 2 + (count & width & 1);
                    let at = fill.char_indices().nth(left).map_or(fill.len(), |(at, _)| at);
                    format!("{}{text}{}", &fill[..at], &fill[at..])
                }
            })
        }
        _ => return Ok(None),
    }))
}

/// The characters that a text lacks to a width.
fn padding(text: &str, width: usize, fill: &str) -> Result<String, Error> {
    if width > WIDTH {
        return Err(failed("the width of a text is too large"));
    }
    Ok(fill.repeat(width.saturating_sub(text.chars().count())))
}

/// A list of texts.
fn list<'t>(parts: impl IntoIterator<Item = &'t str>) -> Result<Value, Error> {
    let mut all = Vec::new();
    for part in parts {
        charge::items(all.len())?;
        all.push(Value::from(part));
    }
    Ok(Value::from(all))
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `str.split`: at most `limit` splits, any number if it is negative.
fn split(text: &str, separator: Option<&str>, limit: i64) -> Result<Value, Error> {
    let pieces = usize::try_from(limit).map_or(usize::MAX, |limit| limit.saturating_add(1));
    let Some(separator) = separator else {
        let mut parts = Vec::new();
        let mut rest = text.trim_start_matches(is_space);
        while !rest.is_empty() {
            let at = rest.find(is_space).filter(|_| parts.len() + 1 < pieces);
            parts.push(&rest[..at.unwrap_or(rest.len())]);
            rest = at.map_or("", |at| rest[at..].trim_start_matches(is_space));
        }
        return list(parts);
    };
    if separator.is_empty() {
        return Err(failed("empty separator"));
    }
    list(text.splitn(pieces, separator))
}

/// `str.rsplit`.
fn rsplit(text: &str, separator: Option<&str>, limit: i64) -> Result<Value, Error> {
    let pieces = usize::try_from(limit).map_or(usize::MAX, |limit| limit.saturating_add(1));
    let mut parts = Vec::new();
    match separator {
        Some("") => return Err(failed("empty separator")),
        Some(separator) => parts.extend(text.rsplitn(pieces, separator)),
        None => {
            let mut rest = text.trim_end_matches(is_space);
            while !rest.is_empty() {
                let space = rest.char_indices().rfind(|(_, c)| is_space(*c));
                let space = space.filter(|_| parts.len() + 1 < pieces);
                match space {
                    Some((at, c)) => {
                        parts.push(&rest[at + c.len_utf8()..]);
                        rest = rest[..at].trim_end_matches(is_space);
                    }
                    None => {
                        parts.push(rest);
                        rest = "";
                    }
                }
            }
        }
    }
    parts.reverse();
    list(parts)
}

fn sequence(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "index" => {
            let (what,): (&Value,) = from_args(args)?;
            let at = value.try_iter()?.position(|item| item == *what);
            at.map(|at| Some(Value::from(at))).ok_or_else(|| failed("value is not in the list"))
        }
        "copy" => {
            let () = from_args(args)?;
            Ok(Some(value.clone()))
        }
        _ => Ok(None),
    }
}

fn failed(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}
