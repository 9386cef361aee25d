//! The size of a regular expression.

use std::convert::Infallible;

use regex_syntax::ast::{self, Ast, ClassSetItem, Flag, FlagsItemKind};

use super::limits::{BYTES_MAX, PARTS_MAX, check};
use crate::Error;

/// The size of a regular expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Repetitions, classes, assertions, and letters of either case.
    pub(crate) parts: usize,
    /// Bytes of literal text.
    pub(crate) bytes: usize,
}

impl Size {
    /// The size of an expression; nothing for one that the compiler will refuse.
    pub(crate) fn of(regex: &str, ignores_case: bool) -> Self {
        // to read it takes a hundred times its length
        if regex.len() > 4 * BYTES_MAX {
            return Self { parts: 0, bytes: regex.len() };
        }
        let counter = Counter { size: Self::default(), letters: 0, ignores_case };
        match ast::parse::Parser::new().parse(regex) {
            Ok(ast) => ast::visit(&ast, counter).unwrap_or_else(|never| match never {}),
            Err(_) => Self::default(),
        }
    }

    /// Refuses an expression that is too large.
    pub(crate) fn check(self) -> Result<(), Error> {
        check("repetitions and classes in one expression", self.parts, PARTS_MAX)?;
        check("bytes of text in one expression", self.bytes, BYTES_MAX)
    }

    /// The size of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            parts: self.parts.saturating_add(other.parts),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

struct Counter {
    size: Size,
    letters: usize,
    ignores_case: bool,
}

impl Counter {
    fn flags(&mut self, flags: &ast::Flags) {
        self.ignores_case |=
            flags.items.iter().any(|item| item.kind == FlagsItemKind::Flag(Flag::CaseInsensitive));
    }
}

impl ast::Visitor for Counter {
    type Output = Size;
    type Err = Infallible;

    fn finish(self) -> Result<Size, Infallible> {
        let letters = if self.ignores_case { self.letters } else { 0 };
        Ok(Size { parts: self.size.parts + letters, ..self.size })
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Infallible> {
        match ast {
            Ast::Literal(literal) => {
                self.size.bytes += literal.c.len_utf8();
                self.letters += 1;
            }
            Ast::Flags(set) => self.flags(&set.flags),
            Ast::Group(group) => {
                if let Some(flags) = group.flags() {
                    self.flags(flags);
                }
            }
            Ast::Empty(_) | Ast::Alternation(_) | Ast::Concat(_) => {}
            _ => self.size.parts += 1,
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, _: &ClassSetItem) -> Result<(), Infallible> {
        self.size.bytes += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_and_classes_are_parts() {
        for (regex, parts, bytes) in [
            ("abc", 0, 3),
            ("a?b*c{2,9}", 3, 3),
            (r"[a-z]\w.(?:x|y)", 3, 3),
            ("(?i)abc", 3, 3),
            ("(", 0, 0),
        ] {
            let Size { parts: found, bytes: text } = Size::of(regex, false);
            assert_eq!((found, text), (parts, bytes), "{regex}");
        }
        assert_eq!(Size::of("ab", true).parts, 2);
        assert_eq!(Size::of(&"a?".repeat(5000), false).parts, 5000);
    }
}
