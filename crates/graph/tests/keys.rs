//! Keys: the defaults of absent ones, and the values that are refused.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use pelton_graph::{Error, Op, Plan, build};
use pelton_quant::DType;
use pelton_weights::{Array, Checkpoint, GgufWriter, Problem, Value, ValueType};

/// Metadata of a small model without layers' tensors, modified by each test.
struct Model {
    keys: Vec<(&'static str, Value)>,
    embedding: Option<[usize; 2]>,
    more: Vec<(&'static str, usize)>,
}

impl Model {
    fn valid() -> Self {
        let keys = vec![
            ("general.architecture", "llama".into()),
            ("llama.block_count", 2u32.into()),
            ("llama.embedding_length", 64u32.into()),
            ("llama.attention.head_count", 8u32.into()),
            ("llama.attention.head_count_kv", 2u32.into()),
            ("llama.feed_forward_length", 128u32.into()),
            ("llama.context_length", 512u32.into()),
            ("llama.attention.layer_norm_rms_epsilon", 1e-5f32.into()),
            ("llama.rope.freq_base", 10_000f32.into()),
        ];
        Self { keys, embedding: Some([64, 100]), more: Vec::new() }
    }

    fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.keys.retain(|(name, _)| *name != key);
        self.keys.push((key, value.into()));
        self
    }

    fn without(mut self, key: &str) -> Self {
        self.keys.retain(|(name, _)| *name != key);
        self
    }

    fn with_tensor(mut self, name: &'static str, len: usize) -> Self {
        self.more.push((name, len));
        self
    }

    fn open(self) -> Checkpoint {
        let mut writer = GgufWriter::new();
        for (key, value) in self.keys {
            writer.set(key, value).unwrap();
        }
        let mut tensors: Vec<_> = self.more.iter().map(|&(name, len)| (name, vec![len])).collect();
        tensors.extend(self.embedding.map(|shape| ("token_embd.weight", shape.to_vec())));
        for (name, shape) in &tensors {
            writer.declare(name, DType::F32, shape).unwrap();
        }
        let mut body = writer.begin(Vec::new()).unwrap();
        for (_, shape) in tensors {
            body.write(&vec![0; shape.iter().product::<usize>() * 4]).unwrap();
        }
        Checkpoint::from_bytes("m", body.finish().unwrap()).unwrap()
    }

    #[track_caller]
    fn error(self) -> pelton_weights::Error {
        match build(&self.open()).unwrap_err() {
            Error::Weights(error) => error,
            other => panic!("{other}"),
        }
    }

    #[track_caller]
    fn assert_invalid(self, message: &str) {
        let error = self.error();
        assert!(matches!(error.problem(), Problem::InvalidValue { .. }), "{error}");
        assert_eq!(error.to_string(), format!("m: metadata key {message}"));
    }

    /// The keys are accepted: the first thing that is missing is a tensor.
    #[track_caller]
    fn assert_accepted(self) {
        let error = self.error();
        assert!(matches!(error.problem(), Problem::MissingTensor { .. }), "{error}");
    }

    #[track_caller]
    fn assert_missing(self, key: &str) {
        let error = self.error();
        assert!(
            matches!(error.problem(), Problem::MissingKey { key: k, .. } if k == key),
            "{error}"
        );
    }
}

#[test]
fn other_keys_are_required() {
    for key in [
        "general.architecture",
        "llama.block_count",
        "llama.embedding_length",
        "llama.attention.head_count",
        "llama.context_length",
        "llama.attention.layer_norm_rms_epsilon",
    ] {
        Model::valid().without(key).assert_missing(key);
    }
    let model = Model { embedding: None, ..Model::valid() };
    assert!(model.error().to_string().contains("token_embd.weight"));
}

#[test]
fn keys_with_defaults_may_be_absent() {
    for key in ["llama.attention.head_count_kv", "llama.rope.freq_base"] {
        Model::valid().without(key).assert_accepted();
    }
}

#[test]
fn sizes_have_limits() {
    let limit = (1u32 << 31) - 1;
    for (key, most) in [
        ("llama.block_count", 10_000),
        ("llama.embedding_length", limit),
        ("llama.attention.head_count", limit),
        ("llama.attention.head_count_kv", limit),
        ("llama.attention.key_length", limit),
        ("llama.context_length", limit),
        ("llama.rope.dimension_count", limit),
        ("llama.vocab_size", limit),
    ] {
        for value in [0, most + 1] {
            let least = if key.contains("head_count") && value > 0 { 0 } else { 1 };
            Model::valid()
                .with(key, value)
                .assert_invalid(&format!("\"{key}\" is {value}, expected {least} to {most}"));
        }
    }
    let error = Model::valid().with("llama.block_count", -1i32).error();
    assert!(matches!(error.problem(), Problem::KeyType { .. }), "{error}");
}

#[test]
fn arrays_have_a_value_for_each_layer() {
    let array = |values: &[i32]| Array::new(ValueType::I32, values.iter().copied()).unwrap();
    let key = "llama.attention.head_count_kv";
    Model::valid().with(key, array(&[2, 4])).assert_accepted();
    Model::valid().with(key, array(&[2])).assert_invalid(&format!(
        "\"{key}\" is an array of 1, expected one for each of the 2 layers"
    ));
    Model::valid()
        .with(key, array(&[2, -4]))
        .assert_invalid(&format!("\"{key}\" is -4, expected 0 to 2147483647 for each layer"));
    Model::valid()
        .with(key, array(&[2, 0]))
        .assert_invalid(&format!("\"{key}\" is 0, expected 1 to 2147483647"));
    let key = "llama.attention.sliding_window_pattern";
    let flags = Array::new(ValueType::Bool, [true]).unwrap();
    Model::valid().with(key, flags).assert_invalid(&format!(
        "\"{key}\" is an array of 1, expected one for each of the 2 layers"
    ));
}

#[test]
fn head_counts_and_widths_must_match() {
    Model::valid().with("llama.attention.head_count_kv", 3u32).assert_invalid(
        "\"llama.attention.head_count_kv\" is 3, expected a divisor of the 8 query heads",
    );
    Model::valid().with("llama.attention.head_count", 6u32).assert_invalid(
        "\"llama.attention.head_count\" is 6, expected a divisor of llama.embedding_length, \
         since llama.attention.key_length is missing",
    );
    for key in ["llama.attention.key_length", "llama.attention.value_length"] {
        for head_dim in [7u32, 1026] {
            Model::valid().with(key, head_dim).assert_invalid(&format!(
                "\"{key}\" is {head_dim}, expected an even number of at most 1024"
            ));
        }
        Model::valid().with(key, 1024u32).assert_accepted();
    }
}

#[test]
fn a_cache_must_be_addressable() {
    Model::valid()
        .with("llama.block_count", 10_000u32)
        .with("llama.attention.head_count", 1u32 << 30)
        .with("llama.attention.head_count_kv", 1u32 << 30)
        .with("llama.attention.key_length", 1024u32)
        .with("llama.attention.value_length", 1024u32)
        .with("llama.context_length", 1u32 << 30)
        .assert_invalid(
            "\"llama.context_length\" is 1073741824, expected a context for which memory can \
             address the 10000 KV caches",
        );
}

#[test]
fn floats_must_be_in_range() {
    let eps = "llama.attention.layer_norm_rms_epsilon";
    let theta = "llama.rope.freq_base";
    for (key, value) in [
        (eps, 0.0),
        (eps, -1e-5),
        (eps, f32::NAN),
        (theta, 0.0),
        (theta, -1.0),
        (theta, f32::INFINITY),
        (theta, f32::NAN),
    ] {
        let message = format!("\"{key}\" is {value}, expected a finite number above 0");
        Model::valid().with(key, value).assert_invalid(&message);
    }
    Model::valid()
        .with(eps, 1.0f32)
        .assert_invalid(&format!("\"{eps}\" is 1, expected a number between 0 and 1"));
}

#[test]
fn vocabulary_sizes_must_match() {
    Model::valid().with("llama.vocab_size", 99u32).assert_invalid(
        "\"llama.vocab_size\" is 99, expected 100, the rows of \"token_embd.weight\"",
    );
    let tokens = Array::new(ValueType::String, ["a"; 101]).unwrap();
    Model::valid().with("tokenizer.ggml.tokens", tokens).assert_invalid(
        "\"tokenizer.ggml.tokens\" is 101 tokens, expected at most 100, the rows of \
         \"token_embd.weight\"",
    );
    let model = Model { embedding: Some([32, 100]), ..Model::valid() };
    assert_eq!(
        model.error().to_string(),
        "m: tensor \"token_embd.weight\" has shape [32, 100], expected [64, 100]"
    );
}

mod rope {
    use super::*;

    #[test]
    fn dimensions() {
        for dims in [7u32, 10] {
            Model::valid().with("llama.rope.dimension_count", dims).assert_invalid(&format!(
                "\"llama.rope.dimension_count\" is {dims}, expected an even number of at most 8, \
                 the length of a head"
            ));
        }
    }

    fn scaled(name: &'static str) -> Model {
        Model::valid().with("llama.rope.scaling.type", name).with("llama.rope.scaling.factor", 4f32)
    }

    #[test]
    fn types() {
        for name in ["none", "linear", "yarn"] {
            scaled(name).assert_accepted();
        }
        scaled("dynamic").assert_invalid(
            "\"llama.rope.scaling.type\" is \"dynamic\", expected \"none\", \"linear\", \"yarn\" \
             or \"longrope\"",
        );
        for name in ["linear", "yarn"] {
            scaled(name).with("llama.rope.scaling.factor", 0f32).assert_invalid(
                "\"llama.rope.scaling.factor\" is 0, expected a finite number above 0",
            );
            let key = "llama.rope.scaling.factor";
            scaled(name).without(key).assert_missing(key);
        }
        scaled("yarn").with("llama.rope.scaling.yarn_beta_slow", 32f32).assert_invalid(
            "\"llama.rope.scaling.yarn_beta_slow\" is 32, expected less than 32, the value of \
             yarn_beta_fast",
        );
    }

    #[test]
    fn a_table_of_divisors_has_a_value_for_each_pair() {
        let error = Model::valid().with_tensor("rope_freqs.weight", 5).error().to_string();
        assert_eq!(error, "m: tensor \"rope_freqs.weight\" has shape [5], expected [4]");
    }
}

/// The keys of other parts of a model, in files that are complete but for one value.
mod parts {
    use super::*;
    use pelton_testing::ModelSpec;

    fn plan(spec: ModelSpec) -> Plan {
        build(&spec.checkpoint()).unwrap()
    }

    #[test]
    fn windows_are_groups_of_caches() {
        let plan = plan(ModelSpec { window: Some(32), ..ModelSpec::default() });
        let windows: Vec<_> = plan.groups.iter().map(|group| group.window).collect();
        assert_eq!(windows, [Some(32)]);
    }

    #[test]
    fn a_window_of_0_is_none() {
        let plan = plan(ModelSpec { window: Some(0), ..ModelSpec::default() });
        assert!(plan.groups.iter().all(|group| group.window.is_none()));
        assert!(plan.steps.iter().any(|step| matches!(step.op, Op::Attend(_))));
    }
}
