//! Attention over the paged KV cache, as in flash-decoding.

mod prefetch;
mod schedule;
mod tile;
mod unpack;

pub(in crate::exec) use schedule::Attender;
