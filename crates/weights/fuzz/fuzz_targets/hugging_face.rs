//! Opens arbitrary bytes as the files of a Hugging Face directory and reads all of it.
//!
//! The input is a text of `config.json`, a zero byte, one of `tokenizer.json`, a zero byte, and
//! the safetensors file without the length of its header; a further zero byte ends the header.
//! Run in `crates/weights`:
//!
//! ```text
//! cargo +nightly fuzz run hugging_face fuzz/corpus/hugging_face
//! ```

#![no_main]

#[path = "../../tests/common/folder_case.rs"]
mod folder_case;

use std::fs;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(4, |byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (config, tokenizer, header, data) = (next(), next(), next(), next());
    let Ok(folder) = tempfile::tempdir() else { return };
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend(header);
    weights.extend(data);
    let mut files = vec![("config.json", config), ("model.safetensors", &weights)];
    if !tokenizer.is_empty() {
        files.push(("tokenizer.json", tokenizer));
    }
    for (name, bytes) in files {
        if fs::write(folder.path().join(name), bytes).is_err() {
            return;
        }
    }
    folder_case::read_everything(folder.path());
});
