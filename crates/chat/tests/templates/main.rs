//! Templates of published models, compared with renderings by Python's Jinja2 in the settings of
//! transformers (`../shared/data/templates`) and with llama.cpp's expectations
//! (`../shared/data/vectors`).

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod adapted;
mod environment;
mod exceptions;
mod hostile;
mod pictures;
mod sharing;
mod vectors;
