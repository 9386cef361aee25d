//! One model over several devices: whole layers of its plan on each.
//!
//! 1. [`cut()`] makes a plan of each range of layers. It has the weights, caches and states of its
//!    own layers alone, and the buffers that go in and out.
//! 2. [`Split`] is a backend of several backends: it fuses and loads each part on its device.
//! 3. The executable has a thread for each device. A pass goes through all of them in turn, and so
//!    do copies of pages and states, so each device has the order of submission.
//!
//! [`HostParts`] is a GPU that has all of a plan but the weights of some feed-forwards, which are
//! in the CPU's memory. The CPU computes them in decoding passes; for prompts their weights are
//! streamed to the GPU.
//!
//! [`balance()`] divides layers among devices of the same kind. [`Placement`] explains what each
//! device has, and [`predict()`] how fast they are. Values between parts are f32 and not rounded.
//! Parts on equal devices give the bits of the whole plan.

mod backoff;
mod balance;
mod cut;
mod executable;
mod host;
mod predict;
mod relayed_pass;
mod split;
mod stage;
mod table;
mod tokens;

pub use balance::balance;
pub use cut::{borders, cut};
pub use host::{FeedForwards, HostParts, HostShare, host_parts};
pub use predict::{FEW, Prediction, PromptPrediction, Term, Work, predict};
pub use split::{Split, file_bytes, limits_of};
pub use table::{DeviceShare, Placement, Size};
