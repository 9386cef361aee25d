//! The texts that a rendering makes, counted: fuel counts instructions, one of which can double a
//! text.

use std::cell::Cell;
use std::fmt::{self, Write};

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Output, Value};

/// The most bytes of one text that an operation makes.
const TEXT: usize = 16 << 20;

/// The most items of one list that an operation makes.
const ITEMS: usize = 1_000_000;

/// Bytes that an item of a list is counted as.
const ITEM: usize = 32;

thread_local! {
    /// Bytes that the rendering on this thread may still make.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Whether it tried to make more.
    static EXCEEDED: Cell<bool> = const { Cell::new(false) };
}

/// The account of one rendering, on the thread that runs it.
pub(super) struct Account {
    before: (usize, bool),
}

impl Account {
    /// Opens an account of so many bytes.
    pub(super) fn open(bytes: usize) -> Self {
        Self { before: (LEFT.replace(bytes), EXCEEDED.replace(false)) }
    }

    /// Whether the rendering tried to make more.
    pub(super) fn is_exceeded(&self) -> bool {
        EXCEEDED.get()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        LEFT.set(self.before.0);
        EXCEEDED.set(self.before.1);
    }
}

/// Counts bytes that an operation is about to make.
///
/// # Errors
/// If they are too many.
pub(super) fn bytes(bytes: usize) -> Result<(), Error> {
    let left = LEFT.get();
    if bytes > left || bytes > TEXT {
        EXCEEDED.set(true);
        return Err(Error::new(ErrorKind::InvalidOperation, "a text is too long"));
    }
    LEFT.set(left - bytes);
    Ok(())
}

/// Bytes that may still be made at once.
pub(super) fn left() -> usize {
    LEFT.get().min(TEXT)
}

/// Counts the items of a list that an operation is about to make.
///
/// # Errors
/// If they are too many.
pub(super) fn items(count: usize) -> Result<(), Error> {
    if count > ITEMS {
        EXCEEDED.set(true);
        return Err(Error::new(ErrorKind::InvalidOperation, "a list is too long"));
    }
    Ok(())
}

/// Counts a value that an operation made. A lazy list becomes one of its items: it could hold what
/// it is made of unseen, or many others like it within each other.
///
/// # Errors
/// If the text or the list is too long.
pub(super) fn value(mut value: Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::Iterable {
        let mut all = Vec::new();
        for item in value.try_iter()? {
            items(all.len())?;
            all.push(item);
        }
        value = Value::from(all);
    }
    if let Some(text) = value.as_str() {
        bytes(text.len())?;
    } else if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
        && let Some(count) = value.len()
    {
        items(count)?;
        bytes(count.saturating_mul(ITEM).min(left()))?;
    }
    Ok(value)
}

/// A text that is counted as it grows.
#[derive(Default)]
pub(super) struct Text(pub(super) String);

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > TEXT {
            EXCEEDED.set(true);
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
