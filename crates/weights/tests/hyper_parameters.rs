//! Hyper-parameters: defaults of absent keys per the specification, and rejected values.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use pelton_quant::DType;
use pelton_weights::{
    Array, Checkpoint, GgufWriter, HyperParameters, Problem, RopeScaling, Value, ValueType,
};

/// Metadata of a small model, modified by each test.
struct Model {
    keys: Vec<(&'static str, Value)>,
    embedding: Option<[usize; 2]>,
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
        Self { keys, embedding: Some([64, 100]) }
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

    fn open(self) -> Checkpoint {
        let mut writer = GgufWriter::new();
        for (key, value) in self.keys {
            writer.set(key, value).unwrap();
        }
        if let Some(shape) = self.embedding {
            writer.declare("token_embd.weight", DType::F32, &shape).unwrap();
        }
        let mut body = writer.begin(Vec::new()).unwrap();
        if let Some([hidden, vocab]) = self.embedding {
            body.write(&vec![0; hidden * vocab * 4]).unwrap();
        }
        Checkpoint::from_bytes("m", body.finish().unwrap()).unwrap()
    }

    #[track_caller]
    fn read(self) -> HyperParameters {
        self.open().hyper_parameters().unwrap()
    }

    #[track_caller]
    fn assert_invalid(self, message: &str) {
        let error = self.open().hyper_parameters().unwrap_err();
        assert!(matches!(error.problem(), Problem::InvalidValue { .. }), "{error}");
        assert_eq!(error.to_string(), format!("m: metadata key {message}"));
    }
}

#[test]
fn everything_is_read() {
    let found = Model::valid()
        .with("llama.attention.key_length", 32u32)
        .with("llama.attention.value_length", 32u32)
        .with("llama.rope.dimension_count", 16u32)
        .with("llama.attention.sliding_window", 128u32)
        .with("llama.vocab_size", 100u32)
        .with("tokenizer.ggml.tokens", Array::new(ValueType::String, ["a"; 90]).unwrap())
        .read();
    assert_eq!(found.architecture, "llama");
    assert_eq!((found.layers, found.hidden, found.ffn), (2, 64, 128));
    assert_eq!((found.heads, found.kv_heads, found.head_dim), (8, 2, 32));
    assert_eq!((found.vocab, found.context, found.window), (100, 512, Some(128)));
    assert_eq!((found.norm_eps, found.rope.theta, found.rope.dims), (1e-5, 10_000.0, 16));
    assert_eq!(found.rope.scaling, RopeScaling::None);
}

#[test]
fn absent_keys_have_the_defaults_of_the_specification() {
    let found = Model::valid().without("llama.attention.head_count_kv").read();
    assert_eq!((found.kv_heads, found.head_dim, found.rope.dims), (8, 8, 8));
    assert_eq!((found.window, &found.rope.scaling), (None, &RopeScaling::None));
    assert_eq!(Model::valid().with("llama.attention.sliding_window", 0u32).read().window, None);
}

#[test]
fn other_keys_are_required() {
    for key in [
        "general.architecture",
        "llama.block_count",
        "llama.embedding_length",
        "llama.attention.head_count",
        "llama.feed_forward_length",
        "llama.context_length",
        "llama.attention.layer_norm_rms_epsilon",
        "llama.rope.freq_base",
    ] {
        let error = Model::valid().without(key).open().hyper_parameters().unwrap_err();
        assert!(matches!(error.problem(), Problem::MissingKey { key: k, .. } if k == key));
    }
    let model = Model { embedding: None, ..Model::valid() };
    let error = model.open().hyper_parameters().unwrap_err();
    assert!(matches!(error.problem(), Problem::MissingTensor { .. }), "{error}");
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
        ("llama.feed_forward_length", limit),
        ("llama.context_length", limit),
        ("llama.rope.dimension_count", limit),
        ("llama.vocab_size", limit),
    ] {
        for value in [0, most + 1] {
            Model::valid()
                .with(key, value)
                .assert_invalid(&format!("\"{key}\" is {value}, expected 1 to {most}"));
        }
    }
    let negative = Model::valid().with("llama.block_count", -1i32).open();
    let error = negative.hyper_parameters().unwrap_err();
    assert!(matches!(error.problem(), Problem::KeyType { .. }), "{error}");
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
    for head_dim in [7u32, 1026] {
        Model::valid().with("llama.attention.key_length", head_dim).assert_invalid(&format!(
            "\"llama.attention.key_length\" is {head_dim}, expected an even number of at most 1024"
        ));
    }
    Model::valid()
        .with("llama.attention.value_length", 16u32)
        .assert_invalid("\"llama.attention.value_length\" is 16, expected 8, the length of a key");
    let keys = Model::valid().with("llama.attention.key_length", 1024u32);
    assert_eq!(keys.with("llama.attention.value_length", 1024u32).read().head_dim, 1024);
    // The default of an absent value length is 64 / 8, too.
    Model::valid().with("llama.attention.key_length", 32u32).assert_invalid(
        "\"llama.attention.value_length\" is missing, expected 32, the length of a key",
    );
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
            "\"llama.context_length\" is 1073741824, expected a context whose KV cache of 10000 × \
             1073741824 × 1024 memory can address",
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
    let error = model.open().hyper_parameters().unwrap_err();
    assert_eq!(
        error.to_string(),
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

    #[test]
    fn none_and_linear() {
        let scaled = |name: &'static str| {
            Model::valid()
                .with("llama.rope.scaling.type", name)
                .with("llama.rope.scaling.factor", 4f32)
        };
        assert_eq!(scaled("none").read().rope.scaling, RopeScaling::None);
        assert_eq!(scaled("linear").read().rope.scaling, RopeScaling::Linear { factor: 4.0 });
        scaled("longrope").assert_invalid(
            "\"llama.rope.scaling.type\" is \"longrope\", expected \"none\", \"linear\" or \"yarn\"",
        );
        scaled("linear")
            .with("llama.rope.scaling.factor", 0f32)
            .assert_invalid("\"llama.rope.scaling.factor\" is 0, expected a finite number above 0");
        let error = scaled("linear").without("llama.rope.scaling.factor").open();
        let error = error.hyper_parameters().unwrap_err();
        assert!(matches!(error.problem(), Problem::MissingKey { .. }), "{error}");
    }

    #[test]
    fn without_a_type() {
        let old = Model::valid().with("llama.rope.scale_linear", 2f32);
        assert_eq!(old.read().rope.scaling, RopeScaling::Linear { factor: 2.0 });
        let old = Model::valid().with("llama.rope.scale_linear", 1f32);
        assert_eq!(old.read().rope.scaling, RopeScaling::None);
        Model::valid().with("llama.rope.scaling.factor", 2f32).assert_invalid(
            "\"llama.rope.scaling.factor\" is 2, expected no factor, since \
             llama.rope.scaling.type is missing",
        );
    }

    fn yarn() -> Model {
        Model::valid()
            .with("llama.rope.scaling.type", "yarn")
            .with("llama.rope.scaling.factor", 4f32)
            .with("llama.rope.scaling.original_context_length", 128u32)
    }

    #[test]
    fn yarn_in_full() {
        let found = yarn()
            .with("llama.rope.scaling.yarn_ext_factor", 0.5f32)
            .with("llama.rope.scaling.yarn_attn_factor", 1.25f32)
            .with("llama.rope.scaling.yarn_beta_fast", 16f32)
            .with("llama.rope.scaling.yarn_beta_slow", 2f32)
            .read();
        let expected = RopeScaling::Yarn {
            factor: 4.0,
            original_context: 128,
            ext_factor: 0.5,
            attn_factor: 1.25,
            beta_fast: 16.0,
            beta_slow: 2.0,
        };
        assert_eq!(found.rope.scaling, expected);
    }

    #[test]
    fn yarn_rejected() {
        let ext = "llama.rope.scaling.yarn_ext_factor";
        for value in [-0.5, 1.5, f32::NAN] {
            let message = format!("\"{ext}\" is {value}, expected a number from 0 to 1");
            yarn().with(ext, value).assert_invalid(&message);
        }
        yarn().with("llama.rope.scaling.yarn_beta_slow", 32f32).assert_invalid(
            "\"llama.rope.scaling.yarn_beta_slow\" is 32, expected less than 32, the value of yarn_beta_fast",
        );
        for key in ["llama.rope.scaling.factor", "llama.rope.scaling.original_context_length"] {
            let error = yarn().without(key).open().hyper_parameters().unwrap_err();
            assert!(matches!(error.problem(), Problem::MissingKey { key: k, .. } if k == key));
        }
    }
}
