//! Chat templates: from messages to the text that a model continues.

mod adapt;
mod bindings;
mod bounds;
mod chains;
mod charge;
mod chat;
mod clock;
mod deadline;
mod edits;
mod environment;
mod failure;
mod generation;
mod json;
mod loops;
mod marks;
mod methods;
mod numbers;
mod operators;
mod pictures;
mod probe;
mod render;
mod rewrite;
mod segment;
mod sharing;
mod slices;
mod walks;

pub use chat::Chat;
pub use clock::Clock;
pub use probe::Capabilities;
pub use render::{Limits, Template};
pub use segment::{Prompt, Segment};
