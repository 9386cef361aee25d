//! Where command lines of speech put their results.

use std::{ffi::OsString, path::Path};

use super::{
    convert::Became,
    rewrite::{Walk, joined},
};

/// The formats of OpenAI's `all`.
const ALL: &str = "txt,vtt,srt,tsv,json";

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

/// Adds what whisper.cpp and OpenAI's program do with options that name formats and no place. Both replace results.
pub(super) fn files(walk: &mut Walk) {
    let typed = |walk: &Walk, names: &[&str]| {
        walk.origins.iter().any(|(_, typed)| names.contains(&typed.as_str()))
    };
    let outputs = [
        "-otxt",
        "--output-txt",
        "-osrt",
        "--output-srt",
        "-ovtt",
        "--output-vtt",
        "-ocsv",
        "--output-csv",
        "-oj",
        "--output-json",
        "-ojf",
        "--output-json-full",
        "-olrc",
        "--output-lrc",
    ];
    let has_place = walk.gives("--output") || walk.gives("-o") || walk.gives("--output-file");
    if typed(walk, &outputs) {
        if !has_place {
            // the name of each file with a second ending
            let positionals = match (walk.models.is_empty(), walk.positionals.len()) {
                (true, 2..) => &walk.positionals[1..],
                _ => &walk.positionals[..],
            };
            let files: Vec<OsString> = positionals.iter().chain(&walk.arguments).cloned().collect();
            walk.options.extend(files.iter().map(|file| joined("--output-file", file)));
        }
        if !walk.gives("--force") {
            walk.options.push("--force".into());
        }
    }
    if walk.gives("--output-file") && !walk.gives("--format") && !walk.gives("-f") {
        // whisper.cpp writes no file without a format
        walk.options.retain(|word| !word.to_string_lossy().starts_with("--output-file="));
        walk.note("-of", "a file is written with a format such as -osrt");
    }
    let openai = ["--output_format", "--output_dir"];
    if typed(walk, &openai) {
        if !walk.gives("--output") && !walk.gives("-o") {
            walk.options.push("--output=.".into());
        }
        if !walk.gives("--format") && !walk.gives("-f") {
            walk.options.push(format!("--format={ALL}").into());
        }
        if !walk.gives("--force") {
            walk.options.push("--force".into());
        }
    }
    clips(walk);
}

/// Joins whisper.cpp's offset and duration in one list of seconds.
fn clips(walk: &mut Walk) {
    let value = |walk: &Walk, name: &str| {
        walk.options.iter().find_map(|word| {
            word.to_str()?.strip_prefix(name)?.strip_prefix('=')?.parse::<f64>().ok()
        })
    };
    let (offset, duration) = (value(walk, OFFSET), value(walk, DURATION));
    if offset.is_none() && duration.is_none() {
        return;
    }
    walk.options.retain(|word| {
        let word = word.to_string_lossy();
        !word.starts_with(OFFSET) && !word.starts_with(DURATION)
    });
    let start = offset.unwrap_or(0.0);
    let end = duration.filter(|&length| length > 0.0).map(|length| start + length);
    let clip = match end {
        Some(end) => format!("--clip-timestamps={start},{end}"),
        None => format!("--clip-timestamps={start}"),
    };
    walk.options.push(clip.into());
}

/// Words that [`clips`] replaces.
pub(super) const OFFSET: &str = "--clip-timestamps-offset";
pub(super) const DURATION: &str = "--clip-timestamps-duration";
