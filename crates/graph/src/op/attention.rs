//! Attention, and what comes before it.

use super::Norm;
use crate::{RopeId, WeightId};

/// The positions of its own sequence that the query of a row at position `p` sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mask {
    /// `0 ..= p`, or the last `window` of them, `p` included.
    Causal {
        /// Number of positions; `None` for all.
        window: Option<usize>,
    },
    /// Those of `Causal`, and the later ones of the row's [group](crate::Place::group): the rows of
    /// a picture see each other. They are in one pass.
    CausalOrGroup {
        /// Number of positions up to `p`; `None` for all.
        window: Option<usize>,
    },
    /// Those of the row's [group](crate::Place::group). All rows of a sequence are in one pass.
    Group,
    /// Those of `0 ..= p` whose `position / chunk` is that of `p`.
    Chunked {
        /// Positions of a chunk.
        chunk: usize,
    },
    /// All positions of the sequence, or those at most `window / 2` from `p`. All rows of a
    /// sequence are in one pass ([`Plan::whole_sequences`](crate::Plan::whole_sequences)).
    Symmetric {
        /// Twice the greatest distance; `None` for all positions.
        window: Option<usize>,
    },
    /// The positions `0 .. positions` of an encoded window, whatever `p` is. A pass
    /// of the [encoder](crate::Encoder) stores them: an earlier one, or the rows of
    /// the window in this one.
    Window {
        /// Number of positions.
        positions: usize,
    },
}

impl Mask {
    /// Positions that a query sees at most, its own and earlier ones: those that a cache must hold
    /// when rows of the next pass run. `None` for all.
    pub const fn window(self) -> Option<usize> {
        match self {
            Self::Causal { window } | Self::CausalOrGroup { window } => window,
            Self::Chunked { chunk } => Some(chunk),
            Self::Group | Self::Symmetric { .. } | Self::Window { .. } => None,
        }
    }

    /// The positions `first..end` that the query at `position` of a sequence with `len` positions
    /// sees; `len` counts those of this pass, and `group` is that of its [place](crate::Place).
    pub fn range(self, position: usize, len: usize, group: [u32; 2]) -> std::ops::Range<usize> {
        match self {
            Self::Causal { window } => {
                let first = window.map_or(0, |window| (position + 1).saturating_sub(window));
                first..position + 1
            }
            Self::CausalOrGroup { window } => {
                let own = Self::Causal { window }.range(position, len, group);
                own.start..own.end.max(group[1] as usize)
            }
            Self::Group => group[0] as usize..group[1] as usize,
            Self::Chunked { chunk } => position / chunk * chunk..position + 1,
            Self::Symmetric { window: None } => 0..len,
            Self::Symmetric { window: Some(window) } => {
                position.saturating_sub(window / 2)..len.min(position + window / 2 + 1)
            }
            Self::Window { positions } => 0..positions,
        }
    }
}

/// Attention of query heads over a cache of keys and values.
///
/// The score of a query `q` and a key `k` is `s = scale · q·k`, then `softcap · tanh(s / softcap)`,
/// then the summand of `alibi`. The softmax of the scores that the mask lets through weighs the
/// values. The scores' softmax has `sinks[h]` as a further score without a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// The index of the layer's cache in [`Plan::caches`](crate::Plan::caches).
    pub cache: usize,
    /// Query heads; a multiple of the cache's heads. Query head `h` reads KV head
    /// `h / (heads / kv_heads)`.
    pub heads: usize,
    /// The factor of each dot product of query and key.
    pub scale: f32,
    /// The positions that a query sees.
    pub mask: Mask,
    /// The bound of scores, above 0.
    pub softcap: Option<f32>,
    /// A score `[heads]` that takes part in the softmax and has no value (gpt-oss).
    pub sinks: Option<WeightId>,
    /// The exponent `b` of ALiBi (arXiv 2108.12409): the score of positions at distance `d` loses
    /// `slope(h) · d`, see [`alibi_slope`].
    pub alibi: Option<f32>,
}

/// The slope of a query head: `2^(-b (h + 1) / n)` with `n` the greatest power of two up to
/// `heads`, and for heads from `n` on `2^(-b (2 (h - n) + 1) / 2n)`.
pub fn alibi_slope(bias: f32, head: usize, heads: usize) -> f32 {
    let n = 1usize << heads.max(1).ilog2();
    let exponent = match head < n {
        true => (head + 1) as f64 / n as f64,
        false => (2 * (head - n) + 1) as f64 / (2 * n) as f64,
    };
    (-f64::from(bias) * exponent).exp2() as f32
}

/// Norms and rotation of query and key heads, and the store of keys and values in the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeStore {
    /// The norm of each query head.
    pub q_norm: Option<Norm>,
    /// The norm of each key head.
    pub k_norm: Option<Norm>,
    /// The rotation.
    pub rope: RopeId,
    /// Query heads.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// The index of the layer's cache.
    pub cache: usize,
}
