//! Pre-tokenizers of `tokenizer.json`.

use std::borrow::Cow;
use std::ops::Range;

use super::chars::{is_punctuation, is_word};
use super::node::Node;
use super::normalize::MAX_STEPS;
use super::pattern::{Behavior, Pattern};
use super::piece::Piece;
use crate::Error;
use crate::bytes::char_of;

/// GPT-2's pattern of words.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// A pre-tokenizer: changes a piece, and splits it.
#[derive(Debug)]
pub(super) enum Splitter {
    /// Splits at matches of a pattern, or between them.
    Pattern { pattern: Pattern, behavior: Behavior, invert: bool },
    /// Splits at characters of a class.
    Class { class: fn(char) -> bool, behavior: Behavior },
    /// Splits at a character.
    Delimiter(char),
    /// Runs of word characters and runs of other characters, without white space.
    Whitespace,
    /// Marks spaces, puts a mark before a piece, and may split before marks.
    Metaspace { mark: char, prefix: Prefix, split: bool },
    /// Chunks of a number of characters.
    FixedLength(usize),
    /// Puts a space before a piece that does not begin with one.
    SpaceBefore,
    /// Replaces bytes by the characters of GPT-2's alphabet.
    ByteAlphabet,
}

/// The pieces that a mark is put before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    Never,
    First,
    Always,
}

/// Reads a pre-tokenizer and appends its steps.
///
/// # Errors
/// If a rule is unknown or malformed.
pub(super) fn read(node: Node<'_>, steps: &mut Vec<Splitter>) -> Result<(), Error> {
    if steps.len() >= MAX_STEPS {
        return Err(node.error(format!("is one of more than {MAX_STEPS} pre-tokenizers")));
    }
    let class = |class, behavior| Splitter::Class { class, behavior };
    match node.required_text("type")? {
        "Sequence" => {
            for inner in node.nodes("pretokenizers")? {
                read(inner, steps)?;
            }
        }
        "ByteLevel" => {
            if node.required_flag("add_prefix_space")? {
                steps.push(Splitter::SpaceBefore);
            }
            // Offsets of tokens are not given.
            node.disregard(&["trim_offsets"]);
            if node.flag("use_regex")?.unwrap_or(true) {
                let pattern = Pattern::compile(GPT2).map_err(|fault| node.error(fault))?;
                let behavior = Behavior::Isolated;
                steps.push(Splitter::Pattern { pattern, behavior, invert: false });
            }
            steps.push(Splitter::ByteAlphabet);
        }
        "Split" => steps.push(Splitter::Pattern {
            pattern: Pattern::read(&node)?,
            behavior: Behavior::read(&node)?,
            invert: node.required_flag("invert")?,
        }),
        "Whitespace" => steps.push(Splitter::Whitespace),
        "WhitespaceSplit" => steps.push(class(char::is_whitespace, Behavior::Removed)),
        "BertPreTokenizer" => {
            steps.push(class(char::is_whitespace, Behavior::Removed));
            steps.push(class(is_punctuation, Behavior::Isolated));
        }
        "Punctuation" => {
            let behavior = match node.text("behavior")? {
                Some(_) => Behavior::read(&node)?,
                None => Behavior::Isolated,
            };
            steps.push(class(is_punctuation, behavior));
        }
        "Digits" => {
            let behavior = match node.required_flag("individual_digits")? {
                true => Behavior::Isolated,
                false => Behavior::Contiguous,
            };
            steps.push(class(char::is_numeric, behavior));
        }
        "CharDelimiterSplit" | "Delimiter" => {
            steps.push(Splitter::Delimiter(node.required_char("delimiter")?));
        }
        "Metaspace" => steps.push(metaspace(&node)?),
        "FixedLength" => {
            let length = node.integer("length")?.unwrap_or(5) as usize;
            if length == 0 {
                return Err(node.wrong("length", "1 or more characters"));
            }
            steps.push(Splitter::FixedLength(length));
        }
        _ => return Err(node.wrong("type", "a pre-tokenizer that is computed")),
    }
    node.finish()
}

fn metaspace(node: &Node<'_>) -> Result<Splitter, Error> {
    let stated = match node.text("prepend_scheme")? {
        None | Some("always") => Prefix::Always,
        Some("first") => Prefix::First,
        Some("never") => Prefix::Never,
        Some(_) => return Err(node.wrong("prepend_scheme", "always, first or never")),
    };
    let prefix = match node.flag("add_prefix_space")? {
        Some(false) => Prefix::Never,
        _ => stated,
    };
    // Older files repeat the mark as a string.
    node.disregard(&["str_rep"]);
    Ok(Splitter::Metaspace {
        mark: node.required_char("replacement")?,
        prefix,
        split: node.flag("split")?.unwrap_or(true),
    })
}

/// Callback for one word.
pub(super) type Each<'e> = &'e mut dyn FnMut(&str) -> Result<(), Error>;

/// Splits a piece into words, from left to right. No word is empty.
///
/// # Errors
/// Those of `each`, or if a pattern backtracks too often.
pub(super) fn split(steps: &[Splitter], piece: &Piece<'_>, each: Each<'_>) -> Result<(), Error> {
    if piece.text.is_empty() {
        return Ok(());
    }
    let Some((step, rest)) = steps.split_first() else { return each(&piece.text) };
    step.split(piece, &mut |piece| split(rest, &piece, &mut *each))
}

/// Callback for one piece.
type Sink<'s> = &'s mut dyn FnMut(Piece<'_>) -> Result<(), Error>;

/// A part of a piece.
fn part<'p>(piece: &'p Piece<'_>, range: Range<usize>) -> Piece<'p> {
    let at_start = piece.at_start && range.start == 0;
    Piece { text: Cow::Borrowed(&piece.text[range]), at_start, continues: piece.continues }
}

impl Splitter {
    fn split(&self, piece: &Piece<'_>, each: Sink<'_>) -> Result<(), Error> {
        let text = &*piece.text;
        match self {
            Self::Pattern { pattern, behavior, invert } => divide(piece, *behavior, each, |each| {
                pattern.matches(text, &mut |range, is_match| each(range, is_match != *invert))
            }),
            Self::Class { class, behavior } => {
                divide(piece, *behavior, each, |each| by_class(text, class, each))
            }
            Self::Delimiter(delimiter) => divide(piece, Behavior::Removed, each, |each| {
                by_class(text, &|c| c == *delimiter, each)
            }),
            Self::Whitespace => {
                let kind = |c: char| match c {
                    c if is_word(c) => Some(true),
                    c if c.is_whitespace() => None,
                    _ => Some(false),
                };
                let mut rest = 0;
                while let Some(first) = text[rest..].chars().next() {
                    let same = |c: char| kind(c) == kind(first);
                    let end = text[rest..].find(|c| !same(c)).map_or(text.len(), |at| rest + at);
                    if kind(first).is_some() {
                        each(part(piece, rest..end))?;
                    }
                    rest = end;
                }
                Ok(())
            }
            Self::Metaspace { mark, prefix, split } => {
                let mut buffer = [0; 4];
                let mark_text = &*mark.encode_utf8(&mut buffer);
                let mut marked = piece.clone();
                if marked.text.contains(' ') {
                    marked.text = Cow::Owned(marked.text.replace(' ', mark_text));
                }
                let wanted = match prefix {
                    Prefix::Never => false,
                    Prefix::First => marked.at_start,
                    Prefix::Always => true,
                };
                if wanted && !marked.text.starts_with(*mark) {
                    marked.prepend(mark_text);
                }
                if !split {
                    return each(marked);
                }
                let text = &*marked.text;
                divide(&marked, Behavior::MergedWithNext, each, |each| {
                    by_class(text, &|c| c == *mark, each)
                })
            }
            Self::FixedLength(length) => {
                let mut rest = 0;
                while rest < text.len() {
                    let ends = text[rest..].char_indices().nth(*length);
                    let end = ends.map_or(text.len(), |(at, _)| rest + at);
                    each(part(piece, rest..end))?;
                    rest = end;
                }
                Ok(())
            }
            Self::SpaceBefore => {
                let mut piece = piece.clone();
                if !piece.text.starts_with(' ') {
                    piece.prepend(" ");
                }
                each(piece)
            }
            Self::ByteAlphabet => {
                let mut piece = piece.clone();
                let text: String = piece.text.bytes().map(char_of).collect();
                piece.set(text);
                each(piece)
            }
        }
    }
}

/// Callback for consecutive ranges of a text, each with whether it is a match.
type Found<'f> = &'f mut dyn FnMut(Range<usize>, bool) -> Result<(), Error>;

/// Calls `each` for the characters of a class and for the text between them.
fn by_class(text: &str, class: &dyn Fn(char) -> bool, each: Found<'_>) -> Result<(), Error> {
    let mut at = 0;
    for (start, c) in text.char_indices() {
        if class(c) {
            if at < start {
                each(at..start, false)?;
            }
            at = start + c.len_utf8();
            each(start..at, true)?;
        }
    }
    if at < text.len() { each(at..text.len(), false) } else { Ok(()) }
}

/// Splits a piece at the matches that `find` gives.
fn divide(
    piece: &Piece<'_>,
    behavior: Behavior,
    each: Sink<'_>,
    find: impl FnOnce(Found<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut emit = |range: Range<usize>| {
        if range.is_empty() { Ok(()) } else { each(part(piece, range)) }
    };
    match behavior {
        Behavior::Isolated => find(&mut |range, _| emit(range)),
        Behavior::Removed => {
            find(&mut |range, is_match| if is_match { Ok(()) } else { emit(range) })
        }
        _ => {
            let mut ranges = Vec::new();
            find(&mut |range, is_match| {
                ranges.push((range, is_match));
                Ok(())
            })?;
            behavior.join(ranges).into_iter().try_for_each(emit)
        }
    }
}
