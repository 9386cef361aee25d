//! Subtitles: SubRip and WebVTT.

use super::clean::{escape_vtt, is_blank, subtitle};
use super::options::WriteOptions;
use super::python::{is_space, strip};
use super::time::clock;
use crate::{Segment, Word};
use std::io::{self, Write};

/// Seconds from the start of a word to that of the next one after which a subtitle ends.
const PAUSE: f64 = 3.0;

/// A subtitle: its start and end as they are written, its text.
struct Cue {
    start: String,
    end: String,
    text: String,
}

pub(crate) fn srt(
    segments: &[Segment],
    options: &WriteOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let cues = cues(segments, options, |seconds| clock(seconds, true, ','), str::to_owned);
    for (i, Cue { start, end, text }) in cues.into_iter().enumerate() {
        write!(out, "{}\n{start} --> {end}\n{text}\n\n", i + 1)?;
    }
    Ok(())
}

pub(crate) fn vtt(
    segments: &[Segment],
    options: &WriteOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "WEBVTT\n\n")?;
    let cues = cues(segments, options, |seconds| clock(seconds, false, '.'), escape_vtt);
    for Cue { start, end, text } in cues {
        write!(out, "{start} --> {end}\n{text}\n\n")?;
    }
    Ok(())
}

/// The subtitles that have a text. `escape` writes a text as the format has it between tags.
fn cues(
    segments: &[Segment],
    options: &WriteOptions,
    time: impl Fn(f64) -> String,
    escape: impl Fn(&str) -> String,
) -> Vec<Cue> {
    let mut cues = Vec::new();
    if !options.words {
        let cue = |segment: &Segment| Cue {
            start: time(segment.start),
            end: time(segment.end),
            text: escape(strip(&segment.text)),
        };
        cues.extend(segments.iter().map(cue));
    } else {
        for mut words in Layout::new(segments, options).run(segments) {
            words.iter_mut().for_each(|word| word.text = escape(&word.text));
            let (Some(first), Some(last)) = (words.first(), words.last()) else { continue };
            let (start, end) = (time(first.start), time(last.end));
            let text: String = words.iter().map(|word| word.text.as_str()).collect();
            if is_blank(&text) {
                continue;
            }
            if options.highlight_words {
                highlight(&words, start, &text, &time, &mut cues);
            } else {
                cues.push(Cue { start, end, text });
            }
        }
    }
    cues.iter_mut().for_each(|cue| cue.text = subtitle(&cue.text));
    cues.retain(|cue| !is_blank(&cue.text));
    cues
}

/// A subtitle for each word, and one without a mark for each pause between words.
fn highlight(
    words: &[Word],
    start: String,
    text: &str,
    time: &impl Fn(f64) -> String,
    cues: &mut Vec<Cue>,
) {
    let mut last = start;
    for (i, word) in words.iter().enumerate() {
        let (start, end) = (time(word.start), time(word.end));
        if last != start {
            cues.push(Cue { start: last, end: start.clone(), text: text.to_owned() });
        }
        let marked = words.iter().enumerate();
        let marked = marked.map(|(j, w)| if i == j { underline(&w.text) } else { w.text.clone() });
        cues.push(Cue { start, end: end.clone(), text: marked.collect() });
        last = end;
    }
}

/// Underlines a word without the white space before it and the line feed behind it. A word with
/// line feeds inside stays as it is.
fn underline(word: &str) -> String {
    let text = word.trim_start_matches(is_space);
    let space = &word[..word.len() - text.len()];
    let (text, feed) = text.strip_suffix('\n').map_or((text, ""), |text| (text, "\n"));
    if text.contains('\n') { word.to_owned() } else { format!("{space}<u>{text}</u>{feed}") }
}

/// Words in lines and subtitles.
struct Layout {
    width: usize,
    lines: Option<usize>,
    words_per_line: usize,
    /// Whether subtitles end where segments do.
    keep_segments: bool,
    /// Characters of the current line.
    line_length: usize,
    /// Lines of the current subtitle.
    line_count: usize,
    /// The start of the word before.
    last: f64,
    /// The words of the current subtitle, with the line feeds before them.
    subtitle: Vec<Word>,
    subtitles: Vec<Vec<Word>>,
}

impl Layout {
    fn new(segments: &[Segment], options: &WriteOptions) -> Self {
        let first = segments.iter().find_map(|segment| segment.words.first());
        let start = first.map(|word| word.start).or(segments.first().map(|segment| segment.start));
        let at_least_one = |limit: Option<usize>| limit.filter(|limit| *limit > 0);
        let (width, lines) =
            (at_least_one(options.max_line_width), at_least_one(options.max_line_count));
        Self {
            width: width.unwrap_or(1000),
            lines,
            words_per_line: at_least_one(options.max_words_per_line).unwrap_or(1000),
            keep_segments: width.is_none() || lines.is_none(),
            line_length: 0,
            line_count: 1,
            last: start.unwrap_or(0.0),
            subtitle: Vec::new(),
            subtitles: Vec::new(),
        }
    }

    fn run(mut self, segments: &[Segment]) -> Vec<Vec<Word>> {
        for segment in segments {
            for chunk in segment.words.chunks(self.words_per_line) {
                for (i, word) in chunk.iter().enumerate() {
                    self.add(word, i == 0);
                }
            }
        }
        self.subtitles.push(self.subtitle);
        self.subtitles
    }

    /// Adds a word, the first one of its segment or chunk or another one.
    fn add(&mut self, word: &Word, first: bool) {
        let mut word = word.clone();
        let start = word.start;
        let length = word.text.chars().count();
        let pause = !self.keep_segments && start - self.last > PAUSE;
        let room = self.line_length + length <= self.width;
        let ends = first && !self.subtitle.is_empty() && self.keep_segments;
        if self.line_length > 0 && room && !pause && !ends {
            self.line_length += length;
        } else {
            word.text = strip(&word.text).to_owned();
            let length = word.text.chars().count();
            let full = self.lines.is_some_and(|lines| pause || self.line_count >= lines);
            if !self.subtitle.is_empty() && full || ends {
                self.subtitles.push(std::mem::take(&mut self.subtitle));
                self.line_count = 1;
            } else if self.line_length > 0 {
                self.line_count += 1;
                word.text.insert(0, '\n');
            }
            self.line_length = length;
        }
        self.subtitle.push(word);
        self.last = start;
    }
}
