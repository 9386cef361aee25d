//! Conversions of directories, compared with the GGUF files that llama.cpp's converter made of the
//! same directories.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::{fs, path::Path};

use pelton_weights::{Checkpoint, Conversion, Value};

/// Tensors that the two converters write otherwise, with the same effect.
const OTHERS: [(&str, &str); 14] = [
    // the one without a pooler, which scores depend on
    ("bert-reranker", "cls."),
    // the sum of the experts' last summands, which routers weight
    ("nomic-bert-moe", "ffn_exps_sum.bias"),
    // less their mean, which changes no choice
    ("sarvam-moe", "exp_probs_b"),
    // times factors, which keys have here
    ("falcon-h1", ""),
    // divisors of frequencies, rounded otherwise
    ("llama3", "rope_freqs"),
    ("exaone", "rope_freqs"),
    ("exaone4", "rope_freqs"),
    // factors, which keys have
    ("jais", "token_embd"),
    ("jais", "output.weight"),
    ("apertus", "ffn_act"),
    ("muse-glimmer", "attn_q_norm"),
    ("muse-glimmer", "attn_k_norm"),
    // one matrix for two
    ("minicpm3", "_b.weight"),
    ("plm", "_b.weight"),
];

/// Keys that llama.cpp's converter writes otherwise.
const KEYS: [(&str, &str); 8] = [
    // lengths that it has in its code, whatever the directory says
    ("falcon", "context_length"),
    ("granite-hybrid", "context_length"),
    ("nemotron-h", "context_length"),
    ("hunyuan-dense", "context_length"),
    ("nomic-bert-moe", "context_length"),
    // lists of equal numbers
    ("gemma4", "attention.head_count_kv"),
    // latent attention, absorbed or not
    ("minicpm3", "attention."),
    ("plm", "attention."),
];

fn is_known(list: &[(&str, &str)], model: &str, name: &str) -> bool {
    list.iter().any(|(of, part)| model.starts_with(of) && name.contains(part))
}

/// The shape without lengths of 1 at its end.
fn shape(shape: &[usize]) -> &[usize] {
    let ones = shape.iter().rev().take_while(|len| **len == 1).count();
    &shape[..shape.len() - ones]
}

#[test]
fn conversions_are_those_of_llama_cpp() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    let (mut models, mut permuted) = (0, 0);
    let mut faults = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.join("model.gguf");
        // formats that GGUF does not have
        let Some(directory) = Checkpoint::open(&path).ok().filter(|_| file.is_file()) else {
            continue;
        };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = Conversion::convert(&directory, None).unwrap();
        let found = Checkpoint::from_bytes(&name, bytes.write(Vec::new(), |_, _| {}).unwrap());
        let (found, expected) = (found.unwrap(), Checkpoint::open(file).unwrap());
        for own in found.tensors() {
            if expected.tensor(own.name).is_none() && !is_known(&OTHERS, &name, own.name) {
                faults.push(format!("{name}: {} is more", own.name));
            }
        }
        for of in expected.tensors().filter(|of| !is_known(&OTHERS, &name, of.name)) {
            match found.tensor(of.name) {
                Some(own) if shape(own.shape) != shape(of.shape) => {
                    faults.push(format!("{name}: {} {:?} {:?}", of.name, own.shape, of.shape));
                }
                // types may differ where both have the values
                Some(own) if own.decode() == of.decode() => {}
                Some(_) => faults.push(format!("{name}: {} differs", of.name)),
                None => faults.push(format!("{name}: {} is missing", of.name)),
            }
        }
        for (key, value) in expected.metadata().iter() {
            let own = found.metadata().get(key);
            let is_list = matches!(value, Value::Array(_));
            if own.is_some_and(|own| own != value)
                && !key.starts_with("general.")
                && !is_list
                && !is_known(&KEYS, &name, key)
            {
                faults.push(format!("{name}: {key} is {own:?}, expected {value:?}"));
            }
        }
        models += 1;
        let query =
            |model: &Checkpoint| model.tensor("blk.0.attn_q.weight").map(|tensor| tensor.decode());
        permuted += usize::from(query(&directory) != query(&found));
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(models > 90 && permuted > 10, "{models} models, {permuted} with another order");
}
