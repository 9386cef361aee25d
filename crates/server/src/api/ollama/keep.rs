//! How long a model stays after a request.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::request::model;
use crate::{
    app::{App, Caller},
    error::ApiError,
    input::Fields,
    models::{Entry, Keep, Kind},
};

/// The model of a request.
pub(super) struct Asked {
    pub(super) entry: Arc<Entry>,
    /// Its name in the request, which may be that of an adapter.
    pub(super) name: String,
    pub(super) keep: Keep,
}

/// Takes the model of a request, and `keep_alive`, out of a body. The value has no effect where the
/// caller may not unload models.
pub(super) fn take(app: &App, caller: &Caller, fields: &mut Fields) -> Result<Asked, ApiError> {
    let name = model(fields)?;
    let entry = app.registry.find_exact(&name, Kind::Text)?;
    let expected = "seconds, or a time such as 5m or -1";
    let keep = match fields.take("keep_alive") {
        None => app.registry.keep(),
        Some(Value::Number(number)) => of_seconds(number.as_f64().unwrap_or(f64::NAN))
            .ok_or_else(|| fields.wrong("keep_alive", &Value::Number(number), expected))?,
        Some(Value::String(text)) => of_text(&text)
            .ok_or_else(|| fields.wrong("keep_alive", &Value::String(text), expected))?,
        Some(other) => return Err(fields.wrong("keep_alive", &other, expected)),
    };
    let keep = if app.config.may_administer(caller.key) { keep } else { app.registry.keep() };
    Ok(Asked { entry, name, keep })
}

/// A time; a negative one is without end.
fn of_seconds(seconds: f64) -> Option<Keep> {
    match seconds {
        seconds if seconds.is_nan() => None,
        seconds if seconds < 0.0 => Some(Keep::Forever),
        seconds => Some(Duration::try_from_secs_f64(seconds).map_or(Keep::Forever, Keep::For)),
    }
}

/// A time as the language Go writes it, such as `1h30m` or `300ms`, or a number of seconds.
fn of_text(text: &str) -> Option<Keep> {
    if let Ok(seconds) = text.parse::<f64>() {
        return of_seconds(seconds);
    }
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * unit;
        rest = after;
    }
    (!text.is_empty()).then(|| of_seconds(sign * seconds))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Go's `time.ParseDuration` documents it.
    #[test]
    fn times() {
        let time = |seconds: f64| Some(Keep::For(Duration::from_secs_f64(seconds)));
        for (text, expected) in [
            ("1s", time(1.0)),
            ("1h15m30.5s", time(4530.5)),
            ("300ms", time(0.3)),
            ("0", time(0.0)),
            ("0s", time(0.0)),
            ("24h", time(86_400.0)),
            ("30", time(30.0)),
            ("-1", Some(Keep::Forever)),
            ("-1m", Some(Keep::Forever)),
        ] {
            assert_eq!(of_text(text), expected, "{text}");
        }
        for wrong in ["", "bad", "5 m", "5x", "m", "1m5", "NaN", "1.2.3s"] {
            assert_eq!(of_text(wrong), None, "{wrong}");
        }
    }
}
