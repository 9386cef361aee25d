//! Constraints of generated text: which tokens may come next.

mod error;
mod source;

pub use error::Error;
pub use source::Constraint;
