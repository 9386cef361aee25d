//! The journal of an incomplete file: which of its pieces are complete.
//!
//! The first line has the version, the size of pieces, the size of the file and its entity tag.
//! Every further line is the index of a complete piece. A line without an end was cut off by a
//! crash, so it does not count.

use std::{
    fs::{self, File, OpenOptions},
    io::{Seek, SeekFrom, Write},
    path::Path,
};

use super::{
    etag::Etag,
    job::remove,
    pieces::{PIECE, Pieces},
};
use crate::error::{Error, Result};

/// An incomplete file and its journal.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    pieces: Pieces,
    is_resumed: bool,
    /// Whether bytes must be on the disk before the journal names them, as no hash is compared at
    /// the end.
    is_durable: bool,
}

impl Journal {
    /// Continues the journal of a partial file, or begins both anew if they are not of this file.
    /// `is_durable` is for a file without a hash.
    pub(super) fn open(
        path: &Path,
        partial: &Path,
        etag: &Etag,
        size: u64,
        is_durable: bool,
    ) -> Result<Self> {
        let earlier = fs::metadata(partial).is_ok_and(|found| found.len() == size);
        let earlier = if earlier { read(path, etag, size) } else { None };
        let is_resumed = earlier.is_some();
        let pieces = earlier.unwrap_or_else(|| Pieces::new(size));
        let file = if is_resumed {
            continued(path).map_err(Error::io(path))?
        } else {
            remove(path)?;
            remove(partial)?;
            let empty = File::create(partial).map_err(Error::io(partial))?;
            empty.set_len(size).map_err(Error::io(partial))?;
            let mut file = File::create(path).map_err(Error::io(path))?;
            file.write_all(header(etag, size).as_bytes()).map_err(Error::io(path))?;
            file
        };
        Ok(Self { file, pieces, is_resumed, is_durable })
    }

    /// Whether an earlier process has written some of the bytes.
    pub(super) fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    pub(super) fn pieces(&mut self) -> &mut Pieces {
        &mut self.pieces
    }

    /// Notes that the bytes of a piece are in the partial file.
    pub(super) fn complete(&mut self, piece: usize, partial: &File) -> std::io::Result<()> {
        if self.is_durable {
            partial.sync_data()?;
        }
        // one write: a crash leaves a whole line or one without an end
        self.file.write_all(format!("{piece}\n").as_bytes())?;
        self.pieces.complete(piece);
        Ok(())
    }
}

/// Opens a journal behind its last complete line: the rest of a cut one would become another
/// number.
fn continued(path: &Path) -> std::io::Result<File> {
    let text = fs::read(path)?;
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.set_len(end as u64)?;
    file.seek(SeekFrom::End(0))?;
    Ok(file)
}

fn header(etag: &Etag, size: u64) -> String {
    format!("pelton 1 {PIECE} {size} {}\n", etag.as_str())
}

/// The pieces that a journal names, if it is of this file.
fn read(path: &Path, etag: &Etag, size: u64) -> Option<Pieces> {
    pieces_of(&fs::read_to_string(path).ok()?, etag, size)
}

/// The pieces that the text of a journal names, if it is of this file.
fn pieces_of(text: &str, etag: &Etag, size: u64) -> Option<Pieces> {
    let lines = text.strip_prefix(&header(etag, size))?;
    let mut pieces = Pieces::new(size);
    let whole = lines.rfind('\n').map_or("", |end| &lines[..end]);
    for piece in whole.lines().filter_map(|line| line.parse().ok()) {
        pieces.complete(piece);
    }
    Some(pieces)
}

/// The bytes of the pieces that the text of a journal names, if it is of this file.
pub(crate) fn journal_bytes(text: &str, etag: &Etag, size: u64) -> Option<u64> {
    pieces_of(text, etag, size).map(|pieces| pieces.complete_bytes())
}

/// The bytes of complete pieces.
pub(super) fn complete_bytes(path: &Path, etag: &Etag, size: u64) -> u64 {
    read(path, etag, size).map_or(0, |pieces| pieces.complete_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etag(text: &str) -> Etag {
        Etag::of_header("x", text).unwrap()
    }

    /// Any prefix of a journal names only pieces that were completed.
    #[test]
    fn a_cut_journal_names_no_other_piece() {
        let folder = tempfile::tempdir().unwrap();
        let (path, partial) = (folder.path().join("j"), folder.path().join("p"));
        let size = 130 * PIECE + 5;
        let tag = etag(&"a".repeat(40));
        let mut journal = Journal::open(&path, &partial, &tag, size, false).unwrap();
        let data = File::open(&partial).unwrap();
        for piece in [0, 12, 130, 123] {
            journal.complete(piece, &data).unwrap();
        }
        drop(journal);
        let text = fs::read(&path).unwrap();
        for length in 0..=text.len() {
            fs::write(&path, &text[..length]).unwrap();
            // the lines that are complete, in the order in which they were written
            let lines = text[..length].iter().filter(|byte| **byte == b'\n').count();
            let expected = [0, 0, PIECE, 2 * PIECE, 2 * PIECE + 5, 3 * PIECE + 5][lines];
            let bytes = complete_bytes(&path, &tag, size);
            assert_eq!(bytes, expected, "{length}");
            // a process that goes on after the cut adds pieces to those
            let mut journal = Journal::open(&path, &partial, &tag, size, false).unwrap();
            journal.complete(77, &data).unwrap();
            assert_eq!(complete_bytes(&path, &tag, size), bytes + PIECE, "{length}");
        }
    }

    #[test]
    fn a_journal_of_another_file_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (path, partial) = (folder.path().join("j"), folder.path().join("p"));
        let size = 3 * PIECE;
        let begin = |etag: &Etag, size| {
            let mut journal = Journal::open(&path, &partial, etag, size, true).unwrap();
            let was_resumed = journal.is_resumed();
            journal.complete(1, &File::open(&partial).unwrap()).unwrap();
            was_resumed
        };
        assert!(!begin(&etag("a"), size));
        assert!(begin(&etag("a"), size));
        assert!(!begin(&etag("b"), size), "another entity tag");
        assert!(!begin(&etag("b"), size + 1), "another size");
        fs::remove_file(&partial).unwrap();
        assert!(!begin(&etag("b"), size + 1), "no bytes");
    }
}
