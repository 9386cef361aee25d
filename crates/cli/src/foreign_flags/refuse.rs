//! Errors about a command line, with the option or command that was meant.

use std::{env, process::ExitCode};

use clap::error::{ContextKind, ErrorKind};

use super::{ollama, problem::Problem, rewrite::Line};
use crate::output::note;

impl Line {
    /// Writes all problems, if there are any.
    ///
    /// # Errors
    /// The exit code, if there are.
    pub(crate) fn check(&self) -> Result<(), ExitCode> {
        for Problem { error, hint } in &self.problems {
            note!("error: {error}");
            if let Some(hint) = hint {
                note!("hint: {hint}");
            }
        }
        if self.problems.is_empty() { Ok(()) } else { Err(ExitCode::from(2)) }
    }
}

/// Whether a word of the command line has characters that change what a terminal shows.
fn has_unsafe_word() -> bool {
    env::args_os().any(|word| word.to_string_lossy().contains(pelton_printable::is_unsafe))
}

/// Writes why a command line is refused, with the command that was meant; or the
/// help that it asks for.
pub(crate) fn refuse(error: &clap::Error, line: &Line) -> ExitCode {
    let text = |kind| error.get(kind).map(ToString::to_string);
    let sentence = match error.kind() {
        ErrorKind::InvalidSubcommand => text(ContextKind::InvalidSubcommand).and_then(|found| {
            let (_, hint) = ollama::COMMANDS.iter().find(|(command, _)| *command == found)?;
            Some(format!("error: there is no command {found}\nhint: {hint}"))
        }),
        ErrorKind::UnknownArgument => text(ContextKind::InvalidArg).map(|found| {
            let similar = text(ContextKind::SuggestedArg);
            let hint = match (similar, line.takes_prompt) {
                (Some(similar), _) => format!("{similar} is similar; --help lists the options"),
                (None, true) => {
                    "--help lists the options; -p gives a prompt that begins with -".to_owned()
                }
                (None, false) => "--help lists the options".to_owned(),
            };
            match found.starts_with('-') {
                true => format!("error: {found} is no option of this command\nhint: {hint}"),
                false => format!("error: {found} is one argument too many\nhint: {hint}"),
            }
        }),
        ErrorKind::TooManyValues if line.takes_prompt => {
            text(ContextKind::InvalidValue).map(|found| {
                format!(
                    "error: {found} is one argument too many\nhint: put a prompt of several words in quotes"
                )
            })
        }
        _ => text(ContextKind::InvalidArg).and_then(|argument| as_typed(error, &argument, line)),
    };
    match sentence {
        Some(sentence) => note!("{sentence}"),
        // clap repeats words as they are, and a word may be the name of a file of others
        None if error.use_stderr() && has_unsafe_word() => {
            note!("{}", error.render().to_string().trim_end());
        }
        // to a closed pipe it cannot be written
        None => drop(error.print()),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}

/// An error about an option that stands for another one, or for a variable, with the name of that.
fn as_typed(error: &clap::Error, argument: &str, line: &Line) -> Option<String> {
    let own = argument.split(' ').next()?;
    let (_, typed) = line.origins.iter().find(|(name, typed)| name == own && name != typed)?;
    let text = error.render().to_string();
    let named = format!("'{argument}' (here {typed})");
    Some(text.replacen(&format!("'{argument}'"), &named, 1).trim_end().to_owned())
}
