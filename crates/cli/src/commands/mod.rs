//! One file for each command.

pub(crate) mod bench;
#[cfg(feature = "gpu")]
pub(crate) mod devices;
pub(crate) mod inspect;
pub(crate) mod logits;
pub(crate) mod profile;
pub(crate) mod run;
pub(crate) mod tokenize;

use std::io::Read;

use anyhow::{Context, Result};

/// A text argument; `-` stands for what standard input holds.
fn text_or_stdin(text: &str) -> Result<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("standard input could not be read")?;
    String::from_utf8(bytes)
        .map_err(|e| e.utf8_error())
        .context("standard input is not text, expected UTF-8")
}
