//! Files that users name for results.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The most links between a name and its file, as Linux has it.
const LINKS: usize = 40;
/// The most names that are tried for an incomplete file. A killed process leaves one behind.
const NAMES: usize = 1000;

/// The file of a result.
///
/// A regular file appears whole, by a rename from a name beside it. One that exists keeps its
/// permissions and, where the system allows it, its owner. A link stays, and the file to which it
/// leads is replaced. Other names of the same file (hard links) keep the old content.
///
/// A rename over a device or a pipe would remove it. Bytes go straight into those, in the order of
/// the writes. Block devices and sockets are refused.
#[derive(Debug)]
pub struct Output {
    file: File,
    bytes: u64,
    /// `None` if the bytes go straight into the target.
    partial: Option<Partial>,
}

/// An incomplete file, which is removed unless it gets its name.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    target: PathBuf,
}

impl Drop for Partial {
    fn drop(&mut self) {
        // after a rename there is none
        let _ = fs::remove_file(&self.path);
    }
}

impl Output {
    /// Begins a file. One that exists is an error of the kind `AlreadyExists` unless it may be
    /// `replaced`.
    ///
    /// # Errors
    ///
    /// If the path is a folder, a block device or a socket, or the file cannot be created beside
    /// it.
    pub fn create(path: &Path, replaced: bool) -> io::Result<Self> {
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match &found {
            Some(found) if found.is_dir() => Err(refused("it is a folder, expected a file")),
            Some(found) if !found.is_file() || is_descriptor(path) => Self::straight(path, found),
            Some(_) if !replaced => Err(io::ErrorKind::AlreadyExists.into()),
            _ => Self::beside(&target(path)?, found.as_ref()),
        }
    }

    /// An output into something that is there.
    fn straight(path: &Path, found: &Metadata) -> io::Result<Self> {
        streams(found)?;
        // a shell's redirection leads to a regular file by the name of a descriptor
        let file = OpenOptions::new().write(true).truncate(found.is_file()).open(path)?;
        let opened = file.metadata()?;
        if opened.is_file() != found.is_file() {
            return Err(refused("it was exchanged meanwhile"));
        }
        streams(&opened)?;
        Ok(Self { file, bytes: 0, partial: None })
    }

    /// An incomplete file beside its target.
    fn beside(target: &Path, found: Option<&Metadata>) -> io::Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        if target.file_name().is_none() {
            return Err(refused("it names no file"));
        }
        for _ in 0..NAMES {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            // short, as the name of the target may have all bytes that the system allows
            let name = format!(".pelton-{}-{count}.partial", process::id());
            let path = target.with_file_name(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    let partial = Partial { path, target: target.to_owned() };
                    found.map_or(Ok(()), |found| keep_rights(&file, found))?;
                    return Ok(Self { file, bytes: 0, partial: Some(partial) });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(refused("incomplete files have all names that were tried, expected a clean folder"))
    }

    /// Bytes that were written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Waits until the file is on the disk and gives it its name. Without this call there is no
    /// file, or the old one.
    ///
    /// # Errors
    ///
    /// If the disk refuses, or the file cannot be renamed.
    pub fn finish(self) -> io::Result<()> {
        let Some(partial) = &self.partial else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(&partial.path, &partial.target)?;
        // the new name is on the disk when its folder is; not every system has folders to open
        let folder = partial.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// The path of the regular file that a name leads to, which need not exist.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(refused("it is a link to itself, expected a file"))
}

/// Whether a path is a name of an open file, as `/dev/stdout` is. The file has no name that could
/// be replaced.
fn is_descriptor(path: &Path) -> bool {
    let folders = ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc"];
    folders.iter().any(|folder| path.starts_with(folder))
}

/// Refuses what no stream of bytes may go into.
#[cfg(unix)]
fn streams(found: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let kind = found.file_type();
    if kind.is_block_device() {
        return Err(refused("it is a block device, whose data would be lost; expected a file"));
    }
    if kind.is_socket() {
        return Err(refused("it is a socket, expected a file"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn streams(_: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Gives a file the permissions of the one that it replaces, and its owner where this user may.
#[cfg(unix)]
fn keep_rights(file: &File, found: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (found.uid(), found.gid()) {
        // another user's file becomes this user's, as with every program that replaces files
        let _ = fchown(file, Some(found.uid()), Some(found.gid()));
    }
    // after the owner, whose change takes rights away
    file.set_permissions(found.permissions())
}

#[cfg(not(unix))]
fn keep_rights(_: &File, _: &Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, replaced: bool, text: &str) -> io::Result<()> {
        let mut output = Output::create(path, replaced)?;
        output.write_all(text.as_bytes())?;
        assert_eq!(output.bytes(), text.len() as u64);
        output.finish()
    }

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| name(entry).unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_appear_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x".repeat(255));
        let mut output = Output::create(&path, false).unwrap();
        output.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(output);
        assert!(names(folder.path()).is_empty());
        write(&path, false, "one").unwrap();
        let error = write(&path, false, "two").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        write(&path, true, "three").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        assert!(write(folder.path(), true, "x").unwrap_err().to_string().contains("a folder"));
        assert_eq!(names(folder.path()).len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_their_files_are_replaced() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("deep")).unwrap();
        fs::write(at("deep/file"), "old").unwrap();
        symlink("deep/file", at("link")).unwrap();
        symlink("link", at("second")).unwrap();
        symlink("deep/absent", at("dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        write(&at("second"), true, "new").unwrap();
        write(&at("dangling"), false, "made").unwrap();
        assert_eq!(fs::read_to_string(at("deep/file")).unwrap(), "new");
        assert_eq!(fs::read_to_string(at("deep/absent")).unwrap(), "made");
        for link in ["link", "second", "dangling"] {
            assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink(), "{link}");
        }
        assert!(write(&at("loop"), true, "x").is_err());
        assert_eq!(names(folder.path()), ["dangling", "deep", "link", "loop", "second"]);
        assert_eq!(names(&at("deep")), ["absent", "file"]);
    }

    #[cfg(unix)]
    #[test]
    fn permissions_stay() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        for mode in [0o600, 0o640, 0o755] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write(&path, true, "new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
        }
    }

    /// Devices, pipes and sockets are what they were, whoever writes.
    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_replaced() {
        use std::{
            os::unix::{fs::FileTypeExt, net::UnixListener},
            process::Command,
            thread,
        };
        let folder = tempfile::tempdir().unwrap();
        write(Path::new("/dev/null"), true, "x").unwrap();
        write(Path::new("/dev/null"), false, "x").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());

        let fifo = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let reader = {
            let fifo = fifo.clone();
            thread::spawn(move || fs::read_to_string(fifo).unwrap())
        };
        write(&fifo, false, "through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());

        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert!(write(&socket, true, "x").unwrap_err().to_string().contains("a socket"));
        assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
        assert_eq!(names(folder.path()), ["fifo", "socket"]);
    }
}
