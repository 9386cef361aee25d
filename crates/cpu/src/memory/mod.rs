//! The memory of an executable: weights, values between steps, KV caches, recurrent states.

mod aligned;
mod available;
mod groups;
mod kv_blocks;
mod kv_cache;
mod load_budget;
pub(crate) mod prefetch;
mod slot_states;
mod state;
mod weights;

pub(crate) use aligned::AlignedBuf;
pub use available::SystemMemory;
pub(crate) use available::available;
pub(crate) use kv_blocks::{BLOCK, Blocks, code_bytes, level};
pub(crate) use kv_cache::{KvCache, Stored};
pub(crate) use load_budget::{LoadBudget, Use};
pub(crate) use slot_states::{SlotAdapters, SlotStates};
pub(crate) use state::{Buffers, State};
pub use weights::packed_bytes;
pub(crate) use weights::{StoredMatrices, Weights, multiplied};
