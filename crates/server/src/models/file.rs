//! The files of a model: their bytes, their time, and a digest of both.

use std::{
    fs::Metadata,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// The facts about the files of a model, for lists of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelFile {
    /// Bytes of the file, or of all files of the folder.
    pub(crate) bytes: u64,
    /// Seconds since 1970 of the last change.
    pub(crate) changed: u64,
    /// 64 hexadecimal digits, other ones for another path, size or time.
    pub(crate) digest: String,
}

impl ModelFile {
    /// Looks at a file or a folder; `None` for the built-in model.
    pub(crate) fn of(path: Option<&Path>) -> Self {
        let (mut bytes, mut changed) = (0u64, 0u64);
        let mut add = |file: Metadata| {
            let time = file.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let time = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            (bytes, changed) = (bytes + file.len(), changed.max(time));
        };
        if let Some(path) = path {
            match std::fs::read_dir(path) {
                Ok(files) => {
                    let files = files.filter_map(|file| path_metadata(&file.ok()?.path()));
                    files.filter(Metadata::is_file).for_each(&mut add);
                }
                Err(_) => path_metadata(path).into_iter().for_each(&mut add),
            }
        }
        let digest = digest(&(path, bytes, changed, env!("CARGO_PKG_VERSION")));
        Self { bytes, changed, digest }
    }
}

/// Follows links, as the caches of downloads have them.
fn path_metadata(path: &Path) -> Option<Metadata> {
    std::fs::metadata(path).ok()
}

fn digest(of: &impl Hash) -> String {
    let part = |number: u8| {
        let mut hasher = DefaultHasher::new();
        (number, of).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    };
    (0..4).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders() {
        let folder = std::env::temp_dir().join(format!("pelton-model-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["a", "b"] {
            std::fs::write(folder.join(name), b"123").unwrap();
        }
        let of = |path: &Path| ModelFile::of(Some(path));
        let (all, one) = (of(&folder), of(&folder.join("a")));
        assert_eq!((all.bytes, one.bytes), (6, 3));
        assert_eq!(one, of(&folder.join("a")));
        assert!(one.changed > 0 && one.digest.len() == 64);
        assert_ne!(one.digest, of(&folder.join("b")).digest);
        std::fs::write(folder.join("a"), b"1234").unwrap();
        assert_ne!(one.digest, of(&folder.join("a")).digest);
        std::fs::remove_dir_all(&folder).unwrap();
        let none = of(&folder);
        assert_eq!((none.bytes, none.digest.len()), (0, 64));
    }
}
