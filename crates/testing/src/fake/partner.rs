//! The values that partners read of each other. Such executables run their passes when they are
//! submitted, in the order of both, as the queue of a device does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton_graph::{Hidden, Outputs, Pass, RECENT};
use pelton_sampling::Sampled;

/// The values of one executable that its partner reads.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// The token of each slot at each position, the newest [`RECENT`] of them.
    pub(super) ring: Vec<[u32; RECENT]>,
    /// The hidden states of the newest pass, and its rows; 0 if it was refused.
    pub(super) hidden: Vec<f32>,
    pub(super) rows: usize,
}

/// Values that two executables share.
#[derive(Clone, Debug, Default)]
pub(super) struct Own(Arc<Mutex<Values>>);

impl Own {
    pub(super) fn lock(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hidden states of a pass: those that came with it, or rows of another pass.
pub(super) enum OwnHidden {
    Given(Vec<f32>),
    Before(Vec<u32>),
    Partner(Vec<u32>),
}

impl OwnHidden {
    pub(super) fn of(pass: &Pass<'_>) -> Self {
        match pass.hidden {
            Hidden::Given(values) => Self::Given(values.to_vec()),
            Hidden::Before(rows) => Self::Before(rows.to_vec()),
            Hidden::Partner(rows) => Self::Partner(rows.to_vec()),
        }
    }

    /// The states `[rows, width]`, where the pass before has left `before`.
    pub(super) fn states(&self, width: usize, before: &[f32], partner: Option<&Own>) -> Vec<f32> {
        let of = |rows: &[u32], states: &[f32]| {
            let rows = rows.iter().flat_map(|&row| &states[row as usize * width..][..width]);
            rows.copied().collect()
        };
        match self {
            Self::Given(values) => values.clone(),
            Self::Before(rows) => of(rows, before),
            Self::Partner(rows) => {
                partner.map_or(Vec::new(), |partner| of(rows, &partner.lock().hidden))
            }
        }
    }
}

/// The results of a pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) logits: Vec<f32>,
    pub(super) samples: Vec<Sampled>,
    pub(super) hidden: Vec<f32>,
    pub(super) drafted: Vec<u32>,
}

impl Results {
    pub(super) fn outputs(&self) -> Outputs<'_> {
        Outputs {
            logits: &self.logits,
            samples: &self.samples,
            hidden: &self.hidden,
            drafted: &self.drafted,
        }
    }
}
