//! Models in the folders of LM Studio: `OWNER/NAME/FILES`.

use std::fs;

use super::model::{Model, Place, all_in_folder, in_folder};
use crate::{
    name::{Repository, RepositoryReference, Revision},
    settings::Settings,
};

/// Finds a repository. Its folders tell no revision, so they count as the main one.
pub(super) fn find(
    settings: &Settings,
    wanted: &RepositoryReference,
    budget: Option<u64>,
) -> Option<Model> {
    if !wanted.revision.is_main() {
        return None;
    }
    let repository = &wanted.repository;
    settings.lm_studio.iter().find_map(|root| {
        let folder = root.join(repository.owner()).join(repository.name());
        in_folder(Place::LmStudio, &folder, wanted, budget)
    })
}

pub(super) fn list(settings: &Settings) -> Vec<Model> {
    let mut models = Vec::new();
    for root in &settings.lm_studio {
        for owner in fs::read_dir(root).into_iter().flatten().flatten() {
            for folder in fs::read_dir(owner.path()).into_iter().flatten().flatten() {
                let (owner, name) = (owner.file_name(), folder.file_name());
                let text = owner.to_str().zip(name.to_str());
                let repository =
                    text.and_then(|(o, n)| format!("{o}/{n}").parse::<Repository>().ok());
                let Some(repository) = repository else { continue };
                let main = Revision::default();
                models.extend(all_in_folder(Place::LmStudio, &folder.path(), &repository, &main));
            }
        }
    }
    models
}
