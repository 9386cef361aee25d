//! A file to be downloaded, and the files that it consists of meanwhile.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{etag::Etag, hash::Hash};
use crate::error::{Error, Result};

/// A file to be downloaded.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) url: String,
    /// Where the complete file is to be.
    pub(crate) to: PathBuf,
    /// The file that processes lock while they write it.
    pub(crate) lock: PathBuf,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) etag: Etag,
    /// The hashes that its bytes must have; without any only the size is compared.
    pub(crate) hashes: Vec<Hash>,
    /// The file's name, with its folders.
    pub(crate) name: String,
    /// Whether the host of the bytes sends the same entity tag with them.
    pub(crate) repeats_tag: bool,
    /// Connections at the same time.
    pub(crate) connections: usize,
}

impl Job {
    pub(super) fn partial(&self) -> PathBuf {
        with_ending(&self.to, "pelton.incomplete")
    }

    pub(super) fn journal(&self) -> PathBuf {
        with_ending(&self.to, "pelton.journal")
    }

    pub(super) fn is_complete(&self) -> bool {
        fs::metadata(&self.to).is_ok_and(|found| found.is_file() && found.len() == self.size)
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Removes a file that may be missing.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path)(error)),
        _ => Ok(()),
    }
}
