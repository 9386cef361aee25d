//! From hyper-parameters to a plan: the operations, buffers and weights of one forward pass.
//!
//! A [`Plan`] is data. Everything in which architectures differ is written in it, so that a
//! [`Backend`] never asks for a model's name. The way through this crate is:
//!
//! 1. [`build()`] reads a checkpoint's hyper-parameters and tensors and, by the small table that its
//!    architecture has in `arch/`, lays out a plan of elementary steps;
//! 2. [`Plan::fuse`] joins neighbouring steps into the fused ones that a backend has;
//! 3. a [`Backend`] loads the plan into an [`Executable`], which runs it on a [`Batch`] of rows,
//!    or, where it can, in a chain that feeds each token that it chooses into the next pass.

mod arch;
mod backend;
mod batch;
mod build;
mod choice;
mod error;
mod fuse;
mod op;
mod plan;
mod print;
mod profile;
mod rope;

pub use arch::{Architecture, Presence, architectures};
pub use backend::{Backend, Executable, KvType, Limits};
pub use batch::{Batch, PAGE, Row, pages_for};
pub use build::build;
pub use choice::{Choice, NO_TOKEN};
pub use error::Error;
pub use fuse::Fusion;
pub use op::{Activation, Attention, Linear, Norm, Op, RopeStore};
pub use plan::{Buffer, BufferId, Cache, Plan, RopeId, Rows, Shape, Step, Weight, WeightId};
pub use profile::{Profile, StepProfile};
pub use rope::{Rope, RopeStyle};
