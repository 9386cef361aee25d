//! The texts that a rendering makes, counted: fuel counts instructions, one of which can double a
//! text.

use std::cell::Cell;
use std::fmt::{self, Write};

use minijinja::{Error, ErrorKind, Output};

use super::deadline;

/// The most bytes of one text that an operation makes.
const TEXT: usize = 16 << 20;

/// The most items of one list that an operation makes.
const ITEMS: usize = 1_000_000;

/// Bytes that an item of a list is counted as.
pub(super) const ITEM: usize = 32;

/// A limit of values that a rendering exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// One text or list, or all of them.
    Text,
    /// One value with its shared parts.
    Value,
}

thread_local! {
    /// Bytes that the rendering on this thread may still make.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    /// The limit that it tried to exceed.
    static EXCEEDED: Cell<Option<Excess>> = const { Cell::new(None) };
}

/// The account of one rendering, on the thread that runs it.
pub(super) struct Account {
    before: (usize, Option<Excess>),
}

impl Account {
    /// Opens an account of so many bytes.
    pub(super) fn open(bytes: usize) -> Self {
        Self { before: (LEFT.replace(bytes), EXCEEDED.replace(None)) }
    }

    /// The limit that the rendering tried to exceed.
    pub(super) fn excess(&self) -> Option<Excess> {
        EXCEEDED.get()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        LEFT.set(self.before.0);
        EXCEEDED.set(self.before.1);
    }
}

/// Notes a limit that an operation would exceed, and makes its error.
pub(super) fn exceeded(excess: Excess) -> Error {
    EXCEEDED.set(Some(excess));
    let reason = match excess {
        Excess::Text => "a text or a list is too long",
        Excess::Value => "a value is too large",
    };
    Error::new(ErrorKind::InvalidOperation, reason)
}

/// Counts bytes of one text that an operation is about to make.
///
/// # Errors
/// If they are too many.
pub(super) fn bytes(bytes: usize) -> Result<(), Error> {
    if bytes > TEXT { Err(exceeded(Excess::Text)) } else { steps(bytes) }
}

/// Counts bytes that an operation is about to read or to make, whatever of.
///
/// # Errors
/// If they are too many.
pub(super) fn steps(bytes: usize) -> Result<(), Error> {
    deadline::step()?;
    let left = LEFT.get().checked_sub(bytes).ok_or_else(|| exceeded(Excess::Text))?;
    LEFT.set(left);
    Ok(())
}

/// Bytes that may still be made at once.
pub(super) fn left() -> usize {
    LEFT.get().min(TEXT)
}

/// Checks the number of items of a list that an operation is about to make.
///
/// # Errors
/// If they are too many, or if the time is over.
pub(super) fn items(count: usize) -> Result<(), Error> {
    if count > ITEMS { Err(exceeded(Excess::Text)) } else { deadline::step() }
}

/// Counts a list that an operation made.
///
/// # Errors
/// If it is too long.
pub(super) fn list(count: usize) -> Result<(), Error> {
    items(count)?;
    bytes(count.saturating_mul(ITEM).min(left()))
}

/// A text that is counted as it grows.
#[derive(Default)]
pub(super) struct Text(pub(super) String);

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > TEXT {
            exceeded(Excess::Text);
            return Err(fmt::Error);
        }
        bytes(text.len()).map_err(|_| fmt::Error)?;
        self.0.push_str(text);
        Ok(())
    }
}

/// The text of arguments such as `format_args!("{value}")`, counted.
///
/// # Errors
/// If it is too long.
pub(super) fn text(arguments: fmt::Arguments<'_>) -> Result<String, Error> {
    let mut text = Text::default();
    text.write_fmt(arguments).map_err(|_| Error::from(ErrorKind::WriteFailure))?;
    Ok(text.0)
}

/// The output of a template, counted: it may be kept for a variable.
pub(super) struct Counted<'o, 'a>(pub(super) &'o mut Output<'a>);

impl Write for Counted<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.as_bytes().chunks(TEXT) {
            bytes(piece.len()).map_err(|_| fmt::Error)?;
        }
        self.0.write_str(text)
    }
}
