//! The files of a source: a path, or the name of a model where the feature `hub` is on.

use std::path::{Path, PathBuf};

use pelton_weights::{Checkpoint, Problem, Source};

use crate::{
    api::{LoadOptions, ModelSource},
    built_in::{built_in, built_in_speech, built_in_tower, built_in_vision},
    error::Error,
    vision::{self, OpenTower},
};

/// The checkpoint of a model of text, with its file.
///
/// # Errors
///
/// As [`checkpoint`]; [`Error::TowerAlone`] if the file is a vision tower's.
pub(crate) fn text(source: &ModelSource) -> Result<(PathBuf, Checkpoint), Error> {
    let (path, checkpoint) = checkpoint(source)?;
    match checkpoint.metadata().opt_string("general.architecture")? {
        Some("clip") => Err(Error::TowerAlone { file: path }),
        _ => Ok((path, checkpoint)),
    }
}

/// The checkpoint of a model of text or of a vision tower, with its file.
///
/// # Errors
///
/// If there is none, or it is not whole.
pub(crate) fn checkpoint(source: &ModelSource) -> Result<(PathBuf, Checkpoint), Error> {
    match source {
        ModelSource::Path(path) => opened(path.clone()),
        ModelSource::BuiltIn => Ok(("built-in".into(), built_in()?)),
        ModelSource::BuiltInVision => Ok(("built-in-vision".into(), built_in_vision()?)),
    }
}

/// The vision tower of the model `text`, whose file or directory is at `path`.
///
/// # Errors
///
/// If the options name a file that has none or is not whole, or if there are two towers. Also if
/// the tower of a directory, or one in the file of the text, cannot be read. A file next to the
/// text's that cannot be read is left out.
pub(crate) fn tower(
    source: &ModelSource,
    (path, text): (&Path, &Checkpoint),
    options: &LoadOptions,
) -> Result<Option<OpenTower>, Error> {
    if !options.pictures {
        return Ok(None);
    }
    if let Some(file) = &options.tower {
        let tower = Checkpoint::open_tower(file)?;
        let tower = tower.ok_or_else(|| Error::NoTower { file: file.clone() })?;
        return vision::open(tower, options).map(Some);
    }
    if *source == ModelSource::BuiltInVision {
        return vision::open(built_in_tower()?, options).map(Some);
    }
    if !path.exists() {
        return Ok(None);
    }
    let open = |path: &Path| match Checkpoint::open_tower(path)? {
        Some(tower) => vision::open(tower, options).map(Some),
        None => Ok(None),
    };
    let found = match projector_of_blob(path) {
        Some(file) => open(&file),
        None => open(path),
    };
    match found {
        Ok(None) if text.tensors().any(|tensor| tensor.name.starts_with("v.")) => {
            Err(Error::TowerInText { file: text.name().to_owned() })
        }
        Err(Error::Weights(error)) if matches!(error.problem(), Problem::SeveralTowers { .. }) => {
            Err(error.into())
        }
        Err(error @ Error::PictureBounds { .. }) => Err(error),
        Err(error) if text.source() == Source::HuggingFace => Err(Error::Tower(Box::new(error))),
        // the model answers texts all the same
        Err(error) => {
            tracing::warn!(%error, "pictures cannot be read");
            Ok(None)
        }
        found => found,
    }
}

/// The file of the tower that belongs to a file of weights in Ollama's folders.
#[cfg(feature = "hub")]
fn projector_of_blob(path: &Path) -> Option<PathBuf> {
    pelton_hub::projector_of_blob(path)
}

#[cfg(not(feature = "hub"))]
fn projector_of_blob(_: &Path) -> Option<PathBuf> {
    None
}

/// The checkpoint of a model of speech.
pub(crate) fn speech(source: ModelSource) -> Result<Checkpoint, Error> {
    match source {
        ModelSource::Path(path) => opened(path).map(|(_, checkpoint)| checkpoint),
        ModelSource::BuiltIn | ModelSource::BuiltInVision => built_in_speech(),
    }
}

fn opened(path: PathBuf) -> Result<(PathBuf, Checkpoint), Error> {
    let path = if path.exists() { path } else { named(path)? };
    let checkpoint = Checkpoint::open(&path)?;
    Ok((path, checkpoint))
}

/// The path of the model that a name means; a path that is no name stays as it is.
#[cfg(feature = "hub")]
fn named(path: PathBuf) -> Result<PathBuf, Error> {
    use pelton_hub::{Cancel, Hub, Reference, Settings};

    /// The part of the free memory that a model may take, where several files of it
    /// have different sizes.
    const SHARE: f64 = 0.7;

    let Some(reference) = path.to_str().and_then(Reference::of_word) else { return Ok(path) };
    let free = pelton_cpu::SystemMemory::read().available;
    let budget = free.map(|bytes| (bytes as f64 * SHARE) as u64);
    let model = Settings::from_environment()
        .and_then(Hub::new)
        .and_then(|hub| hub.get(&reference, budget, &mut |_| {}, &Cancel::default()));
    Ok(model.map_err(|error| Error::Name(error.to_string()))?.path)
}

#[cfg(not(feature = "hub"))]
fn named(path: PathBuf) -> Result<PathBuf, Error> {
    if is_name(&path) { Err(without_hub(&path)) } else { Ok(path) }
}

/// Whether a path has the form of a name, so that it is none of a file: no ending of a model
/// file, no start of a path.
#[cfg(any(test, not(feature = "hub")))]
fn is_name(path: &Path) -> bool {
    const ENDINGS: [&str; 3] = ["gguf", "safetensors", "bin"];
    let Some(word) = path.to_str() else { return false };
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    !word.is_empty()
        && !word.contains(|c: char| c.is_whitespace() || c == '\\')
        && !word.starts_with(['.', '/', '~'])
        && (word.starts_with("hf.co/") || word.contains("://") || word.matches('/').count() < 2)
        && !ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
}

#[cfg(any(test, not(feature = "hub")))]
fn without_hub(path: &Path) -> Error {
    Error::Name(format!(
        "{}: there is no such file or folder; a name of a model needs the feature \"hub\" of the crate pelton",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_the_feature() {
        for name in ["qwen3:0.6b", "mistral", "Qwen/Qwen3-0.6B-GGUF:Q8_0", "hf.co/o/n"] {
            assert!(is_name(Path::new(name)), "{name}");
        }
        for path in ["", "a b", "m.gguf", "M.GGUF", "./m", "/m", "~/m", "a/b/c", "C:\\m"] {
            assert!(!is_name(Path::new(path)), "{path}");
        }
        let error = without_hub(Path::new("mistral"));
        assert_eq!(error.kind(), crate::ErrorKind::NotFound);
        assert!(
            error.to_string().starts_with("mistral: ") && error.to_string().contains("\"hub\"")
        );
    }
}
