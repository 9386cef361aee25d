//! Plans on the CPU.
//!
//! There are two paths through a plan. The *reference* path ([`Cpu::reference`]) computes every
//! elementary op on one thread with sums in f64: it is the specification. The *fast* path
//! ([`Cpu::new`]) has fused ops, a thread pool, and kernels for the vector instructions of the CPU.
//!
//! The modules import in one direction, from the bottom of this list to the top:
//!
//! | module | contents |
//! |---|---|
//! | `isa` | detection of instruction sets |
//! | `simd` | vectors of sixteen f32 lanes, kernels generic over them |
//! | `pool` | threads that run one closure in step |
//! | `memory` | aligned buffers, KV caches, weights, the memory of the system |
//! | `rates` | the speed of the memory and of the pool |
//! | `gemm` | matrix products in every stored format |
//! | `batch`, `samples` | the rows of a running pass, the tokens drawn from its logits |
//! | `route` | the choice of experts |
//! | `observe` | the inputs of matrix products, for a callback |
//! | `reference`, `exec` | the two paths |
//! | `executable` | the backend |

mod accepts;
mod batch;
mod calibrate;
mod effort;
mod exec;
mod executable;
// Public for benchmarks; not a stable interface.
#[doc(hidden)]
pub mod gemm;
#[doc(hidden)]
pub mod isa;
mod memory;
mod observe;
#[doc(hidden)]
pub mod pool;
mod rates;
mod reference;
mod route;
mod samples;
mod simd;

pub use calibrate::effort_scores;
pub use executable::Cpu;
pub use memory::{SystemMemory, packed_bytes};
pub use observe::MatrixInput;
pub use pool::default_threads;
pub use rates::{pool_bandwidth, read_bandwidth};
