//! Refusal of templates that use `loop` as a value.
//!
//! A loop keeps the arguments of `loop.changed` and its own items, which it makes one after the
//! other. One that is kept in itself is never freed.

use serde_json::Value as Json;

use super::edits::refused;
use crate::Error;

/// The uses of `loop` in a template.
#[derive(Default)]
pub(super) struct Loops {
    /// Where it is used and no use of an attribute, a call or a test was found around it.
    values: Vec<Json>,
}

impl Loops {
    /// Notes a node, after those within it.
    pub(super) fn visit(&mut self, kind: &str, content: &Json, span: &Json) {
        match kind {
            "Var" if content["id"] == "loop" => self.values.push(span.clone()),
            "GetAttr" | "GetItem" | "Call" | "Test" if content["expr"]["expr"] == "Var" => {
                let used = &content["expr"]["inner"][1];
                self.values.retain(|span| span != used);
            }
            _ => {}
        }
    }

    /// Checks the template whose nodes were noted.
    ///
    /// # Errors
    /// If it uses `loop` as a value.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.values.first() {
            Some(span) => Err(refused(
                span,
                "`loop` is used as a value, write what is meant of it, such as `loop.index`",
            )),
            None => Ok(()),
        }
    }
}
