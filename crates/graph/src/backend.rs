//! What a backend is: something that loads a plan and runs it.

use std::{fmt, sync::Arc};

use pelton_weights::Checkpoint;

use crate::{Batch, Choice, Error, Fusion, Plan, Profile, Row};

/// The element type of the key and value caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvType {
    /// IEEE 754 binary16.
    #[default]
    F16,
    /// IEEE 754 binary32: twice the memory; for holding results against an f32 reference.
    F32,
    /// Eight bits a number, in blocks of 32 elements of one head with an f16 scale: half the
    /// memory of f16, and a little less exact.
    Q8_0,
}

impl KvType {
    /// Bytes of `len` numbers, in whole blocks.
    pub const fn bytes(self, len: usize) -> usize {
        match self {
            Self::F16 => 2 * len,
            Self::F32 => 4 * len,
            Self::Q8_0 => 34 * len.div_ceil(32),
        }
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::Q8_0 => "q8_0",
        })
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
    /// What people call it: `cpu`, or the name of a GPU.
    fn name(&self) -> &str;

    /// The fused ops that it has; other ops of a plan that it is given are elementary.
    fn fusions(&self) -> &[Fusion];

    /// Makes a plan ready to run: finds the weights, lays them out, allocates everything.
    /// `progress` is told now and then how many bytes are loaded, and of how many.
    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error>;
}

const NO_CHAINS: Error = Error::Chain("this executable has none");

/// A plan with its weights and caches resident on one backend.
pub trait Executable: Send {
    /// Runs one pass over the batch's rows, and returns the logits of the selected rows:
    /// `batch.selected.len() × plan.vocab` numbers, row after row.
    ///
    /// What a row gets does not depend on which other rows share its batch.
    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error>;

    /// Runs `passes` passes over the batch and says where their time went.
    ///
    /// # Errors
    ///
    /// [`Error::Profile`] if the backend cannot tell.
    fn profile(&mut self, batch: &Batch<'_>, passes: usize) -> Result<Profile, Error> {
        let _ = (batch, passes);
        Err(Error::Profile)
    }

    /// Whether it has chains: passes of one row that follow each other without the host. Each
    /// chooses a token, which is the next one's row at the next position.
    ///
    /// A chain is begun, extended and read in parts, the oldest first, and ended before any other
    /// pass. Its tokens are those that [`forward`](Self::forward) and `pelton_sampling::Sampler`
    /// give one after the other.
    fn chains(&self) -> bool {
        false
    }

    /// Begins a chain with a row whose sequence has the pages of `table`, whatever number the row
    /// gives it. `choice` is for the token after the row; its index advances with the chain.
    fn begin_chain(&mut self, row: Row, table: &[u32], choice: &Choice) -> Result<(), Error> {
        let _ = (row, table, choice);
        Err(NO_CHAINS)
    }

    /// Submits `n` more passes, at least one, and does not wait for them: the next part. The
    /// positions of all that was submitted must be within the pages and the plan's context.
    fn extend_chain(&mut self, n: usize) -> Result<(), Error> {
        let _ = n;
        Err(NO_CHAINS)
    }

    /// Waits for the oldest part that has not been read, and returns the tokens that it chose:
    /// [`NO_TOKEN`](crate::NO_TOKEN) where no logit was a number (what follows it means nothing).
    fn read_chain(&mut self) -> Result<&[u32], Error> {
        Err(NO_CHAINS)
    }

    /// Ends the chain. Parts that were not read are lost; if they still run, it is before
    /// everything that is run later, so that what they write to the caches can be overwritten.
    fn end_chain(&mut self) {}
}
