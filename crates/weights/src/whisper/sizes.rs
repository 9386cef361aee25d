//! The sizes of a model, and their limits.

use crate::Value;
use crate::metadata::Entries;

/// The architecture's name, the prefix of its keys.
pub(crate) const ARCHITECTURE: &str = "whisper";

/// The sizes of an encoder or a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// Positions: of an encoded window, or of tokens.
    pub(crate) context: usize,
    pub(crate) heads: usize,
    pub(crate) layers: usize,
    /// Width of a feed-forward network.
    pub(crate) inner: usize,
}

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Values of a frame of the spectrogram.
    pub(crate) mels: usize,
    /// Width of the residual streams.
    pub(crate) width: usize,
    /// Tokens of the vocabulary.
    pub(crate) vocab: usize,
    pub(crate) encoder: Side,
    pub(crate) decoder: Side,
}

/// The greatest value of a size. Those of published models are tens of times smaller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    most: usize,
    only: &'static [usize],
}

/// The limits of the sizes.
pub(crate) mod limits {
    use super::Limit;

    pub(crate) const CONTEXT: Limit = Limit::most(1 << 16);
    pub(crate) const HEADS: Limit = Limit::most(1 << 10);
    pub(crate) const LAYERS: Limit = Limit::most(1 << 10);
    pub(crate) const WIDTH: Limit = Limit::most(1 << 16);
    pub(crate) const VOCAB: Limit = Limit::most(1 << 20);
    /// The two spectrograms of published models.
    pub(crate) const MELS: Limit = Limit { most: 128, only: &[80, 128] };
}

impl Limit {
    const fn most(most: usize) -> Self {
        Self { most, only: &[] }
    }

    /// The value, or the ones that are expected in its place.
    pub(crate) fn check(self, value: usize) -> Result<usize, String> {
        match self.only {
            [] if (1..=self.most).contains(&value) => Ok(value),
            [] => Err(format!("1 to {}", self.most)),
            only if only.contains(&value) => Ok(value),
            only => Err(only.iter().map(usize::to_string).collect::<Vec<_>>().join(" or ")),
        }
    }
}

impl Sizes {
    /// Sets the keys of the sizes.
    pub(crate) fn set(&self, out: &mut Entries) {
        let mut size = |key: &str, value: usize| {
            out.insert(&format!("{ARCHITECTURE}.{key}"), Value::from(value as u32));
        };
        size("encoder.mels_count", self.mels);
        for (name, side) in [("encoder", self.encoder), ("decoder", self.decoder)] {
            size(&format!("{name}.context_length"), side.context);
            size(&format!("{name}.embedding_length"), self.width);
            size(&format!("{name}.block_count"), side.layers);
            size(&format!("{name}.attention.head_count"), side.heads);
        }
    }
}
