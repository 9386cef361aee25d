//! The source of a model.

use std::path::{Path, PathBuf};

/// The source of a model. Paths convert into it: `engine.load("model.gguf", &options)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelSource {
    /// A GGUF file, or a Hugging Face directory.
    Path(PathBuf),
    /// The model of seven million parameters within the library: a toy that tells stories, adds
    /// small numbers and calls tools.
    BuiltIn,
    /// The model of four million parameters within the library that sees: a toy that answers
    /// questions about drawn shapes and numbers.
    BuiltInVision,
}

impl ModelSource {
    /// The model within the library that a word names: `built-in` or `built-in-vision`.
    ///
    /// ```
    /// use pelton::ModelSource;
    ///
    /// assert_eq!(ModelSource::built_in("built-in"), Some(ModelSource::BuiltIn));
    /// assert_eq!(ModelSource::built_in("model.gguf"), None);
    /// ```
    pub fn built_in(word: &str) -> Option<Self> {
        match word {
            "built-in" => Some(Self::BuiltIn),
            "built-in-vision" => Some(Self::BuiltInVision),
            _ => None,
        }
    }
}

impl From<PathBuf> for ModelSource {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl From<&PathBuf> for ModelSource {
    fn from(path: &PathBuf) -> Self {
        Self::Path(path.clone())
    }
}

impl From<&Path> for ModelSource {
    fn from(path: &Path) -> Self {
        Self::Path(path.to_owned())
    }
}

impl From<&str> for ModelSource {
    fn from(path: &str) -> Self {
        Self::Path(path.into())
    }
}

impl From<String> for ModelSource {
    fn from(path: String) -> Self {
        Self::Path(path.into())
    }
}

impl From<&String> for ModelSource {
    fn from(path: &String) -> Self {
        Self::Path(path.into())
    }
}
