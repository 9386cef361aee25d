//! The wants of passes, with everything that they borrow.

use pelton_graph::Want;
use pelton_sampling::{FixedParams, Penalties};

/// A want with everything that it borrowed.
pub(super) enum OwnWant {
    Logits { row: usize },
    Sample(Box<OwnSample>),
}

pub(super) struct OwnSample {
    pub(super) row: usize,
    pub(super) params: Option<FixedParams>,
    pub(super) seed: u64,
    pub(super) index: u64,
    pub(super) penalties: Option<Penalties>,
    pub(super) bias: Vec<(u32, f32)>,
    pub(super) mask: Option<Vec<u32>>,
    pub(super) log_probs: Option<u8>,
    pub(super) recent: Vec<u32>,
    pub(super) pending: usize,
}

impl OwnWant {
    pub(super) fn of(want: &Want<'_>) -> Self {
        match want {
            Want::Logits { row } | Want::Later { row } => Self::Logits { row: *row as usize },
            Want::Sample(sample) => Self::Sample(Box::new(OwnSample {
                row: sample.row as usize,
                params: sample.draw.params,
                seed: sample.draw.seed,
                index: sample.draw.index,
                penalties: sample.draw.penalties,
                bias: sample.draw.bias.to_vec(),
                mask: sample.draw.mask.map(<[u32]>::to_vec),
                log_probs: sample.draw.log_probs,
                recent: sample.recent.to_vec(),
                pending: sample.pending as usize,
            })),
        }
    }
}
