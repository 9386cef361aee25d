//! Where command lines of speech put their results.

use std::path::Path;

use super::convert::Became;

/// The formats of OpenAI's `all`.
pub(super) const ALL: &str = "txt,vtt,srt,tsv,json";

/// A model of Whisper by OpenAI's name, or a file.
pub(super) fn model(value: &str, _: &'static str) -> Became {
    let sizes = ["tiny", "base", "small", "medium", "large-v1", "large-v2", "large-v3"];
    let is_size = sizes.contains(&value.trim_end_matches(".en"));
    Became::Model(match value {
        _ if Path::new(value).exists() => value.to_owned(),
        "turbo" | "large-v3-turbo" => "openai/whisper-large-v3-turbo".to_owned(),
        "large" => "openai/whisper-large-v3".to_owned(),
        _ if is_size => format!("openai/whisper-{value}"),
        _ if value.starts_with("distil-") => format!("distil-whisper/{value}"),
        _ => value.to_owned(),
    })
}

/// The value of `-f`: a format, or whisper.cpp's audio file.
pub(super) fn format_or_file(value: &str, own: &'static str) -> Became {
    let is_format = value == "all" || pelton::speech::Format::ALL.iter().any(|f| f.name() == value);
    match is_format {
        true => format(value, own),
        false => Became::Argument(value.to_owned()),
    }
}

/// A format; `all` is five of them.
pub(super) fn format(value: &str, own: &'static str) -> Became {
    let value = if value == "all" { ALL } else { value };
    Became::Words(vec![format!("{own}={value}")])
}

/// A result's path; `-` is standard output.
pub(super) fn result(value: &str, own: &'static str) -> Became {
    match value {
        "-" => Became::Words(Vec::new()),
        value => Became::Words(vec![format!("{own}={value}")]),
    }
}

/// Milliseconds, for options in seconds.
pub(super) fn milliseconds(value: &str, own: &'static str) -> Became {
    match value.parse::<f64>() {
        Ok(number) => Became::Words(vec![format!("{own}={}", number / 1000.0)]),
        Err(_) => Became::Expected("a number of milliseconds".to_owned()),
    }
}
