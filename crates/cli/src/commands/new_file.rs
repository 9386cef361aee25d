//! A file that exists under its name only when it is complete.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context, Result, bail};

use crate::interrupt::Flag;

/// A file that is written under another name in the same folder, and renamed when it is complete. It is removed
/// otherwise.
pub(crate) struct NewFile {
    path: PathBuf,
    partial: PathBuf,
    file: File,
}

impl NewFile {
    /// Begins a file; one that exists is replaced only with `force`, when the new one is complete.
    pub(crate) fn create(path: &Path, force: bool) -> Result<Self> {
        let Some(name) = path.file_name() else {
            bail!("{} names no file, expected the path of a file", path.display());
        };
        if path.is_dir() {
            bail!("{} is a folder, expected the path of a file", path.display());
        }
        if path.exists() && !force {
            bail!("{} exists already, expected another name or --force", path.display());
        }
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.partial", process::id()));
        let partial = path.with_file_name(hidden);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&partial)
            .with_context(|| format!("{} cannot be written", partial.display()))?;
        Ok(Self { path: path.to_owned(), partial, file })
    }

    /// The file as a writer that fails when `stop` is set.
    pub(crate) fn writer(&self, stop: Flag) -> impl Write {
        Stoppable { file: &self.file, stop }
    }

    /// Waits until the file is on the disk and gives it its name.
    pub(crate) fn finish(self) -> Result<()> {
        let named = || format!("{} cannot be written", self.path.display());
        self.file.sync_all().with_context(named)?;
        fs::rename(&self.partial, &self.path).with_context(named)?;
        // the new name is on the disk when its folder is; not every system has folders to open
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // after a rename there is none
        let _ = fs::remove_file(&self.partial);
    }
}

/// A file whose writes fail after Ctrl-C.
struct Stoppable<'a> {
    file: &'a File,
    stop: Flag,
}

impl Write for Stoppable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.is_set() {
            return Err(io::Error::other("interrupted"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
