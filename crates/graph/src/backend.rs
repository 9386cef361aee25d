//! What a backend is: something that loads a plan and runs it.

use std::sync::Arc;

use pelton_weights::Checkpoint;

use crate::{Batch, Error, Fusion, Plan};

/// The element type of the key and value caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvType {
    /// IEEE 754 binary16.
    #[default]
    F16,
    /// IEEE 754 binary32: twice the memory; for holding results against an f32 reference.
    F32,
}

impl KvType {
    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

/// For how much an executable allocates when it loads: it allocates nothing afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rows in a batch, at most.
    pub rows: usize,
    /// Rows of a batch whose logits are wanted, at most.
    pub selected: usize,
    /// Page tables of a batch, at most.
    pub sequences: usize,
    /// Pages of the caches, all sequences together.
    pub pages: usize,
    /// The element type of the caches.
    pub kv: KvType,
}

/// A way to compute: a processor or a device.
pub trait Backend: Send + Sync {
    /// The fused ops that it has; other ops of a plan that it is given are elementary.
    fn fusions(&self) -> &[Fusion];

    /// Makes a plan ready to run: finds the weights, lays them out, allocates everything.
    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
    ) -> Result<Box<dyn Executable>, Error>;
}

/// A plan with its weights and caches resident on one backend.
pub trait Executable: Send {
    /// Runs one pass over the batch's rows, and returns the logits of the selected rows:
    /// `batch.selected.len() × plan.vocab` numbers, row after row.
    ///
    /// What a row gets does not depend on which other rows share its batch.
    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error>;
}
