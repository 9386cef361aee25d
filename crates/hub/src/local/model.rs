//! Models in folders that hold the files of a repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    cache::files_below,
    choose::{Choice, Entry, choose, ggmls, ggufs},
    error::{Error, Result},
    name::{FileName, Part, Repository, RepositoryReference, Revision},
    settings::Towers,
};

/// The largest depth of folders within a repository.
pub(super) const DEPTH: usize = 4;

/// Where a model was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The hub's cache, which Pelton shares with Python's tools.
    Cache,
    /// Files that Pelton downloaded from other servers.
    Downloads,
    /// LM Studio's folder.
    LmStudio,
    /// Ollama's folder.
    Ollama,
}

impl Place {
    /// The place in a few words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cache => "hub cache",
            Self::Downloads => "downloads",
            Self::LmStudio => "LM Studio",
            Self::Ollama => "Ollama",
        }
    }
}

/// A complete model on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Model {
    /// A name by which [`Hub::find`](crate::Hub::find) finds it.
    pub name: String,
    /// Where it was found.
    pub place: Place,
    /// Its GGUF file (the first of several), or its directory.
    pub path: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its files.
    pub files: Vec<PathBuf>,
    /// Why this one of several, if the reference left that open.
    pub reason: Option<String>,
    /// Files that were downloaded now and for which the host has no hash, so that only their size
    /// was compared.
    pub unverified: Vec<String>,
}

/// The files of a folder as a repository has them.
pub(super) fn entries(folder: &Path) -> Vec<Entry> {
    let entry = |path: PathBuf| {
        let names: Option<Vec<&str>> =
            path.strip_prefix(folder).ok()?.iter().map(|part| part.to_str()).collect();
        let name = names?.join("/").parse().ok()?;
        Some(Entry { name, size: fs::metadata(&path).ok()?.len(), hash: None })
    };
    files_below(folder, DEPTH).into_iter().filter_map(entry).collect()
}

/// The path of a file in a folder.
pub(super) fn path_of(folder: &Path, name: &FileName) -> PathBuf {
    name.names().fold(folder.to_owned(), |path, part| path.join(part))
}

/// A choice of a folder's files as a model.
pub(crate) fn model(name: String, place: Place, folder: &Path, choice: &Choice) -> Model {
    let files = choice.files.iter().map(|file| path_of(folder, &file.name)).collect();
    let path = choice.main.as_ref().map_or_else(|| folder.to_owned(), |main| path_of(folder, main));
    let (bytes, reason, unverified) = (choice.bytes(), choice.reason.clone(), Vec::new());
    Model { name, place, path, bytes, files, reason, unverified }
}

/// The model of a folder that a reference means.
pub(super) fn in_folder(
    place: Place,
    folder: &Path,
    wanted: &RepositoryReference,
    budget: Option<u64>,
) -> Option<Model> {
    let entries = entries(folder);
    let choice = choose("", &entries, &wanted.part, budget, &Towers::Auto).ok()?;
    let name = name_of(&wanted.repository, &wanted.revision, &choice);
    Some(model(name, place, folder, &choice))
}

/// All models of a folder that holds a repository at a revision.
pub(super) fn all_in_folder(
    place: Place,
    folder: &Path,
    repository: &Repository,
    revision: &Revision,
) -> Vec<Model> {
    let entries = entries(folder);
    let mut models: Vec<Model> = Vec::new();
    for gguf in ggufs(&entries).into_iter().chain(ggmls(&entries)) {
        let Some(main) = gguf.main().cloned() else { continue };
        let choice =
            Choice { main: Some(main.clone()), tag: gguf.tag, files: gguf.files, reason: None };
        let choice = choice.with_tower(&entries);
        let mut found = model(name_of(repository, revision, &choice), place, folder, &choice);
        if models.iter().any(|other| other.name == found.name) {
            found.name = with_part(repository, revision, Part::File(main));
        }
        models.push(found);
    }
    if models.is_empty()
        && let Ok(choice) = choose("", &entries, &Part::Any, None, &Towers::Auto)
    {
        models.push(model(name_of(repository, revision, &choice), place, folder, &choice));
    }
    models
}

/// The name of a choice: with its quantization, or with its file where the name of that has none.
pub(super) fn name_of(repository: &Repository, revision: &Revision, choice: &Choice) -> String {
    let part = match (&choice.tag, &choice.main) {
        (Some(tag), _) => Part::Quantization(tag.clone()),
        (None, Some(file)) => Part::File(file.clone()),
        (None, None) => Part::Any,
    };
    with_part(repository, revision, part)
}

pub(super) fn with_part(repository: &Repository, revision: &Revision, part: Part) -> String {
    let (repository, revision) = (repository.clone(), revision.clone());
    RepositoryReference { repository, revision, part }.to_string()
}

/// A text that is safe as the name of one folder.
pub(super) fn as_name(text: &str) -> Result<FileName> {
    let name: FileName = text.parse()?;
    match name.names().count() {
        1 => Ok(name),
        _ => Err(Error::name(text, "expected one name, without /")),
    }
}
