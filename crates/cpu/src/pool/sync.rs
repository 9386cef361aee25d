//! The synchronization primitives of the barrier: those of `std`, or of loom, which runs a test
//! under every interleaving of its threads.

#[cfg(loom)]
pub(super) use loom::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
pub(super) use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};

/// A value on cache lines of its own (pairs of lines, as some CPUs fetch two at a time).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Padded<T>(pub(super) T);
