//! Plans on the processor.
//!
//! There are two ways through a plan. The *plain* path ([`Cpu::plain`]) computes every elementary
//! op in the simplest form: it is the specification. The *fast* path ([`Cpu::new`]) is the one to
//! use: it has the fused ops, a thread pool, and kernels for what the processor offers.

mod cache;
mod executable;
mod fast;
// Public for benchmarks; not a stable interface.
#[doc(hidden)]
pub mod kernels;
mod lines;
mod plain;
// Public for benchmarks; not a stable interface.
#[doc(hidden)]
pub mod pool;
mod simd;
mod state;

pub use executable::{Cpu, FUSIONS};
pub use pool::default_threads;
