//! One module for each command.

pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod convert;
#[cfg(feature = "gpu")]
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod effort;
pub(crate) mod embed;
pub(crate) mod imatrix;
pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod logits;
pub(crate) mod man;
pub(crate) mod perplexity;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod pull;
pub(crate) mod quantize;
pub(crate) mod rerank;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod show;
mod stdin_lines;
pub(crate) mod template;
pub(crate) mod tokenize;
pub(crate) mod transcribe;

use std::{
    fs,
    io::{IsTerminal, Read, stdin},
    path::Path,
};

use anyhow::{Context, Result, anyhow, bail, ensure};

#[cfg(unix)]
use crate::output::note;

/// The text of an argument; `-` reads standard input.
fn text_or_stdin(text: &str) -> Result<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut bytes = Vec::new();
    stdin().read_to_end(&mut bytes).context("standard input could not be read")?;
    String::from_utf8(bytes)
        .map_err(|e| e.utf8_error())
        .context("standard input is not text, expected UTF-8")
}

/// Checks that standard input can give the text that no argument gives.
///
/// # Errors
/// If it is a terminal.
fn stdin_has_text() -> Result<()> {
    ensure!(
        !stdin().is_terminal(),
        "found no text, expected an argument, --prompt, --file, or a pipe or file as standard input"
    );
    Ok(())
}

/// Says that a pipe is not read, as an argument gives the text.
fn note_unread_pipe() {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let is_pipe = fs::metadata("/dev/stdin").is_ok_and(|stdin| stdin.file_type().is_fifo());
        if is_pipe {
            note!("standard input is not read: a text is given, and - in its place reads it");
        }
    }
}

/// As [`text_or_stdin`], for a prompt: one final line break of standard input is dropped, as shells
/// and editors add it and a model would continue after it.
fn prompt_or_stdin(text: &str) -> Result<String> {
    let read = text_or_stdin(text)?;
    Ok(if text == "-" { without_line_break(read) } else { read })
}

/// The text of a file; `-` reads standard input.
fn whole_text_of(path: &Path) -> Result<String> {
    match path.to_str() {
        Some("-") => text_or_stdin("-"),
        _ => fs::read_to_string(path)
            .with_context(|| format!("{} could not be read as text", path.display())),
    }
}

/// As [`whole_text_of`], without the final line break.
fn text_of(path: &Path) -> Result<String> {
    Ok(without_line_break(whole_text_of(path)?))
}

/// A text without its final line break, if it has one.
fn without_line_break(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

/// The texts of arguments, one of which can be `-` for the lines of standard input.
fn lines_or_stdin(texts: &[String]) -> Result<Vec<String>> {
    if texts.iter().filter(|text| *text == "-").count() > 1 {
        bail!("- is given several times, expected standard input once");
    }
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        match text.as_str() {
            "-" => all.extend(text_or_stdin(text)?.lines().map(str::to_owned)),
            text => all.push(text.to_owned()),
        }
    }
    Ok(all)
}

/// Values with spaces between them, each in as many digits as tell it from its neighbours.
fn joined(values: &[f32]) -> String {
    values.iter().map(f32::to_string).collect::<Vec<_>>().join(" ")
}

/// The sum of two numbers of positions that options name.
fn positions(a: (&str, usize), b: (&str, usize)) -> Result<usize> {
    a.1.checked_add(b.1).ok_or_else(|| {
        anyhow!(
            "{} {} and {} {} are too many positions, expected at most the model's context",
            a.0,
            a.1,
            b.0,
            b.1
        )
    })
}
