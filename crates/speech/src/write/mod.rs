//! Writers of transcripts: text, subtitles, tables, JSON.
//!
//! `txt`, `srt`, `vtt`, `tsv` and `json` have the forms of OpenAI's command line, byte for byte. `csv` and
//! `lrc` have those of whisper.cpp.

mod json;
mod python;
mod subtitles;
mod tables;
mod time;

use crate::Segment;
use std::io::{self, Write};
use std::str::FromStr;

/// A format of transcripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A line of text for each segment.
    Txt,
    /// SubRip subtitles.
    Srt,
    /// WebVTT subtitles.
    Vtt,
    /// A table of milliseconds and text, separated by tabs.
    Tsv,
    /// All fields of all segments.
    Json,
    /// A table of milliseconds and text, separated by commas.
    Csv,
    /// Lyrics: text after its start.
    Lrc,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 7] =
        [Self::Txt, Self::Srt, Self::Vtt, Self::Tsv, Self::Json, Self::Csv, Self::Lrc];

    /// The name, which is also the suffix of its files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Txt => "txt",
            Self::Srt => "srt",
            Self::Vtt => "vtt",
            Self::Tsv => "tsv",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Lrc => "lrc",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    /// The format of a name.
    ///
    /// # Errors
    ///
    /// There is no format of that name.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|format| format.name()).collect();
            format!("{name:?} is no format of transcripts, expected one of {}", names.join(", "))
        })
    }
}

/// Options of writers. Those of lines hold for `srt` and `vtt`, and only with `words`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether the segments have words with times, which subtitles and JSON then use.
    pub words: bool,
    /// Whether each word is underlined while it is spoken. It makes a subtitle of each word.
    pub highlight_words: bool,
    /// Greatest number of characters of a line, at least 1.
    pub max_line_width: Option<usize>,
    /// Greatest number of lines of a subtitle, at least 1. With `max_line_width`, subtitles no longer end
    /// where segments do.
    pub max_line_count: Option<usize>,
    /// Greatest number of words of a line, at least 1.
    pub max_words_per_line: Option<usize>,
    /// The language's code, for JSON: `en`, for example.
    pub language: String,
}

/// Writes the transcript of a file.
///
/// # Errors
///
/// `out` failed.
pub fn write(
    format: Format,
    segments: &[Segment],
    options: &WriteOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Txt => tables::txt(segments, out),
        Format::Srt => subtitles::srt(segments, options, out),
        Format::Vtt => subtitles::vtt(segments, options, out),
        Format::Tsv => tables::tsv(segments, out),
        Format::Json => json::json(segments, options, out),
        Format::Csv => tables::csv(segments, out),
        Format::Lrc => tables::lrc(segments, out),
    }
}
