//! The contents of a directory, and its name.

use std::path::Path;

use crate::gguf::TensorEntry;
use crate::metadata::Entries;

/// The contents of a directory.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) metadata: Entries,
    pub(crate) tensors: Vec<TensorEntry>,
    /// Size of the safetensors files in bytes.
    pub(crate) file_bytes: u64,
}

/// The model's name: that of the folder, or of the repository for a snapshot in the cache of the
/// Hugging Face hub (`models--OWNER--NAME/snapshots/COMMIT`).
pub(super) fn name_of(folder: &Path) -> Option<String> {
    let own = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    // `.` and `..` have the name of their folder
    let real = match folder.file_name() {
        Some(_) => std::path::absolute(folder),
        None => folder.canonicalize(),
    };
    let folder = real.as_deref().unwrap_or(folder);
    let parent = folder.parent();
    if parent.and_then(own).as_deref() == Some("snapshots")
        && let Some(repository) = parent.and_then(Path::parent).and_then(own)
        && let Some(name) = repository.strip_prefix("models--")
    {
        return Some(name.rsplit_once("--").map_or(name, |(_, name)| name).to_owned());
    }
    own(folder)
}
