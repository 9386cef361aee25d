//! Pages of keys and values: who holds which, which are cached for later prompts, and how many
//! there are.
//!
//! [`PageCache`] is the only owner: a [`PagePool`](pool::PagePool) for each cache group and one
//! [`PrefixTree`](prefix_tree::PrefixTree). Sequences hold pages through their
//! [`SequencePages`].
//!
//! A page is *free*; *private*, held by the one sequence that writes it; or *cached*, full and
//! immutable in the prefix tree, with any number of holders. In debug builds `free + private +
//! cached = total`, and the holders of every page, are checked around every pass.

mod events;
mod page_cache;
mod pool;
mod prefix_tree;
mod sizing;
mod snapshots;
mod tables;

pub(crate) use page_cache::PageCache;
pub(crate) use prefix_tree::Namespace;
pub(crate) use sizing::{
    LOGIT_BIAS_MAX, Part, Sizes, bytes, free, full_length_bytes, limits, wanted_context,
};
pub(crate) use tables::SequencePages;
