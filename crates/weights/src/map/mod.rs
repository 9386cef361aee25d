//! Memory maps of files, and whether the files are still those that were opened.

#[cfg(unix)]
mod faults;
#[cfg(not(unix))]
#[path = "no_faults.rs"]
mod faults;
mod files;

use std::fs;
use std::io;
use std::path::Path;

pub use files::MappedFiles;
pub(crate) use files::OpenFiles;

/// Whether there is no file of this name. One that exists and cannot be opened is not missing.
pub(crate) fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
