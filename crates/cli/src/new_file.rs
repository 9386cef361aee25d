//! A file that the user names for a result.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use pelton_records::Output;

use crate::interrupt::Flag;

/// A file that appears whole, as an [`Output`]. Devices and pipes are written straight.
pub(crate) struct NewFile {
    path: PathBuf,
    output: Output,
}

impl NewFile {
    /// Begins a file; a regular one that exists is replaced only with `force`, when the
    /// new one is complete.
    pub(crate) fn create(path: &Path, force: bool) -> Result<Self> {
        match Output::create(path, force) {
            Ok(output) => Ok(Self { path: path.to_owned(), output }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                bail!("{} exists already, expected another name or --force", path.display())
            }
            Err(error) => {
                Err(error).with_context(|| format!("{} cannot be written", path.display()))
            }
        }
    }

    /// The file as a writer that fails when `stop` is set.
    pub(crate) fn writer(&mut self, stop: Flag) -> impl Write {
        Stoppable { output: &mut self.output, stop }
    }

    /// Bytes that were written.
    pub(crate) fn bytes(&self) -> u64 {
        self.output.bytes()
    }

    /// Waits until the file is on the disk and gives it its name.
    pub(crate) fn finish(self) -> Result<()> {
        let Self { path, output } = self;
        output.finish().with_context(|| format!("{} cannot be written", path.display()))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Writes a file whole; one that exists is replaced.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let mut file = NewFile::create(path, true)?;
    file.write_all(content).with_context(|| format!("{} cannot be written", path.display()))?;
    file.finish()
}

/// A file whose writes fail after Ctrl-C.
struct Stoppable<'a> {
    output: &'a mut Output,
    stop: Flag,
}

impl Write for Stoppable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.is_set() {
            return Err(io::Error::other("interrupted"));
        }
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
