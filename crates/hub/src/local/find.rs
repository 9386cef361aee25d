//! The search for models in all places.

use std::{fs, path::PathBuf};

use sha2::{Digest, Sha256};

use super::{Model, Place, hub, lm_studio, ollama};
use crate::{
    cache::files_below,
    name::{FileName, Reference},
    settings::Settings,
};

/// Finds a model without asking any host. `budget` is the memory for it in bytes, if it is known.
pub(crate) fn find(
    settings: &Settings,
    reference: &Reference,
    budget: Option<u64>,
) -> Option<Model> {
    match reference {
        Reference::Url(url) => {
            let path = downloaded(settings, url.host(), url.url(), url.file());
            let bytes = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?.len();
            let (name, files) = (reference.to_string(), vec![path.clone()]);
            let (place, unverified) = (Place::Downloads, Vec::new());
            Some(Model { name, place, path, bytes, files, reason: None, unverified })
        }
        Reference::Repository(wanted) => hub::find(settings, wanted, budget)
            .or_else(|| lm_studio::find(settings, wanted, budget))
            .or_else(|| ollama::find_repository(settings, wanted)),
        Reference::Short(short) => {
            let wanted = short.repository();
            let in_hub = wanted.as_ref().and_then(|wanted| {
                hub::find(settings, wanted, budget)
                    .or_else(|| lm_studio::find(settings, wanted, budget))
            });
            in_hub.or_else(|| ollama::find(settings, short))
        }
    }
}

/// All complete models of this machine that [`find`] finds, by their names.
pub(crate) fn list(settings: &Settings) -> Vec<Model> {
    let mut models = hub::list(settings);
    models.extend(downloads(settings));
    models.extend(lm_studio::list(settings));
    models.extend(ollama::list(settings));
    let is_found = |reference| find(settings, &reference, None).is_some();
    models.retain(|model| model.name.parse::<Reference>().is_ok_and(is_found));
    models.sort_by_key(|model| model.name.to_ascii_lowercase());
    models
}

/// The path of a file of another server: a folder for the host, one for the address, the file.
pub(crate) fn downloaded(settings: &Settings, host: &str, url: &str, file: &FileName) -> PathBuf {
    let digest: String = Sha256::digest(url).iter().take(8).map(|b| format!("{b:02x}")).collect();
    // the colon before a port is no character of a folder on every system
    let host: String = host.chars().map(|c| if c == ':' { '_' } else { c }).collect();
    let folder = settings.downloads.join(host).join(digest);
    folder.join(file.as_str())
}

/// The name of the file beside a download that has its address.
pub(crate) const ADDRESS: &str = "address.txt";

fn downloads(settings: &Settings) -> Vec<Model> {
    let mut models = Vec::new();
    for path in files_below(&settings.downloads, 2) {
        if path.file_name().is_some_and(|name| name == ADDRESS) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let reference = text.trim().parse::<Reference>().ok();
            models.extend(reference.and_then(|reference| find(settings, &reference, None)));
        }
    }
    models
}
