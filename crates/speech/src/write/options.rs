//! Options of writers.

/// Options of writers. Those of lines hold for `srt` and `vtt`, and only with `words`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether the segments have words with times, which subtitles and JSON then use.
    pub words: bool,
    /// Whether each word is underlined while it is spoken. It makes a subtitle of each word.
    pub highlight_words: bool,
    /// Greatest number of characters of a line, at least 1.
    pub max_line_width: Option<usize>,
    /// Greatest number of lines of a subtitle, at least 1. Together with `max_line_width` it lets
    /// subtitles go on across the ends of segments.
    pub max_line_count: Option<usize>,
    /// Greatest number of words of a line, at least 1.
    pub max_words_per_line: Option<usize>,
    /// The language's code, for JSON: `en`, for example.
    pub language: String,
}
