//! Small random models for the tests of the other crates, the tests that every backend passes, and
//! the skipping of tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "for tests alone, where a panic is the way to fail"
)]

pub mod backend;
mod effort;
pub mod fake;
pub mod npy;
pub mod ops;
pub mod pictured;
mod random;
pub mod sampling;
mod skip;
pub mod speech;
pub mod towers;
mod whisper;

pub use random::Random;
pub use skip::{Need, skip};
pub use whisper::WhisperSpec;

use pelton_quant::DType;
use pelton_weights::{Checkpoint, GgufWriter};

/// The shape of a random model.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// `llama`, `qwen2` or `qwen3`.
    pub architecture: &'static str,
    /// How the matrices are stored.
    pub dtype: DType,
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Query heads.
    pub heads: usize,
    /// Key heads.
    pub kv_heads: usize,
    /// Numbers in a head.
    pub head_dim: usize,
    /// Width of the feed-forward network.
    pub ffn: usize,
    /// Tokens.
    pub vocab: usize,
    /// Positions.
    pub context: usize,
    /// Positions that a query sees.
    pub window: Option<usize>,
    /// Whether the embedding table is the output matrix too.
    pub tied: bool,
    /// Whether it has a tensor that divides rotary frequencies.
    pub rope_divisors: bool,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Default for ModelSpec {
    /// Two layers, two query heads for each of two key heads, F32.
    fn default() -> Self {
        Self {
            architecture: "llama",
            dtype: DType::F32,
            layers: 2,
            hidden: 64,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            ffn: 96,
            vocab: 80,
            context: 512,
            window: None,
            tied: false,
            rope_divisors: false,
            seed: 1,
        }
    }
}

impl ModelSpec {
    /// The model with every matrix's rows long enough for blocks of 256.
    pub fn wide(dtype: DType) -> Self {
        Self {
            dtype,
            hidden: 256,
            heads: 8,
            kv_heads: 2,
            head_dim: 32,
            ffn: 512,
            ..Self::default()
        }
    }

    /// The model as an open GGUF file.
    pub fn checkpoint(&self) -> Checkpoint {
        self.checkpoint_with(&[])
    }

    /// As [`checkpoint`](Self::checkpoint), with more F32 tensors of these names and lengths.
    pub fn checkpoint_with(&self, more: &[(&str, usize)]) -> Checkpoint {
        Checkpoint::from_bytes("random model", self.file(more)).unwrap()
    }

    /// The bytes of the model's GGUF file.
    pub fn file(&self, more: &[(&str, usize)]) -> Vec<u8> {
        let mut writer = GgufWriter::new();
        let arch = self.architecture;
        let key = |name: &str| format!("{arch}.{name}");
        writer.set("general.architecture", arch).unwrap();
        for (name, value) in [
            ("block_count", self.layers),
            ("embedding_length", self.hidden),
            ("feed_forward_length", self.ffn),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("rope.dimension_count", self.head_dim),
            ("context_length", self.context),
            ("vocab_size", self.vocab),
        ] {
            writer.set(&key(name), value as u32).unwrap();
        }
        writer.set(&key("attention.layer_norm_rms_epsilon"), 1e-5f32).unwrap();
        writer.set(&key("rope.freq_base"), 1e4f32).unwrap();
        if let Some(window) = self.window {
            writer.set(&key("attention.sliding_window"), window as u32).unwrap();
        }
        writer.set("tokenizer.ggml.model", "no_vocab").unwrap();

        let mut tensors = self.tensors();
        tensors.extend(more.iter().map(|&(n, len)| (n.to_owned(), DType::F32, vec![len])));
        for (name, dtype, shape) in &tensors {
            writer.declare(name, *dtype, shape).unwrap();
        }
        let mut random = Random::new(self.seed);
        let mut body = writer.begin(Vec::new()).unwrap();
        for (name, dtype, shape) in &tensors {
            let len = shape.iter().product();
            let blocks = match shape.as_slice() {
                _ if name.contains("norm") => random.blocks(*dtype, len, 1.0, 0.2),
                _ if name == "rope_freqs.weight" => random.blocks(*dtype, len, 2.0, 0.3),
                // products of about the size of what goes in
                [row_len, _] => random.blocks(*dtype, len, 0.0, (*row_len as f32).powf(-0.5)),
                _ => random.blocks(*dtype, len, 0.0, 0.3),
            };
            body.write(&blocks).unwrap();
        }
        body.finish().unwrap()
    }

    fn tensors(&self) -> Vec<(String, DType, Vec<usize>)> {
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let mut all = Vec::new();
        let mut matrix = |name: String, row_len, rows| {
            let fits = usize::is_multiple_of(row_len, self.dtype.block_len());
            let dtype = if fits { self.dtype } else { DType::F32 };
            all.push((name, dtype, vec![row_len, rows]));
        };
        matrix("token_embd.weight".into(), self.hidden, self.vocab);
        if !self.tied {
            matrix("output.weight".into(), self.hidden, self.vocab);
        }
        for layer in 0..self.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            matrix(name("attn_q"), self.hidden, q);
            matrix(name("attn_k"), self.hidden, kv);
            matrix(name("attn_v"), self.hidden, kv);
            matrix(name("attn_output"), q, self.hidden);
            matrix(name("ffn_gate"), self.hidden, self.ffn);
            matrix(name("ffn_up"), self.hidden, self.ffn);
            matrix(name("ffn_down"), self.ffn, self.hidden);
        }
        let mut vector = |name: String, len| all.push((name, DType::F32, vec![len]));
        vector("output_norm.weight".into(), self.hidden);
        if self.rope_divisors {
            vector("rope_freqs.weight".into(), self.head_dim / 2);
        }
        for layer in 0..self.layers {
            let name = |part: &str| format!("blk.{layer}.{part}");
            vector(name("attn_norm.weight"), self.hidden);
            vector(name("ffn_norm.weight"), self.hidden);
            match self.architecture {
                "qwen2" => {
                    vector(name("attn_q.bias"), q);
                    vector(name("attn_k.bias"), kv);
                    vector(name("attn_v.bias"), kv);
                }
                "qwen3" => {
                    vector(name("attn_q_norm.weight"), self.head_dim);
                    vector(name("attn_k_norm.weight"), self.head_dim);
                }
                _ => {}
            }
        }
        all
    }
}
