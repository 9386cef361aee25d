//! Whole files in memory, of bounded size.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::{Error, Problem, foreign};

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let rejected = |problem| Error::at(path, problem);
    let about = fs::metadata(path).map_err(|error| rejected(Problem::Read(error)))?;
    // opening a pipe would block until a writer opens it
    if !about.is_file() {
        return Err(rejected(Problem::Read(io::Error::other("not a regular file"))));
    }
    let too_large = |found| rejected(Problem::FileSize { found, limit });
    if about.len() > limit {
        return Err(too_large(about.len()));
    }
    let file = File::open(path).map_err(|error| rejected(Problem::Read(error)))?;
    let mut bytes = Vec::new();
    // The file may have grown since.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| rejected(Problem::Read(error)))?;
    if bytes.len() as u64 > limit {
        return Err(too_large(bytes.len() as u64));
    }
    match foreign::lfs_pointer(&bytes) {
        Some(pointer) => Err(rejected(pointer)),
        None => Ok(bytes),
    }
}
