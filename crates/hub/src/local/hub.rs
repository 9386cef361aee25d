//! Models in the hub's cache.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use super::model::{DEPTH, Model, Place, all_in_folder, entries, in_folder, path_of};
use crate::{
    cache::{RepositoryCache, files_below},
    choose::{Entry, ggufs, is_tower},
    error::{Error, Result},
    name::{Part, Repository, RepositoryReference, Revision},
    settings::Settings,
};

pub(super) fn find(
    settings: &Settings,
    wanted: &RepositoryReference,
    budget: Option<u64>,
) -> Option<Model> {
    let cache = RepositoryCache::new(&settings.cache, &wanted.repository);
    let commit = cache.commit(&wanted.revision)?;
    in_folder(Place::Cache, &cache.snapshot(&commit), wanted, budget)
}

pub(super) fn list(settings: &Settings) -> Vec<Model> {
    let mut models = Vec::new();
    let Ok(folders) = fs::read_dir(&settings.cache) else { return models };
    for folder in folders.flatten() {
        let name = folder.file_name();
        let Some(repository) = name.to_str().and_then(repository_of) else { continue };
        let cache = RepositoryCache::new(&settings.cache, &repository);
        let mut named = HashSet::new();
        let mut add = |revision: &Revision, commit: &str| {
            let snapshot = cache.snapshot(commit);
            models.extend(all_in_folder(Place::Cache, &snapshot, &repository, revision));
        };
        for (revision, commit) in cache.revisions() {
            add(&revision, &commit);
            named.insert(commit);
        }
        for snapshot in fs::read_dir(cache.snapshots()).into_iter().flatten().flatten() {
            let name = snapshot.file_name();
            let revision = name.to_str().and_then(|name| name.parse::<Revision>().ok());
            if let Some(commit) = revision.filter(Revision::is_commit)
                && !named.contains(commit.as_str())
            {
                add(&commit, commit.as_str());
            }
        }
    }
    models
}

/// The repository of a folder's name.
fn repository_of(folder: &str) -> Option<Repository> {
    let (owner, name) = folder.strip_prefix("models--")?.split_once("--")?;
    format!("{owner}/{name}").parse().ok()
}

/// The files and bytes that a removal has freed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// The files of snapshots that are gone, by their paths.
    pub files: Vec<PathBuf>,
    /// Bytes on the disk that are free now.
    pub bytes: u64,
}

/// Removes a model from the cache: a whole repository, or one quantization or file of it.
pub(crate) fn remove(settings: &Settings, wanted: &RepositoryReference) -> Result<Option<Removed>> {
    let cache = RepositoryCache::new(&settings.cache, &wanted.repository);
    if !cache.folder().is_dir() {
        return Ok(None);
    }
    if wanted.part == Part::Any && wanted.revision.is_main() {
        let files = files_below(&cache.snapshots(), DEPTH + 1);
        let bytes = bytes_below(cache.folder());
        remove_folder(cache.folder())?;
        remove_folder(cache.locks())?;
        return Ok(Some(Removed { files, bytes }));
    }
    let Some(mut model) = find(settings, wanted, None) else { return Ok(None) };
    if let Some(commit) = cache.commit(&wanted.revision) {
        keep_shared_tower(&cache.snapshot(&commit), &mut model);
    }
    let before = bytes_below(cache.folder());
    for file in &model.files {
        fs::remove_file(file).map_err(Error::io(file))?;
    }
    remove_unused_blobs(&cache)?;
    let bytes = before.saturating_sub(bytes_below(cache.folder()));
    if files_below(&cache.snapshots(), DEPTH + 1).is_empty() {
        remove_folder(cache.folder())?;
        remove_folder(cache.locks())?;
    }
    Ok(Some(Removed { files: model.files, bytes }))
}

/// Takes the vision tower out of a model's files where another model of the folder has it too.
fn keep_shared_tower(folder: &Path, model: &mut Model) {
    let entries = entries(folder);
    let is_own = |entry: &Entry| model.files.contains(&path_of(folder, &entry.name));
    let others: Vec<Entry> = entries.iter().filter(|entry| !is_own(entry)).cloned().collect();
    if !ggufs(&others).is_empty() {
        let towers: Vec<PathBuf> = entries
            .iter()
            .filter(|entry| is_tower(&entry.name))
            .map(|entry| path_of(folder, &entry.name))
            .collect();
        model.files.retain(|file| *file == model.path || !towers.contains(file));
    }
}

/// Removes the blobs to which no snapshot links. Incomplete ones stay.
fn remove_unused_blobs(cache: &RepositoryCache) -> Result<()> {
    let used: HashSet<PathBuf> = files_below(&cache.snapshots(), DEPTH + 1)
        .iter()
        .filter_map(|file| fs::canonicalize(file).ok())
        .collect();
    for blob in files_below(&cache.blobs(), 0) {
        let is_complete = blob.extension().is_none();
        if is_complete && fs::canonicalize(&blob).is_ok_and(|path| !used.contains(&path)) {
            fs::remove_file(&blob).map_err(Error::io(&blob))?;
        }
    }
    Ok(())
}

/// Bytes of the files below a folder, where links count nothing.
pub(super) fn bytes_below(folder: &Path) -> u64 {
    let size = |path: &PathBuf| {
        let metadata = fs::symlink_metadata(path).ok()?;
        metadata.is_file().then_some(metadata.len())
    };
    files_below(folder, DEPTH + 6).iter().filter_map(size).sum()
}

fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(folder)(error)),
        _ => Ok(()),
    }
}
