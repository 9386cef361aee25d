//! From the steps of a plan to dispatches: kernels, their buffers and their grids.
//!
//! Words of this module:
//!
//! | word | meaning |
//! |---|---|
//! | step | an op of the plan with its buffers |
//! | dispatch, call | one launch of a kernel with its bindings, made at load; a step has one or more |
//! | row class | the phase and range of rows that a list of dispatches is for |
//! | grid | the workgroups of a dispatch, as a function of the pass |
//! | operand | the form in which a product reads its activations: f32, 8 bits, 16 bits, or normed f32 |
//! | K split | a range of the inputs of a product, whose partial sums are added in order |
//! | tile | the rows and outputs that a workgroup or a thread computes together |
//! | scratch | memory in which the dispatches of one step pass values to each other |
//! | site | a step, and the passes for which it is lowered |
//! | neighbours | the values in scratch memory that a step of a decoding pass finds and leaves |
//! | tuning | the part of a launch shape that autotuning chooses |
//! | concurrent | independent of the previous dispatch, so that no barrier is needed |

mod attention;
pub(crate) mod autotune;
mod bucket_sizes;
mod buckets;
pub(crate) mod buffers;
pub(crate) mod dispatch;
mod effort;
mod effort_sizes;
mod experts;
pub(crate) mod kernel_cache;
pub(crate) mod lowering;
mod matmul;
mod neighbours;
mod products;
mod prompt_matmul;
mod recurrent;
mod rows;
mod site;
mod tiled_matmul;
pub(crate) mod timestamps;

pub(crate) use buffers::{Cache, Inputs, Scratch};
