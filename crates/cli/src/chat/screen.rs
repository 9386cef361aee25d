//! The output of a chat.

use std::{
    env,
    io::{self, IsTerminal, Write, stderr, stdout},
};

use anyhow::Error;
use pelton::chat::Event;
use pelton_printable::{line, text as printable};

use super::{markdown::Markdown, wrap::Wrap};
use crate::output::{note, print_error, write_styled};

const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// The kind of the last printed text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Nothing,
    Reasoning,
    Content,
    Call,
}

/// The output: styled on a terminal, plain otherwise.
///
/// Answers go to standard output; what Pelton says goes to standard error, so that the output of a
/// pipe is the answers and what commands show.
#[derive(Debug)]
pub(crate) struct Screen {
    /// Whether standard output is a terminal.
    terminal: bool,
    /// Whether styles are used.
    styled: bool,
    markdown: Markdown,
    wrap: Wrap,
    part: Part,
    /// Whether the answer so far ends with a newline.
    at_line: bool,
}

impl Screen {
    /// The output of this process.
    pub(crate) fn new() -> Self {
        let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let terminal = stdout().is_terminal();
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            terminal,
            styled: terminal && !set("NO_COLOR") && !dumb,
            markdown: Markdown::default(),
            wrap: Wrap::default(),
            part: Part::Nothing,
            at_line: true,
        }
    }

    pub(crate) fn is_styled(&self) -> bool {
        self.styled
    }

    /// Prints the next part of an answer.
    ///
    /// # Errors
    /// If standard output is closed.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Content(text) => self.content(text),
            Event::Reasoning(text) => self.reasoning(text),
            Event::ToolCallStart { name, .. } => {
                self.begin(Part::Call)?;
                match self.terminal {
                    true => self.print(&format!("[{} ", line(name))),
                    false => self.print(&format!("[{name} ")),
                }
            }
            // JSON that a model wrote can have control characters nevertheless
            Event::ToolCallArguments { delta, .. } if self.terminal => {
                self.print(&printable(delta))
            }
            Event::ToolCallArguments { delta, .. } => self.print(delta),
            Event::ToolCallEnd { .. } => self.print("]\n"),
            Event::ToolCallBroken { .. } => self.print(" (incomplete)]\n"),
        }
    }

    fn content(&mut self, text: &str) -> io::Result<()> {
        self.begin(Part::Content)?;
        match self.terminal {
            true => {
                let text = printable(text);
                let text = if self.styled { self.markdown.push(&text) } else { text.into_owned() };
                let text = self.wrap.push(&text, columns());
                self.print(&text)
            }
            false => self.print(text),
        }
    }

    /// Reasoning is shown on a terminal only.
    fn reasoning(&mut self, text: &str) -> io::Result<()> {
        if !self.terminal {
            return Ok(());
        }
        self.begin(Part::Reasoning)?;
        let text = self.wrap.push(&printable(text), columns());
        self.print(&text)
    }

    /// Ends the part before, if it was another one.
    fn begin(&mut self, part: Part) -> io::Result<()> {
        if self.part == part {
            return Ok(());
        }
        let before = self.part;
        self.close()?;
        if before != Part::Nothing {
            self.print(if self.at_line { "" } else { "\n" })?;
            if before == Part::Reasoning {
                self.print(if self.styled { "\n" } else { "[end of the reasoning]\n" })?;
            }
        }
        self.part = part;
        if part == Part::Reasoning {
            self.print(if self.styled { DIM } else { "[reasoning]\n" })?;
        }
        Ok(())
    }

    /// Ends the styles of the part.
    fn close(&mut self) -> io::Result<()> {
        let rest = self.markdown.finish();
        let rest = self.wrap.push(&rest, columns()) + &self.wrap.finish(columns());
        self.print(&rest)?;
        if self.part == Part::Reasoning && self.styled {
            stdout().write_all(RESET.as_bytes())?;
        }
        self.part = Part::Nothing;
        Ok(())
    }

    /// Ends an answer: the next output begins a line.
    ///
    /// # Errors
    /// If standard output is closed.
    pub(crate) fn end_answer(&mut self) -> io::Result<()> {
        self.close()?;
        if !self.at_line {
            self.print("\n")?;
        }
        self.at_line = true;
        Ok(())
    }

    fn print(&mut self, text: &str) -> io::Result<()> {
        if let Some(last) = text.chars().last() {
            self.at_line = last == '\n';
            let mut out = stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }

    /// Prints what a command shows.
    ///
    /// # Errors
    /// If standard output is closed.
    pub(crate) fn show(&mut self, text: &str) -> io::Result<()> {
        self.print(&printable(&format!("{text}\n")))
    }

    /// Says something about the chat, dimmed, on standard error; nothing in a pipe.
    pub(crate) fn note(&self, text: &str) {
        if !self.terminal {
            return;
        }
        match self.styled && stderr().is_terminal() {
            true => write_styled(DIM, text, RESET),
            false => note!("{text}"),
        }
    }

    /// Says what went wrong.
    pub(crate) fn error(&self, error: &Error) {
        print_error(error);
    }
}

/// Columns of the terminal, which its user may change at any time.
fn columns() -> usize {
    let (_, columns) = console::Term::stdout().size();
    usize::from(columns).max(1)
}
