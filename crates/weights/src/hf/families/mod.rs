//! The table of model families.

mod cohere;
mod deepseek;
mod encoders;
mod experts;
mod falcon_h1;
mod gated;
mod gemma;
mod granite;
mod hybrid;
mod llama;
mod nemotron_h;
mod older;
mod published;
mod recent;
mod states;
mod various;

use super::config::Stated;
use super::family::Family;
use super::whisper;
use crate::{Error, Problem};

const ALL: &[&[Family]] = &[
    // before the families of Granite without recurrent layers, of the same class
    states::FAMILIES,
    // before the family of Mistral 3, one of whose classes has both
    deepseek::FAMILIES,
    llama::FAMILIES,
    gemma::FAMILIES,
    various::FAMILIES,
    cohere::FAMILIES,
    older::FAMILIES,
    experts::FAMILIES,
    recent::FAMILIES,
    gated::FAMILIES,
    published::FAMILIES,
    // after the family of its models with experts, one of whose classes has both
    granite::FAMILIES,
    hybrid::FAMILIES,
    nemotron_h::FAMILIES,
    falcon_h1::FAMILIES,
    encoders::FAMILIES,
];

pub(super) use gemma::full_head_dim;

/// The families whose models are of an architecture in GGUF.
pub(super) fn families_of(architecture: &str) -> impl Iterator<Item = &'static Family> {
    let all = ALL.iter().flat_map(|group| group.iter());
    all.filter(move |family| family.architecture == architecture)
}

/// The family of a configuration.
pub(super) fn family_of(stated: &Stated) -> Result<&'static Family, Error> {
    let mut all = ALL.iter().flat_map(|group| group.iter());
    all.find(|family| family.has(stated)).ok_or_else(|| {
        let found = if stated.class.is_empty() {
            format!("of model_type {:?}", stated.model_type)
        } else {
            format!("{:?}", stated.class)
        };
        let mut classes: Vec<_> =
            ALL.iter().flat_map(|group| group.iter()).flat_map(|family| family.classes).collect();
        classes.extend(&whisper::CLASSES);
        classes.sort();
        let supported = classes.into_iter().copied().collect::<Vec<_>>().join(", ");
        stated.all.error(Problem::Architecture { found, supported })
    })
}
