//! A grammar's rules as data.

/// A part of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// A text.
    Text(String),
    /// One character of these ranges, or of all others.
    Class { negated: bool, ranges: Vec<(char, char)> },
    /// A rule, by its index.
    Rule(usize),
    /// A token as Lark writes it, such as `<[7]>`.
    Token(String),
    /// All of them.
    Sequence(Vec<Part>),
    /// One of them.
    Choice(Vec<Part>),
    /// So often; without a maximum any number.
    Repeat { part: Box<Part>, min: usize, max: Option<usize> },
}

/// Rules by index; the first is `root`.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Each with the line of its definition.
    pub(super) rules: Vec<(Part, usize)>,
}
