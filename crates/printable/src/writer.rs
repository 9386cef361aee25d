//! A writer of text that comes in pieces.

use std::io::{self, Write};

use crate::replace::push;

/// The most bytes of a character in UTF-8.
const CHARACTER: usize = 4;

/// A writer that shows text as [`text`](crate::text) does, whatever the pieces in which it comes.
/// Bytes that are no UTF-8 are U+FFFD too, as some terminals take a single byte for a control
/// character.
///
/// The beginning of a character, and a carriage return, are written with the next piece.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    /// Whether text is changed at all.
    filters: bool,
    /// The bytes at the end of the last piece that the next one completes.
    held: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// A writer for a terminal.
    pub fn terminal(to: W) -> Self {
        Self { to, filters: true, held: Vec::with_capacity(CHARACTER) }
    }

    /// A writer that changes no byte, for a file or a pipe.
    pub fn plain(to: W) -> Self {
        Self { to, filters: false, held: Vec::new() }
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.filters {
            return self.to.write(bytes);
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let end = all.len() - incomplete(&all);
        let mut out = String::with_capacity(end);
        for chunk in all[..end].utf8_chunks() {
            push(chunk.valid(), &mut out);
            if !chunk.invalid().is_empty() {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.held.extend_from_slice(&all[end..]);
        self.to.write_all(out.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The bytes at the end that the next piece may complete: the beginning of a character, or a
/// carriage return.
fn incomplete(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') {
        return 1;
    }
    let lengths = 1..CHARACTER.min(bytes.len() + 1);
    let is_beginning = |length: &usize| {
        let end = &bytes[bytes.len() - length..];
        str::from_utf8(end).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
    };
    lengths.rev().find(is_beginning).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pieces: &[&[u8]]) -> String {
        let mut writer = Writer::terminal(Vec::new());
        for piece in pieces {
            writer.write_all(piece).unwrap();
            writer.flush().unwrap();
        }
        String::from_utf8(writer.to).unwrap()
    }

    /// Every cut of a text into three pieces has the result of the whole.
    #[test]
    fn pieces_have_the_result_of_the_whole() {
        let given = "é\u{1b}]52;c;YQ==\u{7}\r\n日\u{9b}31m\u{202e}a\tb\r👩.".as_bytes();
        let expected = "é\u{fffd}]52;c;YQ==\u{fffd}\n日\u{fffd}31m\u{fffd}a\tb\u{fffd}👩.";
        for first in 0..=given.len() {
            for second in first..=given.len() {
                let pieces = [&given[..first], &given[first..second], &given[second..]];
                assert_eq!(written(&pieces), expected, "{first}, {second}");
            }
        }
    }

    /// A byte of C1 alone is a control character for a terminal of 8 bits.
    #[test]
    fn bytes_that_are_no_text() {
        assert_eq!(
            written(&[b"a\x9b31m\xff", b"\xc3", b"\xa9\xe2\x80", b"x"]),
            "a\u{fffd}31m\u{fffd}é\u{fffd}x"
        );
        let mut writer = Writer::plain(Vec::new());
        writer.write_all(b"a\x1b\x9b\r").unwrap();
        assert_eq!(writer.to, b"a\x1b\x9b\r");
    }
}
