//! The sizes that an executable is loaded for.

use crate::{Error, KvType, Rows};

/// The sizes that an executable allocates for when it loads. It allocates nothing of a model's size
/// afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum rows of a pass.
    pub rows: usize,
    /// Maximum wants of a pass.
    pub wants: usize,
    /// Slots: the maximum number of sequences that have page tables at the same time.
    pub sequences: usize,
    /// Maximum positions of a sequence; at most the plan's context.
    pub context: usize,
    /// Pages of each cache group `[groups]`, in the order of
    /// [`Plan::groups`](crate::Plan::groups), for all sequences together.
    pub pages: Vec<usize>,
    /// Snapshots of recurrent states, each of all states of one slot.
    pub snapshots: usize,
    /// The element type of the caches.
    pub kv: KvType,
    /// Number of tokens that can be drawn: those with an id below it. An embedding table may have
    /// rows that no token belongs to.
    pub tokens: usize,
    /// Maximum logit biases of one draw.
    pub bias: usize,
}

impl Limits {
    /// Maximum rows of a buffer in a pass.
    pub const fn rows_of(&self, rows: Rows) -> usize {
        match rows {
            Rows::All => self.rows,
            Rows::Selected => self.wants,
        }
    }

    /// Maximum rows of a decoding pass.
    pub const fn decode_rows(&self) -> usize {
        /// Maximum rows of the verification of one draft.
        const MAX_DRAFT: usize = 16;
        let wants = if self.wants > MAX_DRAFT { self.wants } else { MAX_DRAFT };
        if self.rows < wants { self.rows } else { wants }
    }

    /// Checks the slot and the index of a snapshot that is saved or restored.
    ///
    /// # Errors
    ///
    /// [`Error::Pass`] naming the one that does not exist.
    pub fn check_snapshot(&self, slot: u32, snapshot: u32) -> Result<(), Error> {
        for (what, found, count) in
            [("slot", slot, self.sequences), ("snapshot", snapshot, self.snapshots)]
        {
            if found as usize >= count {
                return Err(Error::Pass(format!(
                    "{what} {found} of recurrent states, expected one of {count}"
                )));
            }
        }
        Ok(())
    }
}
