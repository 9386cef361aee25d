//! From GBNF's text to rules.

use std::collections::HashMap;

use super::rules::{Part, Rules};
use crate::Error;

/// Levels of parentheses, at most.
const DEPTH_MAX: usize = 50;
/// Limit of repetitions of repetitions.
const SUFFIXES_MAX: usize = 8;
/// Repetitions in braces, at most.
const REPEAT_MAX: usize = 2000;

/// Reads a grammar.
pub(super) fn parse(text: &str) -> Result<Rules, Error> {
    let lines = text.match_indices('\n').map(|(at, _)| at).collect();
    let mut parser =
        Parser { text, lines, at: 0, depth: 0, names: HashMap::new(), rules: Vec::new() };
    parser.index("root");
    parser.spaces(true);
    while parser.peek().is_some() {
        parser.rule()?;
    }
    let Parser { names, rules, .. } = parser;
    let mut sound = Rules::default();
    let mut names: Vec<(String, usize)> = names.into_iter().collect();
    names.sort_by_key(|&(_, index)| index);
    for ((name, _), slot) in names.into_iter().zip(rules) {
        let Slot { definition, line } = slot;
        let part = definition.ok_or_else(|| Error::Gbnf {
            line,
            reason: format!("the rule '{name}' is not defined, expected a line '{name} ::= …'"),
        })?;
        sound.rules.push((part, line));
    }
    Ok(sound)
}

/// A rule that was defined or used.
struct Slot {
    definition: Option<Part>,
    /// The line of its definition, or of its first use.
    line: usize,
}

struct Parser<'a> {
    text: &'a str,
    /// The ends of lines.
    lines: Vec<usize>,
    at: usize,
    depth: usize,
    names: HashMap<String, usize>,
    rules: Vec<Slot>,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn line(&self) -> usize {
        self.lines.partition_point(|&end| end < self.at) + 1
    }

    fn fail<T>(&self, reason: impl Into<String>) -> Result<T, Error> {
        Err(Error::Gbnf { line: self.line(), reason: reason.into() })
    }

    /// What comes next, for a message.
    fn found(&self) -> String {
        match self.peek() {
            None => "the end".to_owned(),
            Some('\n' | '\r') => "the end of the line".to_owned(),
            Some(c) => format!("'{c}'"),
        }
    }

    /// Skips spaces and comments.
    fn spaces(&mut self, lines: bool) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => {}
                Some('\n' | '\r') if lines => {}
                Some('#') => {
                    let end = self.rest().find('\n').unwrap_or(self.rest().len());
                    self.at += end;
                    continue;
                }
                _ => return,
            }
            self.next();
        }
    }

    fn name(&mut self) -> Option<String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let end = self.rest().find(|c| !is_word(c)).unwrap_or(self.rest().len());
        let name = self.rest()[..end].to_owned();
        self.at += end;
        (!name.is_empty()).then_some(name)
    }

    fn index(&mut self, name: &str) -> usize {
        if let Some(&index) = self.names.get(name) {
            return index;
        }
        let index = self.rules.len();
        self.names.insert(name.to_owned(), index);
        let line = self.line();
        self.rules.push(Slot { definition: None, line });
        index
    }

    fn rule(&mut self) -> Result<(), Error> {
        let line = self.line();
        let Some(name) = self.name() else {
            return self.fail(format!("found {}, expected the name of a rule", self.found()));
        };
        self.spaces(false);
        if !self.take("::=") {
            return self.fail(format!("found {} after '{name}', expected '::='", self.found()));
        }
        self.spaces(true);
        let part = self.choice(false)?;
        if !matches!(self.peek(), None | Some('\n' | '\r')) {
            return self.fail(format!("found {}, expected the end of the rule", self.found()));
        }
        let index = self.index(&name);
        self.rules[index] = Slot { definition: Some(part), line };
        self.spaces(true);
        Ok(())
    }

    fn choice(&mut self, nested: bool) -> Result<Part, Error> {
        let mut all = vec![self.sequence(nested)?];
        loop {
            // an alternative may begin the next line
            let before = self.at;
            self.spaces(true);
            if !self.take("|") {
                self.at = if nested { self.at } else { before };
                break;
            }
            self.spaces(true);
            all.push(self.sequence(nested)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Part::Choice(all) })
    }

    fn sequence(&mut self, nested: bool) -> Result<Part, Error> {
        let mut all = Vec::new();
        loop {
            self.spaces(nested);
            let part = match self.peek() {
                Some('"') => self.literal()?,
                Some('[') => self.class()?,
                Some('(') => self.group()?,
                Some('.') => {
                    self.next();
                    Part::Class { negated: true, ranges: Vec::new() }
                }
                Some('<' | '!') => self.token()?,
                Some(c) if c.is_ascii_alphanumeric() || c == '_' || c == '-' => {
                    let name = self.name().unwrap_or_default();
                    Part::Rule(self.index(&name))
                }
                _ => break,
            };
            all.push(self.repeated(part, nested)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Part::Sequence(all) })
    }

    fn group(&mut self) -> Result<Part, Error> {
        self.next();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.fail(format!("parentheses nest deeper than {DEPTH_MAX} levels"));
        }
        let part = self.choice(true)?;
        self.depth -= 1;
        self.spaces(true);
        match self.take(")") {
            true => Ok(part),
            false => self.fail(format!("found {}, expected ')'", self.found())),
        }
    }

    /// The part with the repetitions that follow it.
    fn repeated(&mut self, mut part: Part, nested: bool) -> Result<Part, Error> {
        let mut suffixes = 0;
        loop {
            let before = self.at;
            self.spaces(nested);
            if suffixes > SUFFIXES_MAX {
                return self.fail(format!("more than {SUFFIXES_MAX} repetitions of one part"));
            }
            suffixes += 1;
            let (min, max) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => {
                    self.next();
                    let bounds = self.bounds()?;
                    part = Part::Repeat { part: Box::new(part), min: bounds.0, max: bounds.1 };
                    continue;
                }
                _ => {
                    self.at = before;
                    return Ok(part);
                }
            };
            self.next();
            part = Part::Repeat { part: Box::new(part), min, max };
        }
    }

    fn number(&mut self) -> Result<Option<usize>, Error> {
        self.spaces(false);
        let end = self.rest().find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest().len());
        let digits = self.rest()[..end].to_owned();
        self.at += end;
        self.spaces(false);
        if digits.is_empty() {
            return Ok(None);
        }
        match digits.parse() {
            Ok(number) if number <= REPEAT_MAX => Ok(Some(number)),
            _ => self.fail(format!("{digits} repetitions, expected at most {REPEAT_MAX}")),
        }
    }

    fn bounds(&mut self) -> Result<(usize, Option<usize>), Error> {
        let min = self.number()?;
        let comma = self.take(",");
        let max = if comma { self.number()? } else { min };
        if !self.take("}") {
            return self.fail(format!("found {} in a repetition, expected '}}'", self.found()));
        }
        match (min, max) {
            (None, None) => self.fail("a repetition without a number"),
            (min, Some(max)) if min.unwrap_or(0) > max => {
                self.fail(format!("a repetition of at most {max} and at least more"))
            }
            (min, max) => Ok((min.unwrap_or(0), max)),
        }
    }

    fn literal(&mut self) -> Result<Part, Error> {
        self.next();
        let mut text = String::new();
        loop {
            match self.peek() {
                None | Some('\n' | '\r') => {
                    return self.fail(format!("found {} in a string, expected '\"'", self.found()));
                }
                Some('"') => {
                    self.next();
                    return Ok(Part::Text(text));
                }
                Some(_) => text.push(self.character()?),
            }
        }
    }

    fn class(&mut self) -> Result<Part, Error> {
        self.next();
        let negated = self.take("^");
        let mut ranges = Vec::new();
        loop {
            match self.peek() {
                None | Some('\n' | '\r') => {
                    return self.fail(format!("found {} in a class, expected ']'", self.found()));
                }
                Some(']') => {
                    self.next();
                    break;
                }
                Some(_) => {}
            }
            let first = self.character()?;
            let is_range = self.rest().starts_with('-') && !self.rest().starts_with("-]");
            let last = match is_range {
                true => {
                    self.next();
                    self.character()?
                }
                false => first,
            };
            if first > last {
                return self.fail(format!("the range '{first}-{last}' ends before its beginning"));
            }
            ranges.push((first, last));
        }
        match ranges.is_empty() && !negated {
            true => self.fail("an empty class of characters"),
            false => Ok(Part::Class { negated, ranges }),
        }
    }

    /// One character of a string or a class, with escapes.
    fn character(&mut self) -> Result<char, Error> {
        let Some(c) = self.next() else { return self.fail("found the end, expected a character") };
        if c != '\\' {
            return Ok(c);
        }
        let digits = match self.next() {
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some('t') => return Ok('\t'),
            Some('r') => return Ok('\r'),
            Some('n') => return Ok('\n'),
            Some(c @ ('\\' | '"' | '[' | ']' | '-' | '^' | '/' | '.')) => return Ok(c),
            Some(c) => return self.fail(format!("the unknown escape '\\{}'", c.escape_debug())),
            None => return self.fail("found the end, expected a character after '\\'"),
        };
        let code = self.rest().get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        match code.and_then(char::from_u32) {
            Some(c) => {
                self.at += digits;
                Ok(c)
            }
            None => {
                self.fail(format!("an escape without {digits} hexadecimal digits of a character"))
            }
        }
    }

    /// `<[id]>` or `<name>`, with a `!` before it for all other tokens.
    fn token(&mut self) -> Result<Part, Error> {
        let negated = self.take("!");
        let end = self.rest().find(['>', '\n', ' ']);
        let Some(end) =
            end.filter(|&end| self.rest().starts_with('<') && self.rest()[end..].starts_with('>'))
        else {
            return self.fail(format!("found {}, expected a token such as '<[7]>'", self.found()));
        };
        let inner = self.rest()[1..end].to_owned();
        self.at += end + 1;
        let id = inner.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        let token = match id {
            Some(id) if id.parse::<u32>().is_ok() => {
                format!("<[{}{id}]>", if negated { "^" } else { "" })
            }
            None if !negated && !inner.is_empty() && !inner.contains(['<', '[', ']']) => {
                format!("<{inner}>")
            }
            _ => return self.fail(format!("the token '<{inner}>', expected an id as in '<[7]>'")),
        };
        Ok(Part::Token(token))
    }
}
