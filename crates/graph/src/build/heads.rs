//! The heads of attention, layer by layer.

use pelton_weights::{Keys, MAX_SIZE};

use super::sizes::Sizes;
use crate::{
    Error,
    arch::{Architecture, MixerRule},
};

/// The greatest length of a key or value.
const MAX_HEAD_DIM: usize = 1024;

/// The numbers of heads of each layer, and their lengths in windowed and in other layers.
pub(super) struct Heads {
    query: Vec<usize>,
    kv: Vec<usize>,
    full: [usize; 2],
    local: [usize; 2],
}

impl Heads {
    pub(super) fn read(keys: &Keys<'_>, sizes: &Sizes, arch: &Architecture) -> Result<Self, Error> {
        let name = "attention.head_count";
        let Some(query) = keys.opt_sizes(name, sizes.all_layers, MAX_SIZE)? else {
            return Err(keys.size(name, MAX_SIZE).err().map_or_else(
                || keys.invalid(name, "missing", "a number of heads".to_owned()).into(),
                Into::into,
            ));
        };
        if query.contains(&0) && !arch.sparse_layers {
            return Err(keys.invalid(name, 0, format!("1 to {MAX_SIZE}")).into());
        }
        // "If not present or if present and equal to [llm].attention.head_count, the model does
        // not use GQA." (docs/gguf.md in github.com/ggml-org/ggml)
        let name = "attention.head_count_kv";
        let kv = keys.opt_sizes(name, sizes.all_layers, MAX_SIZE)?;
        let kv = kv.unwrap_or_else(|| query.clone());
        let full = match arch.mixer {
            MixerRule::Latent => [0, 0],
            MixerRule::Attention
            | MixerRule::Delta { .. }
            | MixerRule::ShortConv
            | MixerRule::Scan
            | MixerRule::ScanAndAttention => full_dims(keys, sizes.hidden, &query)?,
        };
        let local_dim = |name, full| match keys.opt_size(name, MAX_SIZE)? {
            Some(dim) => checked_dim(keys, name, dim),
            None => Ok(full),
        };
        let local = [
            local_dim("attention.key_length_swa", full[0])?,
            local_dim("attention.value_length_swa", full[1])?,
        ];
        Ok(Self { query, kv, full, local })
    }

    /// Query heads of a layer.
    pub(super) fn query(&self, layer: usize) -> usize {
        self.query[layer]
    }

    /// Whether a layer has no key-value heads.
    pub(super) fn has_no_keys(&self, layer: usize) -> bool {
        self.kv[layer] == 0
    }

    /// KV heads of a layer with attention.
    pub(super) fn kv(&self, keys: &Keys<'_>, layer: usize) -> Result<usize, Error> {
        let (name, heads, kv_heads) =
            ("attention.head_count_kv", self.query[layer], self.kv[layer]);
        if kv_heads == 0 {
            return Err(keys.invalid(name, kv_heads, format!("1 to {MAX_SIZE}")).into());
        }
        if !heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of the {heads} query heads");
            return Err(keys.invalid(name, kv_heads, expected).into());
        }
        Ok(kv_heads)
    }

    /// The lengths of keys and values in windowed (`local`) or other layers.
    pub(super) fn dims(&self, local: bool) -> [usize; 2] {
        if local { self.local } else { self.full }
    }
}

/// The lengths of keys and of values: "If not specified, it will be n_embd / n_head."
/// (docs/gguf.md)
fn full_dims(keys: &Keys<'_>, hidden: usize, heads: &[usize]) -> Result<[usize; 2], Error> {
    let heads = heads.iter().copied().find(|&heads| heads > 0).unwrap_or(1);
    let dim = |name| {
        let implied = hidden.is_multiple_of(heads).then_some(hidden / heads);
        let Some(dim) = keys.opt_size(name, MAX_SIZE)?.or(implied) else {
            let hidden_key = keys.key("embedding_length");
            let expected =
                format!("a divisor of {hidden_key}, since {} is missing", keys.key(name));
            return Err(keys.invalid("attention.head_count", heads, expected).into());
        };
        checked_dim(keys, name, dim)
    };
    Ok([dim("attention.key_length")?, dim("attention.value_length")?])
}

fn checked_dim(keys: &Keys<'_>, name: &str, dim: usize) -> Result<usize, Error> {
    if dim > MAX_HEAD_DIM || !dim.is_multiple_of(2) {
        let expected = format!("an even number of at most {MAX_HEAD_DIM}");
        return Err(keys.invalid(name, dim, expected).into());
    }
    Ok(dim)
}
