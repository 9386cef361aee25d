//! Constraints as requests give them.

use serde_json::Value;

/// The texts that are allowed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Constraint {
    /// JSON that a schema (draft 2020-12) allows, compact or with single spaces after `,` and `:`. The
    /// members of an object come in the order of the schema.
    JsonSchema(Value),
    /// Any JSON object.
    JsonObject,
    /// A text that a regular expression matches as a whole.
    Regex(String),
    /// A text of a grammar in llguidance's dialect of Lark, from its rule `start` on.
    Lark(String),
    /// A text of a grammar in GBNF, llama.cpp's notation, from its rule `root` on.
    Gbnf(String),
}
