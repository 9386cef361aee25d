//! Plans of random models: their steps, their fused forms, and the checkpoints that are refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use pelton_graph::{Error, Op, Plan, Rope, RopeStyle, build};
use pelton_testing::ModelSpec;

fn all(_: &Op, _: &Plan) -> bool {
    true
}

fn none(_: &Op, _: &Plan) -> bool {
    false
}

fn names(spec: &ModelSpec, accepts: &dyn Fn(&Op, &Plan) -> bool) -> Vec<&'static str> {
    let plan = build(&spec.checkpoint()).unwrap().fuse(accepts);
    plan.steps.iter().map(|step| step.op.name()).collect()
}

#[test]
fn elementary_steps() {
    let spec = ModelSpec { layers: 1, ..ModelSpec::default() };
    let layer = [
        "norm", "linear", "linear", "linear", "rope", "rope", "store", "attend", "linear", "add",
        "norm", "linear", "linear", "glu", "linear", "add",
    ];
    let expected = [&["embed"], &layer[..], &["select", "norm", "linear"]].concat();
    assert_eq!(names(&spec, &none), expected);
}

#[test]
fn fused_steps() {
    for architecture in ["llama", "qwen2", "qwen3"] {
        let spec = ModelSpec { layers: 2, architecture, ..ModelSpec::default() };
        let with = |attention: &[&'static str]| {
            let layer =
                [&["norm_linear"], attention, &["linear_add", "norm_glu", "linear_add"]].concat();
            [&["embed"], &layer[..], &layer[..], &["select", "norm_linear"]].concat()
        };
        assert_eq!(names(&spec, &all), with(&["rope_attend"]), "{architecture}");
        let most = |op: &Op, _: &Plan| op.name() != "rope_attend";
        assert_eq!(names(&spec, &most), with(&["rope_store", "attend"]), "{architecture}");
    }
}

#[test]
fn only_accepted_ops_are_fused() {
    let spec = ModelSpec { layers: 1, ..ModelSpec::default() };
    let names = names(&spec, &|op, _| op.name() == "linear_add");
    assert_eq!(names.iter().filter(|&&n| n == "linear_add").count(), 2);
    assert!(
        !names.iter().any(|n| ["norm_linear", "rope_store", "rope_attend", "norm_glu"].contains(n))
    );
}

/// A backend decides by the weights of the op, so that one layer may be fused and another not.
#[test]
fn accepted_ops_depend_on_their_weights() {
    let plan = build(&ModelSpec::default().checkpoint()).unwrap();
    let accepts = |op: &Op, plan: &Plan| {
        let second = |id| plan.weight(id).name.starts_with("blk.1.");
        op.name() == "linear_add" && op.weights().into_iter().all(second)
    };
    let fused = plan.fuse(&accepts);
    let layers: Vec<_> =
        fused.steps.iter().filter(|s| s.op.name() == "linear_add").map(|s| s.layer).collect();
    assert_eq!(layers, [Some(1), Some(1)]);
}

/// A fused op must not drop a value that a later step reads.
#[test]
fn values_that_are_read_later_are_kept() {
    let spec = ModelSpec { layers: 1, ..ModelSpec::default() };
    let mut plan = build(&spec.checkpoint()).unwrap();
    // let the norm's result be read once more at the end of the layer
    let at = plan.steps.iter().position(|s| matches!(s.op, Op::Glu(_))).unwrap();
    let norm_output = plan.steps[at - 3].outputs[0];
    plan.steps[at + 2].inputs[1] = norm_output;
    let names: Vec<_> = plan.fuse(&all).steps.iter().map(|s| s.op.name()).collect();
    assert!(!names.contains(&"norm_glu"), "{names:?}");
}

#[test]
fn fusion_drops_unused_buffers() {
    let plan = build(&ModelSpec::default().checkpoint()).unwrap();
    let fused = plan.clone().fuse(&all);
    let names = |plan: &Plan| -> Vec<&str> { plan.buffers.iter().map(|b| b.name).collect() };
    assert_eq!(names(&fused), ["x", "q", "k", "v", "a", "g", "last", "logits"]);
    assert_eq!(fused.buffer(fused.logits).name, "logits");
    assert_eq!(plan.buffer(plan.logits).name, "logits");
}

#[test]
fn printed_plan() {
    let spec = ModelSpec {
        architecture: "qwen3",
        tied: true,
        window: Some(32),
        rope_divisors: true,
        ..ModelSpec::default()
    };
    let plan = build(&spec.checkpoint()).unwrap();
    insta::assert_snapshot!("fused", plan.clone().fuse(&all).to_string());
    insta::assert_snapshot!("elementary", plan.to_string());
}

#[test]
fn tied_output_is_decided_by_the_tensors() {
    for tied in [false, true] {
        let plan = build(&ModelSpec { tied, ..ModelSpec::default() }.checkpoint()).unwrap();
        let Op::Linear(output) = plan.steps.last().unwrap().op else { panic!() };
        let expected = if tied { "token_embd.weight" } else { "output.weight" };
        assert_eq!(plan.weight(output.weight).name, expected);
        assert_eq!(plan.shape.tied, tied);
    }
}

#[test]
fn an_unused_tensor_is_refused() {
    let checkpoint = ModelSpec::default().checkpoint_with(&[("blk.0.attn_q_norm.weight", 16)]);
    let error = build(&checkpoint).unwrap_err();
    assert!(matches!(error, Error::UnusedTensor { .. }));
    let text = error.to_string();
    assert!(text.contains("blk.0.attn_q_norm.weight") && text.contains("llama"), "{text}");
}

#[test]
fn a_missing_tensor_is_refused_by_name() {
    // without biases the file is no qwen2
    let mut file = ModelSpec { architecture: "qwen2", ..ModelSpec::default() }.file(&[]);
    let name = b"blk.1.attn_k.bias";
    let at = file.windows(name.len()).position(|w| w == name).unwrap();
    file[at..at + name.len()].copy_from_slice(b"blk.1.attn_k.biaz");
    let checkpoint = pelton_weights::Checkpoint::from_bytes("broken", file).unwrap();
    let text = build(&checkpoint).unwrap_err().to_string();
    assert!(text.contains("blk.1.attn_k.bias") && text.contains("broken"), "{text}");
}

#[test]
fn an_unknown_architecture_is_refused_by_its_name() {
    let checkpoint = ModelSpec { architecture: "mamba", ..ModelSpec::default() }.checkpoint();
    let text = build(&checkpoint).unwrap_err().to_string();
    assert!(text.contains("'mamba'") && text.contains("docs/models.md"), "{text}");
}

/// The frequencies that RoFormer's formula gives for base 10,000 and four pairs, by hand.
#[test]
fn rotary_frequencies() {
    let spec = ModelSpec { head_dim: 8, ..ModelSpec::default() };
    let plan = build(&spec.checkpoint()).unwrap();
    let Rope { style, frequencies, .. } = &plan.ropes[0];
    assert_eq!(*style, RopeStyle::Interleaved);
    for (got, expected) in frequencies.iter().zip([1.0, 0.1, 0.01, 0.001]) {
        assert!((got - expected).abs() < 1e-8, "{got} for {expected}");
    }
}
