//! Memory maps of files.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

use crate::Problem;

/// Maps a regular file; an empty file gives no bytes.
pub(crate) fn map_file(path: &Path) -> Result<Bytes, Problem> {
    // Opening a pipe would block until a writer opens it.
    if !fs::metadata(path).map_err(Problem::Read)?.is_file() {
        return Err(Problem::Read(io::Error::other("not a regular file")));
    }
    let file = File::open(path).map_err(Problem::Read)?;
    // SAFETY: the map is only read. A `&[u8]` or `&str` into the map must not change while it is in
    // use. No code here can keep other processes from modifying the file, so the documentation of
    // `Checkpoint` requires it from the caller. Names are copied out, and lengths and UTF-8 are
    // checked at each use, so that a change between uses leads to an error.
    let map = unsafe { Mmap::map(&file) }.map_err(Problem::Read)?;
    Ok(Bytes::from_owner(map))
}

/// Whether there is no file of this name. One that exists and cannot be opened is not missing.
pub(crate) fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
