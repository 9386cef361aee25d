//! Patterns of `tokenizer.json`: texts, and regular expressions in Oniguruma's syntax.
//!
//! The library `tokenizers` compiles them by Oniguruma with the syntax of Ruby. Most are compiled
//! here into automata of linear time. Those with look-around, possessive repetitions or references
//! run in `fancy-regex`, which backtracks within a limit.

use std::ops::Range;
use std::time::{Duration, Instant};

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input, Match};

use super::node::Node;
use super::onig::{self, Translated};
use crate::Error;
use crate::pretokenize::{thousands, without_last};

/// The longest pattern in bytes; that of the longest known file has 700.
const MAX_PATTERN: usize = 16 << 10;

/// The largest automaton in bytes.
const MAX_AUTOMATON: usize = 8 << 20;

/// The end of patterns of words: the last character of a run of white space belongs to the text
/// that follows.
const SPACES: &str = r"|\s+(?!\S)|\s+";

/// A pattern that needs quadratic time in a number's length, and one that finds its numbers and
/// those within words.
const THOUSANDS: (&str, &str) = (r"\d{1,3}(?=(?:\d{3})*\b)", r"\d+");

/// The longest time that look-around may take on a piece of text.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Index of the pattern `\s+` in [`Pattern::Words`].
const WHITE: usize = 1;

/// A compiled pattern.
#[derive(Debug)]
pub(super) enum Pattern {
    Text(Box<str>),
    /// An automaton.
    Regular(Regex),
    /// A pattern that ends with [`SPACES`], without that end, and `\s+`.
    Words(Regex),
    /// [`THOUSANDS`]: numbers, whose groups of three digits from the right are the matches.
    Thousands(Regex),
    /// A pattern that needs backtracking.
    Backtracking(Box<fancy_regex::Regex>),
}

/// Callback for consecutive ranges of a text, each with whether it is a match.
type Each<'e> = &'e mut dyn FnMut(Range<usize>, bool) -> Result<(), Error>;

impl Pattern {
    /// Reads `{"String": …}` or `{"Regex": …}` under the key `pattern`.
    ///
    /// # Errors
    /// If it is neither, is too long, or is no valid pattern.
    pub(super) fn read(node: &Node<'_>) -> Result<Self, Error> {
        let expected = "an object with String or Regex";
        let inner = node.node("pattern")?.ok_or_else(|| node.wrong("pattern", expected))?;
        let (text, regex) = (inner.text("String")?, inner.text("Regex")?);
        let pattern = match (text, regex) {
            (Some(text), None) if !text.is_empty() && text.len() <= MAX_PATTERN => {
                Self::Text(text.into())
            }
            (None, Some(regex)) if regex.len() <= MAX_PATTERN => Self::compile(regex)
                .map_err(|fault| node.error(format!("has the pattern {regex:?}, which {fault}")))?,
            (None, None) | (Some(_), Some(_)) => return Err(node.wrong("pattern", expected)),
            _ => return Err(node.wrong("pattern", "a pattern of 1 to 16384 bytes")),
        };
        inner.finish()?;
        Ok(pattern)
    }

    /// Compiles a regular expression.
    ///
    /// # Errors
    /// The reason, as the end of a sentence.
    pub(super) fn compile(pattern: &str) -> Result<Self, String> {
        if let Some(words) = pattern.strip_suffix(SPACES)
            && let Translated { pattern, regular: true } = onig::translate(words)?
            && let Ok(regex) = automaton(&[&pattern, r"\s+"])
        {
            return Ok(Self::Words(regex));
        }
        if pattern == THOUSANDS.0 {
            return automaton(&[&format!(r"\d+[[{}]--\d]", onig::WORD), THOUSANDS.1])
                .map(Self::Thousands);
        }
        let Translated { pattern, regular } = onig::translate(pattern)?;
        if regular {
            let failed = |fault: String| format!("is no valid regular expression: {fault}");
            return automaton(&[&pattern]).map(Self::Regular).map_err(failed);
        }
        fancy_regex::RegexBuilder::new(&pattern)
            .oniguruma_mode(true)
            .delegate_size_limit(MAX_AUTOMATON)
            .build()
            .map(|regex| Self::Backtracking(Box::new(regex)))
            .map_err(|fault| format!("is no valid regular expression: {fault}"))
    }

    /// Calls `each` for every match and for the text between matches, from left to right.
    ///
    /// # Errors
    /// Those of `each`, or if backtracking exceeds its limit.
    pub(super) fn matches(&self, text: &str, each: Each<'_>) -> Result<(), Error> {
        let mut at = 0;
        let mut take = |found: Range<usize>| {
            if at < found.start {
                each(at..found.start, false)?;
            }
            at = found.end;
            each(found, true)
        };
        match self {
            Self::Text(pattern) => {
                for (start, found) in text.match_indices(&**pattern) {
                    take(start..start + found.len())?;
                }
            }
            Self::Regular(regex) => {
                for found in regex.find_iter(text) {
                    take(found.range())?;
                }
            }
            Self::Words(regex) => {
                let mut from = 0;
                while let Some(found) = next_word(regex, text, from) {
                    let mut end = found.end();
                    if found.pattern().as_usize() == WHITE && end < text.len() {
                        end = found.start() + without_last(&text[found.range()]).len();
                    }
                    take(found.start()..end)?;
                    from = end;
                }
            }
            Self::Thousands(regex) => {
                // the first pattern is a number within a word
                for found in regex.find_iter(text).filter(|found| found.pattern().as_usize() == 1) {
                    let mut start = found.start();
                    thousands(&text[found.range()], &mut |group| {
                        let range = start..start + group.len();
                        start = range.end;
                        take(range)
                    })?;
                }
            }
            Self::Backtracking(regex) => {
                let begin = Instant::now();
                let slow = || Error::Backtracking { pattern: regex.as_str().into() };
                for found in regex.find_iter(text) {
                    take(found.map_err(|_| slow())?.range())?;
                    if begin.elapsed() > MAX_TIME {
                        return Err(slow());
                    }
                }
            }
        }
        if at < text.len() { each(at..text.len(), false) } else { Ok(()) }
    }
}

/// The next match of a pattern of words, which is not empty. It leaves few gaps, and an anchored
/// search takes half the time.
fn next_word(regex: &Regex, text: &str, from: usize) -> Option<Match> {
    let rest = Input::new(text).range(from..);
    let anchored = regex.find(rest.clone().anchored(Anchored::Yes));
    anchored.or_else(|| regex.find(rest)).filter(|found| !found.is_empty())
}

fn automaton(patterns: &[&str]) -> Result<Regex, String> {
    Regex::builder()
        .configure(Regex::config().nfa_size_limit(Some(MAX_AUTOMATON)))
        .build_many(patterns)
        .map_err(|fault| match fault.size_limit() {
            Some(limit) => format!("it needs more than {limit} bytes"),
            None => fault.to_string(),
        })
}

/// Treatment of the matches that split a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behavior {
    Removed,
    Isolated,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous,
}

impl Behavior {
    /// # Errors
    /// If the key is missing or names another behaviour.
    pub(super) fn read(node: &Node<'_>) -> Result<Self, Error> {
        Ok(match node.required_text("behavior")? {
            "Removed" => Self::Removed,
            "Isolated" => Self::Isolated,
            "MergedWithPrevious" => Self::MergedWithPrevious,
            "MergedWithNext" => Self::MergedWithNext,
            "Contiguous" => Self::Contiguous,
            _ => {
                let expected =
                    "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous";
                return Err(node.wrong("behavior", expected));
            }
        })
    }

    /// Joins ranges that cover a text with their neighbours, by the rules of
    /// `NormalizedString::split` of `tokenizers`; only of behaviours that join.
    pub(super) fn join(self, ranges: Vec<(Range<usize>, bool)>) -> Vec<Range<usize>> {
        let mut previous = false;
        let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
        let mut push = |(range, is_match): (Range<usize>, bool)| {
            let joins = match self {
                Self::Contiguous => is_match == previous,
                _ => is_match && !previous,
            };
            previous = is_match;
            match joined.last_mut() {
                Some(last) if joins => {
                    *last = last.start.min(range.start)..last.end.max(range.end);
                }
                _ => joined.push(range),
            }
        };
        if self == Self::MergedWithNext {
            ranges.into_iter().rev().for_each(push);
            joined.reverse();
        } else {
            ranges.into_iter().for_each(&mut push);
        }
        joined
    }
}
