//! From the steps of a plan to dispatches: kernels, their buffers and their grids.
//!
//! Words of this module:
//!
//! | word | meaning |
//! |---|---|
//! | loaded | a plan with its weights and buffers on a GPU: the operands of dispatches |
//! | options | the choices by which a plan is lowered, which a lowering keeps |
//! | step | an op of the plan with its buffers |
//! | row class | the phase and range of rows that a list of dispatches is for; `alone` is one selected row |
//! | site | a step, and the passes for which it is lowered |
//! | handoff | the values in scratch memory that a step of a decoding pass finds and leaves |
//! | dispatch, call | one launch of a kernel with its bindings, made at load; a step has one or more |
//! | buffer list | the buffers of a dispatch by the names of the kernel's bindings |
//! | grid | the workgroups of a dispatch, as a function of the pass |
//! | step shape | the properties of a pass that the grids of a step depend on |
//! | projection | a matrix product of a step: its matrix, the norm before it, and its buffers |
//! | operand | the form in which a product reads its activations: f32, 8 bits, 16 bits, or normed f32 |
//! | shard | the rows of a matrix that one binding has |
//! | plane | the codes, scales or minima of a shard, in a buffer range of their own |
//! | K split | a range of the inputs of a product, whose partial sums are added in order |
//! | tile | the rows and outputs that a workgroup or a thread computes together |
//! | inputs | the buffers that the host writes for each pass |
//! | scratch | memory in which the dispatches of one step, or of two that follow each other, pass values to each other |
//! | halves | activations in 16 bits, for matrix cores |
//! | tuning | the part of a launch shape that autotuning chooses |
//! | phase | a kernel as a part of a persistent kernel |
//! | concurrent | independent of the previous dispatch, so that no barrier is needed |
//! | below 1 | said of rows of an effort below 1; `lives` are their thresholds of live inputs |
//! | full | said of rows of effort 1 |
//! | apart | written to memory of its own, because the step adds to its output |

mod attention;
pub(crate) mod autotune;
pub(crate) mod buffers;
pub(crate) mod choices;
pub(crate) mod dispatch;
mod effort;
mod experts;
mod handoff;
pub(crate) mod kernel_cache;
mod linear;
mod linear_cores_decode;
mod linear_cores_prompt;
mod linear_tiled;
mod live_sizes;
pub(crate) mod loaded;
pub(crate) mod lowering;
mod operand;
pub(crate) mod options;
mod projection;
mod recurrent;
mod rows;
mod site;
pub(crate) mod timestamps;

pub(crate) use buffers::{Cache, Inputs, Scratch};
