//! Constraints as requests give them.

use serde_json::Value;

/// The texts that are allowed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Constraint {
    /// JSON that a schema (draft 2020-12) allows. The members of an object come in the order of the
    /// schema. Between two symbols there may be one space, or one line break with at most 40
    /// spaces.
    ///
    /// Supported are `type`, `enum`, `const`, `anyOf`, `allOf`, `oneOf` of disjoint schemas, and
    /// `$ref` within the schema. So are `properties`, `required`, `additionalProperties`,
    /// `patternProperties`, `minProperties`, `maxProperties`, `items`, `prefixItems`, `minItems`
    /// and `maxItems`. Also `minLength`, `maxLength`, `pattern`, `format`, `minimum`, `maximum`,
    /// `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`, and `propertyNames` with `enum`,
    /// `const` or `pattern`. `uniqueItems`, `contentSchema` and formats that are not known are
    /// annotations, which are not enforced. Other keywords of the specification are refused.
    JsonSchema(Value),
    /// Any JSON object.
    JsonObject,
    /// A text that a regular expression, in the syntax of the crate `regex` without look-around and
    /// anchors, matches as a whole. `^` at its beginning and `$` at its end have no effect.
    Regex(String),
    /// A text of a grammar in llguidance's dialect of Lark, from its rule `start` on.
    Lark(String),
    /// A text of a grammar in GBNF, llama.cpp's notation, from its rule `root` on.
    Gbnf(String),
}
