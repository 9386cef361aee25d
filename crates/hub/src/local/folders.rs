//! The folders in which models are looked for.

use std::path::{Path, PathBuf};

use super::{hub::bytes_below, model::Place};
use crate::settings::Settings;

/// A folder in which models are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Folder {
    /// Whose folder it is.
    pub place: Place,
    /// Its path.
    pub path: PathBuf,
    /// Bytes of the files in it, incomplete downloads included; `None` if there is no such folder.
    pub bytes: Option<u64>,
    /// Bytes that its file system has for this user, if the system says so.
    pub free: Option<u64>,
}

/// The folders of the settings.
pub(crate) fn folders(settings: &Settings) -> Vec<Folder> {
    let folder = |(place, path): (Place, &PathBuf)| Folder {
        place,
        path: path.clone(),
        bytes: path.is_dir().then(|| bytes_below(path)),
        free: free(path),
    };
    paths(settings).map(folder).collect()
}

/// The folders that exist, in words, for errors; the hub's cache is one of them in any case.
pub(crate) fn searched(settings: &Settings) -> String {
    let exist = paths(settings).filter(|(place, path)| *place == Place::Cache || path.is_dir());
    let words = exist.map(|(place, path)| format!("{} {}", place.name(), path.display()));
    words.collect::<Vec<_>>().join(", ")
}

fn paths(settings: &Settings) -> impl Iterator<Item = (Place, &PathBuf)> {
    let own = [(Place::Cache, &settings.cache), (Place::Downloads, &settings.downloads)];
    let lm_studio = settings.lm_studio.iter().map(|path| (Place::LmStudio, path));
    own.into_iter().chain(lm_studio).chain(settings.ollama.iter().map(|path| (Place::Ollama, path)))
}

/// Bytes that are free where a folder is or would be created.
fn free(path: &Path) -> Option<u64> {
    path.ancestors().find(|folder| folder.is_dir()).and_then(|at| fs4::available_space(at).ok())
}
