//! Writers of transcripts: text, subtitles, tables, JSON.
//!
//! `txt`, `srt`, `vtt`, `tsv` and `json` have the forms of OpenAI's command line. `csv` and `lrc`
//! have those of whisper.cpp. Files equal OpenAI's byte for byte, except where a program could not
//! read them back:
//!
//! - Blank lines and every `-->` within a subtitle would end it. Subtitles without text are left
//!   out.
//! - `&` and `<` of a text are escaped in WebVTT.
//! - Line ends within a row of `txt` and `tsv` become spaces.
//! - NUL becomes U+FFFD. A number that is not finite is `null` in JSON.

mod clean;
mod json;
mod options;
mod python;
mod subtitles;
mod tables;
mod time;

pub use options::WriteOptions;

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
