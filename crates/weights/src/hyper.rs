//! Hyper-parameters: the sizes and constants from which a model's plan is built.
//!
//! Keys and the defaults of absent keys follow the GGUF specification (`docs/gguf.md` in
//! github.com/ggml-org/ggml, "LLM"). A missing key without a default there is an error.

use crate::keys::{Keys, MAX_SIZE};
use crate::rope::{Rope, rope};
use crate::{Checkpoint, Error, Problem};

const MAX_LAYERS: usize = 10_000;
const MAX_HEAD_DIM: usize = 1024;

/// The sizes and constants of a transformer. All sizes are at least 1.
#[derive(Clone, Debug, PartialEq)]
pub struct HyperParameters {
    /// `general.architecture`, the prefix of the other keys, such as `llama` or `qwen3`.
    pub architecture: String,
    /// Number of transformer blocks.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key-value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head's query, key and value; even. `heads * head_dim` may differ from
    /// `hidden`.
    pub head_dim: usize,
    /// Width of the feed-forward network's hidden layer.
    pub ffn: usize,
    /// Number of rows of the token embedding, at least the number of tokens.
    pub vocab: usize,
    /// Context length of the training, in positions.
    pub context: usize,
    /// Epsilon of RMS norm, added to the mean square; between 0 and 1.
    pub norm_eps: f32,
    /// Rotary position embedding.
    pub rope: Rope,
    /// Sliding attention window in positions, or `None` for full causal attention.
    pub window: Option<usize>,
}

impl Checkpoint {
    /// The model's hyper-parameters, checked against each other and the token embedding.
    ///
    /// # Errors
    /// If a key is missing, of the wrong type or has an invalid value.
    pub fn hyper_parameters(&self) -> Result<HyperParameters, Error> {
        let architecture = self.metadata().string("general.architecture")?;
        let keys = Keys::new(self.metadata(), architecture);

        let layers = keys.size("block_count", MAX_LAYERS)?;
        let hidden = keys.size("embedding_length", MAX_SIZE)?;
        let heads = keys.size("attention.head_count", MAX_SIZE)?;
        // "If not present or if present and equal to [llm].attention.head_count, the model does
        // not use GQA."
        let kv_heads = keys.opt_size("attention.head_count_kv", MAX_SIZE)?.unwrap_or(heads);
        if !heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of the {heads} query heads");
            return Err(keys.invalid("attention.head_count_kv", kv_heads, expected));
        }
        let head_dim = head_dim(&keys, hidden, heads)?;
        let ffn = keys.size("feed_forward_length", MAX_SIZE)?;
        let context = keys.size("context_length", MAX_SIZE)?;
        check_cache_size(&keys, [layers, kv_heads, head_dim, context])?;

        let norm_eps = keys.positive("attention.layer_norm_rms_epsilon")?;
        if norm_eps >= 1.0 {
            let expected = "a number between 0 and 1".to_owned();
            return Err(keys.invalid("attention.layer_norm_rms_epsilon", norm_eps, expected));
        }
        // Not in the specification; llama.cpp and its converter omit the key, or write 0, for
        // attention without a window.
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

fn head_dim(keys: &Keys<'_>, hidden: usize, heads: usize) -> Result<usize, Error> {
    let name = "attention.key_length";
    // The specification on the lengths of keys and of values: "If not specified, it will be n_embd / n_head."
    let implied = hidden.is_multiple_of(heads).then_some(hidden / heads);
    let Some(head_dim) = keys.opt_size(name, MAX_SIZE)?.or(implied) else {
        let hidden_key = keys.key("embedding_length");
        let expected = format!("a divisor of {hidden_key}, since {} is missing", keys.key(name));
        return Err(keys.invalid("attention.head_count", heads, expected));
    };
    if head_dim > MAX_HEAD_DIM || !head_dim.is_multiple_of(2) {
        let expected = format!("an even number of at most {MAX_HEAD_DIM}");
        return Err(keys.invalid(name, head_dim, expected));
    }
    let name = "attention.value_length";
    let stated = keys.opt_size(name, MAX_SIZE)?;
    if stated.or(implied) != Some(head_dim) {
        let found = stated.map_or("missing".to_owned(), |length| length.to_string());
        return Err(keys.invalid(name, found, format!("{head_dim}, the length of a key")));
    }
    Ok(head_dim)
}

/// Checks that the size in bytes of a KV cache for the whole context, the largest product of
/// hyper-parameters, does not overflow.
fn check_cache_size(keys: &Keys<'_>, factors: [usize; 4]) -> Result<(), Error> {
    const BYTES: usize = 2 * size_of::<f32>();
    if factors.iter().try_fold(BYTES, |product, &factor| product.checked_mul(factor)).is_some() {
        return Ok(());
    }
    let [layers, kv_heads, head_dim, context] = factors;
    let expected = format!(
        "a context whose KV cache of {layers} × {kv_heads} × {head_dim} memory can address"
    );
    Err(keys.invalid("context_length", context, expected))
}

/// Number of rows of the token embedding, checked against the keys that depend on it.
fn vocab(checkpoint: &Checkpoint, keys: &Keys<'_>, hidden: usize) -> Result<usize, Error> {
    let name = "token_embd.weight";
    let rows = checkpoint.tensor(name).map_or(0, |tensor| tensor.rows());
    let vocab = checkpoint.require(name, &[hidden, rows])?.rows();
    if vocab > MAX_SIZE {
        return Err(keys.invalid("vocab_size", vocab, format!("1 to {MAX_SIZE}")));
    }
    if let Some(stated) = keys.opt_size("vocab_size", MAX_SIZE)?
        && stated != vocab
    {
        let expected = format!("{vocab}, the rows of {name:?}");
        return Err(keys.invalid("vocab_size", stated, expected));
    }
    // Embeddings are often padded, so that there may be more rows than tokens.
    if let Some(tokens) = checkpoint.metadata().opt_bytes_array("tokenizer.ggml.tokens")?
        && tokens.len() > vocab
    {
        return Err(checkpoint.metadata().error(Problem::InvalidValue {
            key: "tokenizer.ggml.tokens".to_owned(),
            found: format!("{} tokens", tokens.len()),
            expected: format!("at most {vocab}, the rows of {name:?}"),
        }));
    }
    Ok(vocab)
}
