//! The mapped files of a model.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use memmap2::Mmap;

use super::faults::Watch;
use crate::{Error, Problem};

/// A mapped file.
#[derive(Debug)]
struct MappedFile {
    path: PathBuf,
    state: State,
    // before the map, which it must not outlive
    watch: Watch,
    map: Mmap,
}

/// The facts by which a file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// The file system and the number of the file in it.
    identity: (u64, u64),
    bytes: u64,
    changed: Option<SystemTime>,
}

impl State {
    fn of(about: &Metadata) -> Self {
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt;
            (about.dev(), about.ino())
        };
        // a file cannot be replaced there while it is mapped
        #[cfg(not(unix))]
        let identity = (0, 0);
        Self { identity, bytes: about.len(), changed: about.modified().ok() }
    }
}

impl MappedFile {
    fn open(path: &Path) -> Result<Self, Problem> {
        // Opening a pipe would block until a writer opens it.
        if !fs::metadata(path).map_err(Problem::Read)?.is_file() {
            return Err(Problem::Read(io::Error::other("not a regular file")));
        }
        let file = File::open(path).map_err(Problem::Read)?;
        let state = State::of(&file.metadata().map_err(Problem::Read)?);
        // SAFETY: the map is only read. A `&[u8]` or `&str` into the map must not change while it
        // is in use. No code here can keep other processes from modifying the file, so the
        // documentation of `Checkpoint` requires it from the caller. Names are copied out, and
        // lengths and UTF-8 are checked at each use, so that a change between uses leads to an
        // error. Pages that a truncated file no longer has are zeros (`faults`).
        let map = unsafe { Mmap::map(&file) }.map_err(Problem::Read)?;
        Ok(Self { path: path.to_owned(), state, watch: Watch::new(&map), map })
    }

    /// The change of the file, if there is one.
    fn fault(&self) -> Option<Problem> {
        // one of another name or without a name is still mapped, and has not changed
        let now = fs::metadata(&self.path).ok().map(|about| State::of(&about));
        let now = now.filter(|now| now.identity == self.state.identity);
        let bytes = self.state.bytes;
        match now {
            Some(now) if now.bytes < bytes => Some(Problem::Changed {
                how: format!("was cut from {bytes} to {} bytes", now.bytes),
            }),
            Some(now) if now != self.state => {
                Some(Problem::Changed { how: "was written to".into() })
            }
            _ if self.watch.is_struck() => {
                Some(Problem::Changed { how: "was truncated or cannot be read".into() })
            }
            _ => None,
        }
    }
}

/// The owner of the bytes of a map.
struct Owner(Arc<MappedFile>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.map
    }
}

/// Files that are mapped while a model is opened.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(Vec<Arc<MappedFile>>);

impl OpenFiles {
    /// Maps a regular file; an empty file gives no bytes.
    pub(crate) fn map(&mut self, path: &Path) -> Result<Bytes, Problem> {
        let file = Arc::new(MappedFile::open(path)?);
        self.0.push(Arc::clone(&file));
        Ok(Bytes::from_owner(Owner(file)))
    }

    /// All of them, if none has changed meanwhile.
    pub(crate) fn finish(self) -> Result<MappedFiles, Error> {
        let files = MappedFiles(self.0.into());
        files.check()?;
        Ok(files)
    }
}

/// The mapped files of a [`Checkpoint`](crate::Checkpoint), which tells whether one of them has
/// changed.
///
/// A file that is cut or written to in place changes under the map. One that another takes the
/// place of by a rename does not, nor does one that is removed: the map keeps it.
#[derive(Clone, Debug)]
pub struct MappedFiles(Arc<[Arc<MappedFile>]>);

impl Default for MappedFiles {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl MappedFiles {
    /// Those of both.
    pub(crate) fn with(&self, others: &Self) -> Self {
        Self(self.0.iter().chain(others.0.iter()).cloned().collect())
    }

    /// Whether all bytes that were read are those of the files. It reads memory alone, so it may be
    /// called after each use of the bytes.
    ///
    /// # Errors
    /// [`Problem::Changed`] with the name of a file that lacked a page, which was read as zeros.
    pub fn check_pages(&self) -> Result<(), Error> {
        self.first_fault(self.0.iter().filter(|file| file.watch.is_struck()))
    }

    /// Whether the files have the sizes and times of their opening, which the system is asked for.
    ///
    /// # Errors
    /// [`Problem::Changed`] with the name of a file that has not.
    pub fn check(&self) -> Result<(), Error> {
        self.first_fault(self.0.iter())
    }

    fn first_fault<'a>(
        &self,
        mut files: impl Iterator<Item = &'a Arc<MappedFile>>,
    ) -> Result<(), Error> {
        let fault = files.find_map(|file| Some(Error::at(&file.path, file.fault()?)));
        fault.map_or(Ok(()), Err)
    }
}
