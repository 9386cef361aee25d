//! Models in the folders of Ollama: a manifest names the layers of a model, and a layer is a file
//! `blobs/sha256-HASH`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::model::{Model, Place, as_name};
use crate::{
    cache::files_below,
    name::{Part, RepositoryReference, ShortName, is_hex},
    settings::Settings,
};

/// Ollama's own registry, and the folder of models without an owner in it.
const LIBRARY: [&str; 2] = ["registry.ollama.ai", "library"];
/// The registry of models that Ollama took from the hub.
const HUB: &str = "hf.co";
/// The largest manifest, in bytes.
const MANIFEST_BYTES: u64 = 1 << 20;
/// The layer with the weights.
const MODEL: &str = "application/vnd.ollama.image.model";
/// The layer with the vision tower. Newer models have it in the layer of the weights.
const PROJECTOR: &str = "application/vnd.ollama.image.projector";

#[derive(Deserialize)]
struct Manifest {
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Layer {
    #[serde(rename = "mediaType")]
    kind: String,
    digest: String,
}

pub(super) fn find(settings: &Settings, short: &ShortName) -> Option<Model> {
    let (name, tag) = (as_name(short.name()).ok()?, as_name(short.tag()).ok()?);
    let [registry, owner] = LIBRARY;
    settings.ollama.iter().find_map(|root| {
        let manifest = manifest(root, [registry, owner, name.as_str(), tag.as_str()])?;
        model(root, &manifest, short.to_string())
    })
}

/// Finds a model that Ollama took from the hub, or from a user of its own registry.
pub(super) fn find_repository(settings: &Settings, wanted: &RepositoryReference) -> Option<Model> {
    let tag = match &wanted.part {
        Part::Any => "latest",
        Part::Quantization(tag) => tag.as_str(),
        Part::File(_) => return None,
    };
    if !wanted.revision.is_main() {
        return None;
    }
    let (owner, name) = (wanted.repository.owner(), wanted.repository.name());
    settings.ollama.iter().find_map(|root| {
        [HUB, LIBRARY[0]].into_iter().find_map(|registry| {
            let manifest = manifest(root, [registry, owner, name, tag])?;
            model(root, &manifest, wanted.to_string())
        })
    })
}

/// The manifest of a registry, an owner, a name and a tag. Letters are compared without case, as
/// the folders have that in which somebody typed them.
fn manifest(root: &Path, names: [&str; 4]) -> Option<PathBuf> {
    names.iter().try_fold(root.join("manifests"), |folder, name| {
        let mut entries = fs::read_dir(&folder).ok()?.flatten();
        let is_named = |entry: &fs::DirEntry| entry.file_name().eq_ignore_ascii_case(name);
        let exact = folder.join(name);
        if exact.exists() { Some(exact) } else { entries.find(is_named).map(|entry| entry.path()) }
    })
}

pub(super) fn list(settings: &Settings) -> Vec<Model> {
    let mut models = Vec::new();
    for root in &settings.ollama {
        let manifests = root.join("manifests");
        for path in files_below(&manifests, 4) {
            let Ok(name) = path.strip_prefix(&manifests) else { continue };
            let Some(parts) = name.iter().map(|part| part.to_str()).collect::<Option<Vec<_>>>()
            else {
                continue;
            };
            let name = match parts[..] {
                [registry, owner, name, tag] if [registry, owner] == LIBRARY => match tag {
                    "latest" => name.to_owned(),
                    tag => format!("{name}:{tag}"),
                },
                [registry, owner, name, tag] if [HUB, LIBRARY[0]].contains(&registry) => {
                    match tag {
                        "latest" => format!("{owner}/{name}"),
                        tag => format!("{owner}/{name}:{tag}"),
                    }
                }
                _ => continue,
            };
            models.extend(model(root, &path, name));
        }
    }
    models
}

/// The model of a manifest, if its weights are there, and its vision tower if it names one.
fn model(root: &Path, manifest: &Path, name: String) -> Option<Model> {
    let manifest = read(manifest)?;
    let path = manifest.blob(root, MODEL)?;
    let mut files = vec![path.clone()];
    if manifest.layers.iter().any(|layer| layer.kind == PROJECTOR) {
        files.push(manifest.blob(root, PROJECTOR)?);
    }
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |metadata| metadata.len());
    let bytes = files.iter().map(size).sum();
    let (place, unverified) = (Place::Ollama, Vec::new());
    Some(Model { name, place, path, bytes, files, reason: None, unverified })
}

/// The file of the vision tower that Ollama keeps for the weights in `blob`.
pub fn projector_of_blob(blob: &Path) -> Option<PathBuf> {
    let hash = blob.file_name()?.to_str()?.strip_prefix("sha256-")?;
    let (folder, digest) = (blob.parent()?, format!("sha256:{hash}"));
    let root = folder.parent().filter(|_| folder.ends_with("blobs") && is_hex(hash, 64))?;
    files_below(&root.join("manifests"), 4).into_iter().find_map(|path| {
        let manifest = read(&path)?;
        let is_own = |layer: &Layer| layer.kind == MODEL && layer.digest == digest;
        manifest.layers.iter().any(is_own).then(|| manifest.blob(root, PROJECTOR))?
    })
}

fn read(manifest: &Path) -> Option<Manifest> {
    if fs::metadata(manifest).ok()?.len() > MANIFEST_BYTES {
        return None;
    }
    serde_json::from_slice(&fs::read(manifest).ok()?).ok()
}

impl Manifest {
    /// The file of the only layer of a kind, if it is there.
    fn blob(&self, root: &Path, kind: &str) -> Option<PathBuf> {
        let mut layers = self.layers.iter().filter(|layer| layer.kind == kind);
        let (layer, None) = (layers.next()?, layers.next()) else { return None };
        let hash = layer.digest.strip_prefix("sha256:").filter(|hash| is_hex(hash, 64))?;
        let path = root.join("blobs").join(format!("sha256-{hash}"));
        path.is_file().then_some(path)
    }
}
