//! The sizes of a model that do not depend on the layer.

use pelton_weights::{Checkpoint, Keys, MAX_SIZE};

use crate::{Error, NormKind, arch::Architecture};

const MAX_LAYERS: usize = 10_000;

/// The sizes of a model that do not depend on the layer. All are at least 1.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    /// Layers that run.
    pub(super) layers: usize,
    /// Layers in the file, with those that predict further tokens: the length of arrays of keys.
    pub(super) all_layers: usize,
    /// Width of the residual stream.
    pub(super) hidden: usize,
    /// Rows of the token embedding, at least the number of tokens.
    pub(super) vocab: usize,
    /// Positions of the training.
    pub(super) context: usize,
    /// Added under the root of norms; between 0 and 1.
    pub(super) eps: f32,
    /// As `eps`, of the norms of branches' results.
    pub(super) post_norm_eps: f32,
}

impl Sizes {
    pub(super) fn read(
        arch: &Architecture,
        keys: &Keys<'_>,
        checkpoint: &Checkpoint,
    ) -> Result<Self, Error> {
        let all_layers = keys.size("block_count", MAX_LAYERS)?;
        let further = keys.opt_nonzero("nextn_predict_layers", all_layers - 1)?.unwrap_or(0);
        let hidden = keys.size("embedding_length", MAX_SIZE)?;
        let eps = eps(arch, keys)?;
        Ok(Self {
            layers: all_layers - further,
            all_layers,
            hidden,
            vocab: vocab(keys, checkpoint, hidden)?,
            context: keys.size("context_length", MAX_SIZE)?,
            eps,
            post_norm_eps: post_norm_eps(arch, keys, eps)?,
        })
    }
}

fn eps(arch: &Architecture, keys: &Keys<'_>) -> Result<f32, Error> {
    let name = match arch.norm {
        NormKind::Layer => "attention.layer_norm_epsilon",
        NormKind::Rms | NormKind::L2 => "attention.layer_norm_rms_epsilon",
    };
    // converters write the other key for Nemotron-H
    let other = "attention.layer_norm_epsilon";
    let has = |name| keys.metadata().get(&keys.key(name)).is_some();
    let name = if !has(name) && has(other) { other } else { name };
    checked_eps(keys, name, keys.positive(name)?)
}

fn post_norm_eps(arch: &Architecture, keys: &Keys<'_>, eps: f32) -> Result<f32, Error> {
    let name = "attention.post_norm_rms_epsilon";
    match keys.opt_positive(name)? {
        Some(stated) => checked_eps(keys, name, stated),
        None => Ok(arch.post_norm_eps.unwrap_or(eps)),
    }
}

fn checked_eps(keys: &Keys<'_>, name: &str, eps: f32) -> Result<f32, Error> {
    if eps >= 1.0 {
        return Err(keys.invalid(name, eps, "a number between 0 and 1".to_owned()).into());
    }
    Ok(eps)
}

/// Rows of the token embedding, checked against the keys that depend on it.
fn vocab(keys: &Keys<'_>, checkpoint: &Checkpoint, hidden: usize) -> Result<usize, Error> {
    let name = "token_embd.weight";
    let rows = checkpoint.tensor(name).map_or(0, |tensor| tensor.rows());
    let vocab = checkpoint.require(name, &[hidden, rows])?.rows();
    if vocab > MAX_SIZE {
        return Err(keys.invalid("vocab_size", vocab, format!("1 to {MAX_SIZE}")).into());
    }
    if let Some(stated) = keys.opt_size("vocab_size", MAX_SIZE)?
        && stated != vocab
    {
        let expected = format!("{vocab}, the rows of {name:?}");
        return Err(keys.invalid("vocab_size", stated, expected).into());
    }
    // Embeddings are often padded, so that there may be more rows than tokens.
    if let Some(tokens) = keys.metadata().opt_bytes_array("tokenizer.ggml.tokens")?
        && tokens.len() > vocab
    {
        let (found, expected) = (tokens.len(), format!("at most {vocab}, the rows of {name:?}"));
        let found = format!("{found} tokens");
        return Err(keys.metadata().invalid("tokenizer.ggml.tokens", found, expected).into());
    }
    Ok(vocab)
}
