//! Hyper-parameters: the numbers from which a model's plan is made.
//!
//! Keys and their meaning when absent follow the GGUF specification (`docs/gguf.md` in
//! github.com/ggml-org/ggml, "LLM"). What the specification does not define for an absent key
//! is not guessed.

use crate::rope::{Rope, rope};
use crate::{Checkpoint, Error, Metadata, Problem};

const MAX_LAYERS: usize = 10_000;
const MAX_HEAD_DIM: usize = 1024;
/// For every other size. Far above any model, and small enough that the products of two fit.
pub(crate) const MAX_SIZE: usize = (1 << 31) - 1;

/// The sizes and constants of a transformer. All sizes are at least 1.
#[derive(Clone, Debug, PartialEq)]
pub struct HyperParameters {
    /// `general.architecture`, the prefix of the other keys: `llama`, `qwen3`.
    pub architecture: String,
    /// Transformer blocks.
    pub layers: usize,
    /// The length of the vector that runs through the blocks.
    pub hidden: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// The length of a head's query, key and value; even. `heads * head_dim` need not be
    /// `hidden`.
    pub head_dim: usize,
    /// The length of the feed-forward network's inner vector.
    pub ffn: usize,
    /// Rows of the token embedding. There may be fewer tokens than rows.
    pub vocab: usize,
    /// Positions the model was trained for.
    pub context: usize,
    /// What RMS norm adds under the root; between 0 and 1.
    pub norm_eps: f32,
    /// Rotary position embedding.
    pub rope: Rope,
    /// The attention window in positions, or `None` if every position sees all before it.
    pub window: Option<usize>,
}

impl Checkpoint {
    /// The model's hyper-parameters, checked against each other and the token embedding.
    ///
    /// # Errors
    /// If a key is missing, of the wrong type, or has a value that no model can have.
    pub fn hyper_parameters(&self) -> Result<HyperParameters, Error> {
        let architecture = self.metadata().string("general.architecture")?;
        let keys = Keys { metadata: self.metadata(), architecture };

        let layers = keys.size("block_count", MAX_LAYERS)?;
        let hidden = keys.size("embedding_length", MAX_SIZE)?;
        let heads = keys.size("attention.head_count", MAX_SIZE)?;
        // "If not present or if present and equal to [llm].attention.head_count, the model does
        // not use GQA."
        let kv_heads = keys.opt_size("attention.head_count_kv", MAX_SIZE)?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of the {heads} query heads");
            return Err(keys.absurd("attention.head_count_kv", kv_heads, expected));
        }
        let head_dim = head_dim(&keys, hidden, heads)?;
        let ffn = keys.size("feed_forward_length", MAX_SIZE)?;
        let context = keys.size("context_length", MAX_SIZE)?;
        refuse_endless_cache(&keys, [layers, kv_heads, head_dim, context])?;

        let norm_eps = keys.positive("attention.layer_norm_rms_epsilon")?;
        if norm_eps >= 1.0 {
            let expected = "a number between 0 and 1".to_owned();
            return Err(keys.absurd("attention.layer_norm_rms_epsilon", norm_eps, expected));
        }
        // Not in the specification; llama.cpp and its converter leave the key out, or write 0,
        // for attention without a window.
        let window = match keys.metadata.opt_usize(&keys.key("attention.sliding_window"))? {
            None | Some(0) => None,
            Some(_) => keys.opt_size("attention.sliding_window", MAX_SIZE)?,
        };

        Ok(HyperParameters {
            architecture: architecture.to_owned(),
            layers,
            hidden,
            heads,
            kv_heads,
            head_dim,
            ffn,
            vocab: vocab(self, &keys, hidden)?,
            context,
            norm_eps,
            rope: rope(&keys, head_dim)?,
            window,
        })
    }
}

/// The keys of one architecture.
pub(crate) struct Keys<'a> {
    pub(crate) metadata: &'a Metadata,
    architecture: &'a str,
}

impl Keys<'_> {
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// An integer from 1 to `limit` that must be there.
    pub(crate) fn size(&self, name: &str, limit: usize) -> Result<usize, Error> {
        let value = self.metadata.usize(&self.key(name))?;
        self.in_range(name, value, limit)
    }

    /// An integer from 1 to `limit`, if it is there.
    pub(crate) fn opt_size(&self, name: &str, limit: usize) -> Result<Option<usize>, Error> {
        let value = self.metadata.opt_usize(&self.key(name))?;
        value.map(|value| self.in_range(name, value, limit)).transpose()
    }

    fn in_range(&self, name: &str, value: usize, limit: usize) -> Result<usize, Error> {
        if (1..=limit).contains(&value) {
            return Ok(value);
        }
        Err(self.absurd(name, value, format!("1 to {limit}")))
    }

    /// A finite number above 0 that must be there.
    pub(crate) fn positive(&self, name: &str) -> Result<f32, Error> {
        let value = self.metadata.f32(&self.key(name))?;
        self.checked_positive(name, value)
    }

    /// A finite number above 0, if it is there.
    pub(crate) fn opt_positive(&self, name: &str) -> Result<Option<f32>, Error> {
        let value = self.metadata.opt_f32(&self.key(name))?;
        value.map(|value| self.checked_positive(name, value)).transpose()
    }

    fn checked_positive(&self, name: &str, value: f32) -> Result<f32, Error> {
        if value.is_finite() && value > 0.0 {
            return Ok(value);
        }
        Err(self.absurd(name, value, "a finite number above 0".to_owned()))
    }

    pub(crate) fn absurd(&self, name: &str, found: impl ToString, expected: String) -> Error {
        self.metadata.error(Problem::Absurd {
            key: self.key(name),
            found: found.to_string(),
            expected,
        })
    }
}

fn head_dim(keys: &Keys<'_>, hidden: usize, heads: usize) -> Result<usize, Error> {
    let name = "attention.key_length";
    // Of the lengths of keys and values alike: "If not specified, it will be n_embd / n_head."
    let implied = hidden.is_multiple_of(heads).then_some(hidden / heads);
    let Some(head_dim) = keys.opt_size(name, MAX_SIZE)?.or(implied) else {
        let hidden_key = keys.key("embedding_length");
        let expected = format!("a divisor of {hidden_key}, since {} is missing", keys.key(name));
        return Err(keys.absurd("attention.head_count", heads, expected));
    };
    if head_dim > MAX_HEAD_DIM || !head_dim.is_multiple_of(2) {
        let expected = format!("an even number of at most {MAX_HEAD_DIM}");
        return Err(keys.absurd(name, head_dim, expected));
    }
    let name = "attention.value_length";
    let stated = keys.opt_size(name, MAX_SIZE)?;
    if stated.or(implied) != Some(head_dim) {
        let found = stated.map_or("missing".to_owned(), |length| length.to_string());
        return Err(keys.absurd(name, found, format!("{head_dim}, the length of a key")));
    }
    Ok(head_dim)
}

/// The largest thing that is sized by a product of hyper-parameters is a cache of keys and
/// values for the whole context; its size in bytes must be a number.
fn refuse_endless_cache(keys: &Keys<'_>, factors: [usize; 4]) -> Result<(), Error> {
    const BYTES: usize = 2 * size_of::<f32>();
    if factors.iter().try_fold(BYTES, |product, &factor| product.checked_mul(factor)).is_some() {
        return Ok(());
    }
    let [layers, kv_heads, head_dim, context] = factors;
    let expected =
        format!("a context whose {layers} × {kv_heads} × {head_dim} cache memory can address");
    Err(keys.absurd("context_length", context, expected))
}

/// The rows of the token embedding, which other keys must agree with.
fn vocab(checkpoint: &Checkpoint, keys: &Keys<'_>, hidden: usize) -> Result<usize, Error> {
    let name = "token_embd.weight";
    let rows = checkpoint.tensor(name).map_or(0, |tensor| tensor.rows());
    let vocab = checkpoint.require(name, &[hidden, rows])?.rows();
    if vocab > MAX_SIZE {
        return Err(keys.absurd("vocab_size", vocab, format!("1 to {MAX_SIZE}")));
    }
    if let Some(stated) = keys.opt_size("vocab_size", MAX_SIZE)?
        && stated != vocab
    {
        let expected = format!("{vocab}, the rows of {name:?}");
        return Err(keys.absurd("vocab_size", stated, expected));
    }
    // Embeddings are often padded, so rows without a token are fine.
    if let Some(tokens) = checkpoint.metadata().opt_bytes_array("tokenizer.ggml.tokens")?
        && tokens.len() > vocab
    {
        return Err(checkpoint.metadata().error(Problem::Absurd {
            key: "tokenizer.ggml.tokens".to_owned(),
            found: format!("{} tokens", tokens.len()),
            expected: format!("at most {vocab}, the rows of {name:?}"),
        }));
    }
    Ok(vocab)
}
