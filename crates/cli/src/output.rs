//! Writing to standard output and standard error.

use std::{
    fmt,
    io::{self, IsTerminal, StdoutLock, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Error;
use pelton::Stats;
use pelton_printable::{Writer, line, text};

/// Standard output. A terminal gets no control characters, as models, files and servers write much
/// of the output. A file or a pipe gets every byte.
pub(crate) fn stdout() -> Writer<StdoutLock<'static>> {
    let out = io::stdout();
    match out.is_terminal() {
        true => Writer::terminal(out.lock()),
        false => Writer::plain(out.lock()),
    }
}

/// The target of notes in a log.
pub(crate) const NOTES: &str = "pelton::serve";

/// Whether notes are events of a log.
static NOTES_ARE_LOGGED: AtomicBool = AtomicBool::new(false);
/// Whether the error that ends the program is one too.
static ERRORS_ARE_LOGGED: AtomicBool = AtomicBool::new(false);

/// From now on notes are events of the log, and the error that ends the program is if `errors`.
pub(crate) fn log_lines(errors: bool) {
    NOTES_ARE_LOGGED.store(true, Ordering::Relaxed);
    ERRORS_ARE_LOGGED.store(errors, Ordering::Relaxed);
}

/// Writes lines without control characters to standard error, in the way of `eprintln!`, which
/// panics where it cannot.
macro_rules! note {
    ($($text:tt)*) => { $crate::output::write_note(format_args!($($text)*)) };
}
pub(crate) use note;

/// Writes lines to standard error, or an event to the log.
pub(crate) fn write_note(note: fmt::Arguments<'_>) {
    match NOTES_ARE_LOGGED.load(Ordering::Relaxed) {
        true => tracing::info!(target: NOTES, "{note}"),
        false => write_lines(&note.to_string()),
    }
}

/// Writes lines to standard error, without control characters of others. One that cannot
/// be written, to a full disk or a closed pipe, is lost: it is no reason to end a
/// process that serves others.
fn write_lines(lines: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", text(lines));
}

/// As [`note!`], between the codes of a style and of its end.
pub(crate) fn write_styled(style: &str, note: &str, end: &str) {
    let _ = writeln!(io::stderr().lock(), "{style}{}{end}", text(note));
}

/// An error with a sentence that says what the user can do.
#[derive(Debug)]
pub(crate) struct Hint {
    pub(crate) error: Error,
    pub(crate) hint: String,
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", sentence(&self.error), line(&self.hint))
    }
}

impl std::error::Error for Hint {}

/// Adds a hint to an error.
pub(crate) trait WithHint<T> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<Error>> WithHint<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| Hint { error: error.into(), hint: hint.into() }.into())
    }
}

/// Whether the reader of standard output has closed it, which is no failure.
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// One sentence on standard error, and what the user can do.
pub(crate) fn print_error(error: &Error) {
    let sentence = sentence(error);
    match ERRORS_ARE_LOGGED.load(Ordering::Relaxed) {
        true => tracing::error!(target: NOTES, "{sentence}"),
        false => write_lines(&format!("error: {sentence}")),
    }
}

/// An error and its causes on one line, without those that the sentence before them says already. A
/// hint is on a line of its own. No other text makes a line: it may be of a file or of a server.
pub(crate) fn sentence(error: &Error) -> String {
    let mut hints = Vec::new();
    let all = joined(error, &mut hints);
    hints.iter().fold(line(&all).into_owned(), |all, hint| format!("{all}\nhint: {}", line(hint)))
}

/// An error and its causes; their hints are added to `hints`.
fn joined<'a>(error: &'a Error, hints: &mut Vec<&'a str>) -> String {
    error.chain().fold(String::new(), |all, cause| {
        let cause = match cause.downcast_ref::<Hint>() {
            Some(found) => {
                hints.push(&found.hint);
                joined(&found.error, hints)
            }
            None => cause.to_string(),
        };
        match all.as_str() {
            "" => cause,
            before if before.contains(&cause) => all,
            _ => format!("{all}: {cause}"),
        }
    })
}

/// A number of bytes in a readable unit: `637 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

/// A number in a readable unit: `1.10 B`, `135 M`.
pub(crate) fn count(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{:.1} K", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.2} B", n as f64 / 1e9),
    }
}

/// Tokens that a rate needs: that of fewer says more about the clock than about the machine.
const RATED: usize = 16;

/// ` at 12.3 tokens/s` for the generated tokens; nothing for a few.
pub(crate) fn rate(stats: &Stats) -> String {
    shown(stats.generated_tokens, stats.decode_tokens_per_second())
}

/// ` at 123.4 tokens/s` for the prompt; nothing before its end, and for a short one.
pub(crate) fn prompt_rate(stats: &Stats) -> String {
    let run = stats.prompt_tokens.saturating_sub(stats.cached_tokens);
    shown(run, stats.time_to_first_token.and_then(|_| stats.prefill_tokens_per_second()))
}

fn shown(tokens: usize, rate: Option<f64>) -> String {
    match rate.filter(|_| tokens >= RATED) {
        Some(rate) => format!(" at {rate:.1} tokens/s"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    /// A text of others in an error makes no line, and hints stay on their own.
    #[test]
    fn errors_are_one_line_and_a_hint() {
        let failed: Result<(), _> = Err(anyhow!("bad\nerror: forged\u{1b}[2J"));
        let error = failed.hint("do\u{9b}this").context("a file").unwrap_err();
        let expected = "a file: bad\\nerror: forged\\u{1b}[2J\nhint: do\\u{9b}this";
        assert_eq!(sentence(&error), expected);
        assert_eq!(sentence(&anyhow!("one").context("all of one")), "all of one");
    }
}
