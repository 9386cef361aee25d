//! Constraints of generated text: JSON Schema, regular expressions and grammars, as masks of
//! tokens.
//!
//! A [`Compiler`] has the vocabulary of a model and turns a [`Constraint`] into a [`Matcher`]. A
//! matcher follows one text. Before each token it gives the [mask](Matcher::mask) of the tokens
//! that may come; afterwards it [consumes](Matcher::consume) the token. The masks are computed by
//! the crate `llguidance`.
//!
//! Constraints come from strangers. One that cannot be followed is refused: a grammar that does not
//! compile, a keyword of JSON Schema that is not supported, one that needs too much memory or time.
//! It is measured before it is compiled, and compiled on a thread of its own, for which a caller
//! waits at most five seconds.
//!
//! ```
//! use pelton_constraint::{Compiler, Constraint};
//!
//! let compiler = Compiler::of_bytes()?;
//! let mut matcher = compiler.compile(&Constraint::Regex("a+b".into()))?;
//! assert!(matcher.accepts(b"aab")?);
//! # Ok::<(), pelton_constraint::Error>(())
//! ```

mod compiler;
mod error;
mod gbnf;
mod lark;
mod matcher;
mod numbers;
mod schema;
mod size;
mod source;
mod vocabulary;
mod watch;
#[cfg_attr(target_family = "wasm", path = "inline.rs")]
mod work;

pub use compiler::Compiler;
pub use error::Error;
pub use gbnf::gbnf_to_lark;
pub use matcher::{Interrupt, Matcher};
pub use source::Constraint;
