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

/// The speech model that is part of the library. It recognizes synthetic speech of a small grammar,
/// and does not understand people.
///
/// # Errors
///
/// If the library was built from a broken file.
pub fn built_in_speech() -> Result<Checkpoint, Error> {
    Ok(Checkpoint::from_bytes("the built-in speech model", pelton_tiny_speech::GGUF)?)
}
