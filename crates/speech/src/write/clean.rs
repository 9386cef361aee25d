//! Texts as formats of lines can hold them.

use super::python::{is_space, strip};

/// Stands for NUL, which WebVTT replaces by it and most programs take for the end of a text.
const REPLACEMENT: &str = "\u{fffd}";

/// A text as one line: line ends become spaces.
pub(crate) fn line(text: &str) -> String {
    text.replace("\r\n", " ").replace(['\n', '\r'], " ").replace('\0', REPLACEMENT)
}

/// The text of a subtitle, without what would end it: blank lines, and the arrow between times.
pub(crate) fn subtitle(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', REPLACEMENT);
    let lines: Vec<&str> = text.split('\n').filter(|line| !strip(line).is_empty()).collect();
    let mut text = lines.join("\n");
    // the shorter arrow may end another long one
    while text.contains("-->") {
        text = text.replace("-->", "->");
    }
    text
}

/// A text as WebVTT has it between tags (section 3.3 of its recommendation).
pub(crate) fn escape_vtt(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Whether a text has nothing to show.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}
