//! The layout of the hub's cache, as Python's `huggingface_hub` documents it:
//!
//! ```text
//! models--OWNER--NAME/
//!   blobs/ETAG                         the files
//!   refs/REVISION                      a commit
//!   snapshots/COMMIT/PATH              a link to a blob
//! .locks/models--OWNER--NAME/ETAG.lock
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    error::{Error, Result},
    name::{FileName, Repository, Revision, is_hex},
};

/// The folder of a repository in the cache.
#[derive(Clone, Debug)]
pub(crate) struct RepositoryCache {
    folder: PathBuf,
    locks: PathBuf,
}

impl RepositoryCache {
    pub(crate) fn new(cache: &Path, repository: &Repository) -> Self {
        let name = format!("models--{}--{}", repository.owner(), repository.name());
        Self { folder: cache.join(&name), locks: cache.join(".locks").join(name) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.folder.join("blobs")
    }

    pub(crate) fn lock(&self, etag: &str) -> PathBuf {
        self.locks.join(format!("{etag}.lock"))
    }

    pub(crate) fn locks(&self) -> &Path {
        &self.locks
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.folder.join("snapshots")
    }

    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.snapshots().join(commit)
    }

    /// The path of a file in a snapshot.
    pub(crate) fn file(&self, commit: &str, name: &FileName) -> PathBuf {
        name.names().fold(self.snapshot(commit), |path, part| path.join(part))
    }

    /// The commit of a revision, if the cache knows it.
    pub(crate) fn commit(&self, revision: &Revision) -> Option<String> {
        if revision.is_commit() {
            return Some(revision.as_str().to_owned());
        }
        let text = fs::read_to_string(self.reference(revision)).ok()?;
        let commit = text.trim();
        is_hex(commit, 40).then(|| commit.to_owned())
    }

    /// Writes the commit of a revision.
    pub(crate) fn set_commit(&self, revision: &Revision, commit: &str) -> Result<()> {
        let path = self.reference(revision);
        if revision.is_commit() || self.commit(revision).is_some_and(|old| old == commit) {
            return Ok(());
        }
        create_parent(&path)?;
        let temporary = path.with_extension(format!("pelton-{}", std::process::id()));
        fs::write(&temporary, commit).map_err(Error::io(&temporary))?;
        fs::rename(&temporary, &path).map_err(Error::io(&path))
    }

    fn reference(&self, revision: &Revision) -> PathBuf {
        let refs = self.folder.join("refs");
        revision.as_str().split('/').fold(refs, |path, part| path.join(part))
    }

    /// The revisions that the cache knows, with their commits.
    pub(crate) fn revisions(&self) -> Vec<(Revision, String)> {
        let refs = self.folder.join("refs");
        let mut found = Vec::new();
        for path in files_below(&refs, 4) {
            let Ok(name) = path.strip_prefix(&refs) else { continue };
            let parts: Option<Vec<&str>> = name.iter().map(|part| part.to_str()).collect();
            let revision = parts.and_then(|parts| parts.join("/").parse::<Revision>().ok());
            if let Some((revision, commit)) = revision.and_then(|r| self.commit(&r).map(|c| (r, c)))
            {
                found.push((revision, commit));
            }
        }
        found.sort();
        found
    }

    /// Puts a blob into a snapshot: by a relative link, or as the file itself where the system has
    /// no links.
    pub(crate) fn link(&self, etag: &str, commit: &str, name: &FileName) -> Result<()> {
        let path = self.file(commit, name);
        create_parent(&path)?;
        let up = "../".repeat(name.names().count() + 1);
        let target = PathBuf::from(format!("{up}blobs/{etag}"));
        if fs::read_link(&path).is_ok_and(|found| found == target) {
            return Ok(());
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(&path)(error));
            }
            _ => {}
        }
        if symlink(&target, &path).is_ok() {
            return Ok(());
        }
        // as Python does on such systems: the snapshot has the file and the blob goes
        let blob = self.blobs().join(etag);
        fs::rename(&blob, &path).map_err(Error::io(&path))
    }
}

#[cfg(unix)]
fn symlink(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Creates the folder of a file.
pub(crate) fn create_parent(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) => fs::create_dir_all(folder).map_err(Error::io(folder)),
        None => Ok(()),
    }
}

/// The files below a folder, to a depth, sorted. Unreadable ones are left out, and links to folders
/// are not followed.
pub(crate) fn files_below(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => found.extend(files_below(&path, depth - 1)),
            Ok(kind) if kind.is_dir() => {}
            // a link counts as the file to which it leads
            Ok(_) if path.is_file() => found.push(path),
            _ => {}
        }
    }
    found.sort();
    found
}
