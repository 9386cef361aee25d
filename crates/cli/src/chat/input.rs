//! The user's input: an editor on a terminal, the lines of standard input otherwise.

use std::{
    borrow::Cow,
    fs,
    io::{self, BufRead, IsTerminal, stdin, stdout},
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use etcetera::BaseStrategy;
use rustyline::{
    Cmd, CompletionType, Config, Context, Editor, Helper, KeyCode, KeyEvent, Modifiers,
    completion::{Completer, FilenameCompleter, Pair},
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::FileHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};

use super::{command::COMMANDS, text};

const PROMPT: &str = "> ";
const STYLED_PROMPT: &str = "\x1b[1;32m> \x1b[0m";

/// Inputs that the history keeps.
const HISTORY: usize = 1000;

/// Where the user's inputs come from.
pub(crate) enum Input {
    /// A terminal.
    Terminal(Box<Terminal>),
    /// A pipe or a file.
    Lines,
}

/// The editor of a terminal.
pub(crate) struct Terminal {
    editor: Editor<Completion, FileHistory>,
    history: Option<PathBuf>,
    styled: bool,
}

/// One input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Text(String),
    /// Ctrl-C in the editor.
    Interrupted,
    End,
}

impl Input {
    /// The input of this process; with a `history` that later chats recall.
    ///
    /// # Errors
    /// If the terminal cannot be used.
    pub(crate) fn new(styled: bool, history: bool) -> Result<Self> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            return Ok(Self::Lines);
        }
        let config = Config::builder()
            .max_history_size(HISTORY)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .build();
        let mut editor = Editor::with_config(config).context("the terminal cannot be used")?;
        editor.set_helper(Some(Completion { files: FilenameCompleter::new() }));
        for key in [KeyEvent(KeyCode::Enter, Modifiers::ALT), KeyEvent::alt('\r')] {
            editor.bind_sequence(key, Cmd::Newline);
        }
        let history = history.then(history_file).flatten();
        if let Some(file) = &history {
            // the first chat has none
            let _ = editor.load_history(file);
        }
        Ok(Self::Terminal(Box::new(Terminal { editor, history, styled })))
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Waits for the next input; on a terminal with a text that the user can change.
    ///
    /// # Errors
    /// If the input cannot be read, or is not text.
    pub(crate) fn read(&mut self, initial: &str) -> Result<Read> {
        match self {
            Self::Terminal(terminal) => terminal.read(initial),
            Self::Lines => read_lines(&mut stdin().lock()),
        }
    }

    /// Waits for the answer to a question, which a terminal shows.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn ask(&mut self, question: &str) -> Result<Read> {
        match self {
            Self::Terminal(terminal) => terminal.line(question, question, ""),
            Self::Lines => read_lines(&mut stdin().lock()),
        }
    }
}

impl Terminal {
    fn read(&mut self, initial: &str) -> Result<Read> {
        let styled = if self.styled { STYLED_PROMPT } else { PROMPT };
        let read = self.line(PROMPT, styled, initial)?;
        if let Read::Text(line) = &read
            && !line.trim().is_empty()
            && self.editor.add_history_entry(line)?
        {
            self.save();
        }
        Ok(match read {
            Read::Text(line) => Read::Text(text::text(&line)),
            other => other,
        })
    }

    /// A line as the user wrote it.
    fn line(&mut self, prompt: &str, styled: &str, initial: &str) -> Result<Read> {
        match self.editor.readline_with_initial(&(prompt, styled), (initial, "")) {
            Ok(line) => Ok(Read::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Read::Interrupted),
            Err(ReadlineError::Eof) => Ok(Read::End),
            Err(error) => Err(error).context("the terminal cannot be read"),
        }
    }

    fn save(&mut self) {
        let Some(file) = &self.history else { return };
        // a history that cannot be written ends with the chat
        let _ = file.parent().map(fs::create_dir_all);
        if self.editor.append_history(file).is_err() {
            self.history = None;
        }
    }
}

/// One input of standard input: a line, or several that belong together.
fn read_lines(input: &mut impl BufRead) -> Result<Read> {
    let mut all = String::new();
    loop {
        let before = all.len();
        match input.read_line(&mut all) {
            Ok(0) if all.trim().is_empty() => return Ok(Read::End),
            Ok(0) => return Ok(Read::Text(text::text(all.trim_end_matches('\n')))),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(error).context("standard input is not text, expected UTF-8");
            }
            Err(error) => return Err(error).context("standard input could not be read"),
        }
        let line = all.trim_end_matches(['\n', '\r']).len().max(before);
        all.truncate(line);
        if text::is_complete(&all) {
            return Ok(Read::Text(text::text(&all)));
        }
        all.push('\n');
    }
}

/// The file of earlier inputs.
fn history_file() -> Option<PathBuf> {
    let directories = etcetera::choose_base_strategy().ok()?;
    let folder = directories.state_dir().unwrap_or_else(|| directories.data_dir());
    Some(folder.join("pelton").join("chat_history"))
}

/// Completion of commands and files, and the question whether an input is complete.
struct Completion {
    files: FilenameCompleter,
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..pos];
        if ["/save ", "/load "].iter().any(|command| before.starts_with(command)) {
            return self.files.complete(line, pos, context);
        }
        if !before.starts_with('/') || before.contains(char::is_whitespace) {
            return Ok((pos, Vec::new()));
        }
        let fits = COMMANDS.iter().filter(|(_, name, ..)| name.starts_with(before));
        let pair = |(_, name, argument, _): &(_, &str, &str, &str)| Pair {
            display: (*name).to_owned(),
            replacement: if argument.is_empty() { (*name).to_owned() } else { format!("{name} ") },
        };
        Ok((0, fits.map(pair).collect()))
    }
}

impl Validator for Completion {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match text::is_complete(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Highlighter for Completion {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Borrowed(hint)
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_a_pipe() {
        let mut input = io::Cursor::new("one\r\n\ntwo \\\nlines\n\"\"\"\na\n\nb\n\"\"\"\nlast \\");
        let mut read = || read_lines(&mut input).unwrap();
        for expected in ["one", "", "two \nlines", "a\n\nb", "last \\"] {
            assert_eq!(read(), Read::Text(expected.to_owned()));
        }
        assert_eq!(read(), Read::End);
        read_lines(&mut io::Cursor::new(b"\xff\n")).unwrap_err();
    }
}
