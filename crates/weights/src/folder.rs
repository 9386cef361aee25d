//! The model that a folder holds.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{Error, Problem, ggml};

/// Names of files in an error.
const SHOWN: usize = 8;

/// The model of a folder: the folder itself if it has `config.json`, or its one `.gguf` file, or
/// else its one ggml file of whisper.cpp. In the cache of the Hugging Face hub
/// (`models--OWNER--NAME`) it is the snapshot of a repository.
///
/// # Errors
/// If the folder has several models, or an adapter alone.
pub(crate) fn model_of(folder: &Path) -> Result<PathBuf, Error> {
    if folder.join("config.json").exists() {
        return Ok(folder.to_owned());
    }
    if folder.join("adapter_config.json").is_file() {
        return Err(Error::at(folder, Problem::AdapterFolder));
    }
    if let Some(snapshot) = snapshot(folder)? {
        return model_of(&snapshot);
    }
    let mut files = gguf_files(folder);
    if files.is_empty() {
        files = ggml_files(folder);
    }
    match files.len() {
        0 => Ok(folder.to_owned()),
        1 => Ok(files.remove(0)),
        _ => Err(several(folder, &files)),
    }
}

/// The newest snapshot of a repository in the hub's cache: the one that `refs/main` names, or the
/// only one.
fn snapshot(folder: &Path) -> Result<Option<PathBuf>, Error> {
    let snapshots = folder.join("snapshots");
    if !snapshots.is_dir() {
        return Ok(None);
    }
    if let Ok(commit) = fs::read_to_string(folder.join("refs").join("main")) {
        let commit = commit.trim();
        let found = snapshots.join(commit);
        if !commit.is_empty() && !commit.contains(['/', '\\', '.']) && found.is_dir() {
            return Ok(Some(found));
        }
    }
    let mut all = entries(&snapshots);
    all.retain(|path| path.is_dir());
    match all.len() {
        0 => Ok(None),
        1 => Ok(Some(all.remove(0))),
        _ => Err(several(folder, &all)),
    }
}

/// The `.gguf` files of a folder that can be opened: neither later shards nor image encoders.
fn gguf_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = entries(folder);
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let later = name.contains("-of-") && !name.contains("-00001-of-");
        name.ends_with(".gguf") && !name.contains("mmproj") && !later && path.is_file()
    });
    files
}

/// The files of a folder that may be a vision tower.
pub(crate) fn projector_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = entries(folder);
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let is_known = name.ends_with(".gguf") || name.ends_with(".mmproj");
        is_known && !name.contains("-of-") && path.is_file()
    });
    files
}

/// The ggml files of a folder, by their first bytes: `.bin` is the ending of many other files.
fn ggml_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = entries(folder);
    files.retain(|path| {
        let mut magic = [0; 4];
        let read = |mut file: fs::File| file.read_exact(&mut magic);
        path.extension().is_some_and(|ending| ending == "bin")
            && path.is_file()
            && fs::File::open(path).and_then(read).is_ok()
            && ggml::is_ggml(&magic)
    });
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<_> = entries.map(|entry| entry.path()).collect();
    all.sort();
    all
}

fn several(folder: &Path, files: &[PathBuf]) -> Error {
    let names = files
        .iter()
        .take(SHOWN)
        .map(|path| path.strip_prefix(folder).unwrap_or(path).display().to_string());
    let mut found = names.collect::<Vec<_>>().join(", ");
    if files.len() > SHOWN {
        found.push_str(", …");
    }
    Error::at(folder, Problem::SeveralModels { count: files.len(), found })
}
