//! The models that are part of the library.

use pelton_weights::Checkpoint;

use crate::Error;

/// The model that is part of the library: a few million parameters, enough to tell a short story.
///
/// # Errors
///
/// If the library was built from a broken file.
pub fn built_in() -> Result<Checkpoint, Error> {
    Ok(Checkpoint::from_bytes("the built-in model", pelton_tiny::GGUF)?)
}

/// The text half of the model that sees, which is part of the library. It answers questions about
/// drawn shapes and numbers, and knows nothing of photographs.
///
/// # Errors
///
/// If the library was built from a broken file.
pub fn built_in_vision() -> Result<Checkpoint, Error> {
    Ok(Checkpoint::from_bytes("the built-in vision model", pelton_tiny_vision::GGUF)?)
}

/// Its tower.
pub(crate) fn built_in_tower() -> Result<Checkpoint, Error> {
    let name = "the tower of the built-in vision model";
    Ok(Checkpoint::tower_from_bytes(name, pelton_tiny_vision::TOWER)?)
}

/// The speech model that is part of the library. It recognizes synthetic speech of a small grammar,
/// and does not understand people.
///
/// # Errors
///
/// If the library was built from a broken file.
pub fn built_in_speech() -> Result<Checkpoint, Error> {
    Ok(Checkpoint::from_bytes("the built-in speech model", pelton_tiny_speech::GGUF)?)
}
