//! Writing to standard output and standard error.

use std::{
    fmt,
    io::{self, Write},
};

use anyhow::Error;
use pelton::Stats;

/// Writes a line to standard error, in the way of `eprintln!`, which panics where it cannot.
macro_rules! note {
    ($($text:tt)*) => { $crate::output::write_note(format_args!($($text)*)) };
}
pub(crate) use note;

/// Writes a line to standard error. One that cannot be written, to a full disk or a closed pipe, is lost: it is
/// no reason to end a process that serves others.
pub(crate) fn write_note(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// An error with a sentence that says what the user can do.
#[derive(Debug)]
pub(crate) struct Hint {
    pub(crate) error: Error,
    pub(crate) hint: String,
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nhint: {}", sentence(&self.error), self.hint)
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

/// One sentence on standard error.
pub(crate) fn print_error(error: &Error) {
    note!("error: {}", sentence(error));
}

/// An error and its causes, without those that the sentence before them says already.
pub(crate) fn sentence(error: &Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |all, cause| match all.as_str() {
        "" => cause,
        before if before.contains(&cause) => all,
        _ => format!("{all}: {cause}"),
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
