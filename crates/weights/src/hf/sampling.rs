//! Defaults of sampling by `generation_config.json`.

use super::json::Object;
use super::keys::Out;
use crate::Error;

/// Keys of GGUF with those of transformers: integers, then numbers.
const SIZES: &[(&str, &[&str])] =
    &[("top_k", &["top_k"]), ("penalty_last_n", &["penalty_last_n"]), ("mirostat", &["mirostat"])];
const NUMBERS: &[(&str, &[&str])] = &[
    ("top_p", &["top_p"]),
    ("min_p", &["min_p"]),
    ("xtc_probability", &["xtc_probability"]),
    ("xtc_threshold", &["xtc_threshold"]),
    ("temp", &["temperature"]),
    ("penalty_repeat", &["penalty_repeat", "repetition_penalty"]),
    ("mirostat_tau", &["mirostat_tau"]),
    ("mirostat_eta", &["mirostat_eta"]),
];

/// Sets `general.sampling.*`.
pub(super) fn set(generation: &Object, out: &mut Out) -> Result<(), Error> {
    for (key, names) in SIZES {
        if let Some(value) = generation.size(names)? {
            out.set(&format!("general.sampling.{key}"), value as i32);
        }
    }
    for (key, names) in NUMBERS {
        if let Some(value) = generation.number(names)? {
            out.set(&format!("general.sampling.{key}"), value as f32);
        }
    }
    Ok(())
}
