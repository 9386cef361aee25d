//! Old GGUF files, which have a tensor for each expert.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use pelton_quant::DType;
use pelton_weights::{Checkpoint, GgufWriter};

/// A file with these tensors `[2, 32]` of Q8_0, each filled with bytes of its own.
fn file(names: &[&str]) -> Checkpoint {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", "llama").unwrap();
    for name in names {
        writer.declare(name, DType::Q8_0, &[32, 2]).unwrap();
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    (0..names.len()).for_each(|i| body.write(&[i as u8; 68]).unwrap());
    Checkpoint::from_bytes("old", body.finish().unwrap()).unwrap()
}

#[test]
fn experts_become_one_tensor() {
    let model = file(&[
        "output.weight",
        "blk.3.ffn_up.1.weight",
        "blk.3.ffn_gate.0.weight",
        "blk.3.ffn_up.0.weight",
        "blk.3.ffn_up.2.weight",
    ]);
    let names: Vec<_> = model.tensors().map(|tensor| tensor.name).collect();
    assert_eq!(names.len(), 3);
    let up = model.tensor("blk.3.ffn_up_exps.weight").unwrap();
    assert_eq!((up.shape, up.dtype), (&[32, 2, 3][..], DType::Q8_0));
    // in the order of the experts, not of the file
    assert_eq!(up.bytes, [[3; 68], [1; 68], [4; 68]].concat());
    assert_eq!(model.tensor("blk.3.ffn_gate_exps.weight").unwrap().shape, [32, 2, 1]);
    assert_eq!(model.tensor("output.weight").unwrap().bytes, [0; 68]);
}

#[test]
fn incomplete_experts_stay() {
    let names = ["blk.0.ffn_up.0.weight", "blk.0.ffn_up.2.weight", "blk.0.attn_q.0.weight"];
    let model = file(&names);
    assert!(names.iter().all(|name| model.tensor(name).is_some()));
}
