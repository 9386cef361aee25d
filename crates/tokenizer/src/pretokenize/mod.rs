//! Pre-tokenization: splitting of text into words that are encoded separately.

mod table;

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input, Match};

use crate::Error;
use table::{COMPOSED, ROWS, UNSUPPORTED};
pub(crate) use table::{Row, Whole};

/// The rules of a pre-tokenizer by name.
///
/// # Errors
/// [`Error::PreTokenizer`] if the name is not in the table.
pub(crate) fn row(name: &str) -> Result<&'static Row, Error> {
    if let Some(row) = ROWS.iter().find(|row| row.names.contains(&name)) {
        return Ok(row);
    }
    let known = UNSUPPORTED.iter().find(|(unsupported, _)| *unsupported == name);
    Err(Error::PreTokenizer { name: name.to_owned(), hint: known.map_or("", |(_, hint)| hint) })
}

/// Whether texts are composed (NFC) before they are split.
pub(crate) fn composes(name: &str) -> bool {
    COMPOSED.contains(&name)
}

/// A splitter of text into words, in one or more passes. The concatenated words equal the text.
#[derive(Debug)]
pub(crate) struct Splitter {
    steps: Vec<Step>,
}

/// A [`table::Step`], compiled.
#[derive(Debug)]
enum Step {
    Isolate(Regex),
    Words {
        words: Regex,
        powers: bool,
    },
    Thousands(Regex),
    /// Splits before runs of spaces, so that every word includes the spaces before it.
    Spaces,
}

/// Index of the pattern `\s+` among the patterns of [`Step::Words`].
const WHITE: usize = 1;

/// Callback for one word.
type Sink<'s, 't> = &'s mut dyn FnMut(&'t str) -> Result<(), Error>;

impl Splitter {
    /// Creates a splitter with the table's steps, and optionally a last one before spaces.
    pub(crate) fn new(steps: &[table::Step], before_spaces: bool) -> Self {
        let mut steps: Vec<Step> = steps.iter().map(Step::compile).collect();
        if before_spaces {
            steps.push(Step::Spaces);
        }
        Self { steps }
    }

    /// Calls `each` for every word, from left to right, until one fails. No word is empty.
    pub(crate) fn split<'t>(&self, text: &'t str, each: Sink<'_, 't>) -> Result<(), Error> {
        if text.is_empty() { Ok(()) } else { pass(&self.steps, text, each) }
    }
}

fn pass<'t>(steps: &[Step], text: &'t str, each: Sink<'_, 't>) -> Result<(), Error> {
    let Some((step, rest)) = steps.split_first() else { return each(text) };
    if rest.is_empty() {
        step.split(text, each)
    } else {
        step.split(text, &mut |piece| pass(rest, piece, each))
    }
}

impl Step {
    fn compile(step: &table::Step) -> Self {
        match *step {
            table::Step::Isolate(pattern) => Self::Isolate(compile(&[pattern])),
            table::Step::Words(pattern) => {
                Self::Words { words: compile(&[pattern, r"\s+"]), powers: false }
            }
            table::Step::WordsInPowers(pattern) => {
                Self::Words { words: compile(&[pattern, r"\s+"]), powers: true }
            }
            table::Step::Thousands(pattern) => Self::Thousands(compile(&[pattern])),
        }
    }

    fn split<'t>(&self, text: &'t str, each: Sink<'_, 't>) -> Result<(), Error> {
        let mut at = 0;
        while let Some(found) = self.next(text, at) {
            if found.start() > at {
                each(&text[at..found.start()])?;
            }
            at = self.take(text, found, each)?;
        }
        if at < text.len() { each(&text[at..]) } else { Ok(()) }
    }

    /// The next match at or after `at`. None is empty.
    fn next(&self, text: &str, at: usize) -> Option<Match> {
        let rest = Input::new(text).range(at..);
        let found = match self {
            Self::Isolate(regex) | Self::Thousands(regex) => regex.find(rest),
            // These patterns leave few gaps, and an anchored search takes half the time.
            Self::Words { words, .. } => {
                words.find(rest.clone().anchored(Anchored::Yes)).or_else(|| words.find(rest))
            }
            Self::Spaces => {
                let rest = &text.as_bytes()[at..];
                let spaces = rest.iter().take_while(|&&byte| byte == b' ').count();
                let word = rest[spaces..].iter().take_while(|&&byte| byte != b' ').count();
                Some(Match::must(0, at..at + spaces + word))
            }
        };
        found.filter(|found| !found.is_empty())
    }

    /// Splits a match and returns the offset at which the search continues.
    fn take<'t>(&self, text: &'t str, found: Match, each: Sink<'_, 't>) -> Result<usize, Error> {
        let piece = &text[found.range()];
        let followed = found.end() < text.len();
        match self {
            Self::Words { powers, .. } if found.pattern().as_usize() == WHITE => {
                let taken = if *powers {
                    in_powers(piece, followed, each)?
                } else {
                    let taken = if followed { without_last(piece) } else { piece };
                    each(taken)?;
                    taken.len()
                };
                Ok(found.start() + taken)
            }
            Self::Thousands(_) => {
                thousands(piece, each)?;
                Ok(found.end())
            }
            _ => {
                each(piece)?;
                Ok(found.end())
            }
        }
    }
}

/// A run of white space without its last character, unless it has only one.
pub(crate) fn without_last(run: &str) -> &str {
    match run.char_indices().next_back() {
        Some((last, _)) if last > 0 => &run[..last],
        _ => run,
    }
}

/// Splits a run of white space into the largest powers of two. If text follows, the last
/// character is left over for a pattern that begins with it. Returns the number of bytes used.
fn in_powers<'t>(run: &'t str, followed: bool, each: Sink<'_, 't>) -> Result<usize, Error> {
    let mut rest = run;
    let mut count = run.chars().count();
    while count > 0 {
        let spare = usize::from(followed && count > 1);
        let power = (count - spare).min(512).checked_ilog2().unwrap_or(0);
        let taken = 1 << power;
        let end = rest.char_indices().nth(taken).map_or(rest.len(), |(at, _)| at);
        each(&rest[..end])?;
        rest = &rest[end..];
        count -= taken;
        if followed && count == 1 {
            break;
        }
    }
    Ok(run.len() - rest.len())
}

/// Splits a number into groups of three digits from the right.
pub(crate) fn thousands<'t>(number: &'t str, each: Sink<'_, 't>) -> Result<(), Error> {
    let mut left = number.chars().count();
    let mut rest = number;
    while left > 0 {
        let group = (left - 1) % 3 + 1;
        let end = rest.char_indices().nth(group).map_or(rest.len(), |(at, _)| at);
        each(&rest[..end])?;
        rest = &rest[end..];
        left -= group;
    }
    Ok(())
}

/// Compiles the patterns into one automaton that prefers earlier ones. Its only look-around is the
/// word boundary and its time is linear in the text, so a search cannot fail.
fn compile(patterns: &[&str]) -> Regex {
    #[expect(clippy::expect_used, reason = "the table is fixed and a test compiles all of it")]
    Regex::new_many(patterns).expect("the table's patterns are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        cut(&Splitter::new(row(name).unwrap().steps, false), text)
    }

    fn cut<'t>(splitter: &Splitter, text: &'t str) -> Vec<&'t str> {
        let mut words = Vec::new();
        splitter
            .split(text, &mut |word| {
                words.push(word);
                Ok(())
            })
            .unwrap();
        words
    }

    #[test]
    fn names_are_distinct_and_patterns_compile() {
        let mut names: Vec<_> = ROWS.iter().flat_map(|row| row.names).collect();
        names.extend(UNSUPPORTED.iter().map(|(name, _)| name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name occurs twice");
        assert!(COMPOSED.iter().all(|name| row(name).is_ok()));
        for row in ROWS {
            Splitter::new(row.steps, false);
        }
    }

    /// Compares with the words of Hugging Face's `tokenizers` for the patterns of the models'
    /// `tokenizer.json` (`tests/fixtures/make.py`).
    #[test]
    fn words_equal_those_of_the_original_patterns() {
        let cases = include_str!("../../tests/fixtures/splits.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(cases).unwrap();
        assert!(cases.len() > 30);
        let mut wrong = Vec::new();
        for case in &cases {
            let name = case["pre"].as_str().unwrap();
            let splitter = Splitter::new(row(name).unwrap().steps, false);
            for expected in case["words"].as_array().unwrap() {
                let expected: Vec<_> = expected
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|word| word.as_str().unwrap())
                    .collect();
                let text = expected.concat();
                let words = cut(&splitter, &text);
                if words != expected {
                    wrong.push(format!("{name}: {words:?}, expected {expected:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn unknown_names_are_errors() {
        assert!(row("gpt-5-turbo").unwrap_err().to_string().contains("\"gpt-5-turbo\""));
        assert!(row("whitespace").unwrap_err().to_string().contains("white space"));
        assert!(row("").is_err());
    }

    #[test]
    fn white_space_leaves_one_character_to_the_next_word() {
        assert_eq!(words("gpt-2", "a   b\n\nc  "), ["a", "  ", " b", "\n", "\n", "c", "  "]);
        assert_eq!(words("llama3", "a   b\n\nc  "), ["a", "  ", " b", "\n\n", "c", "  "]);
        assert_eq!(words("llama3", "x \u{3000}\u{a0}y"), ["x", " \u{3000}", "\u{a0}y"]);
        assert_eq!(words("jais-2", &" ".repeat(8)), ["        "]);
        // 1030 = 512 + 512 + 4 + 1 + the last character, which is left to the word.
        let text = " ".repeat(1030) + "x";
        let lengths: Vec<_> = words("jais-2", &text).iter().map(|word| word.len()).collect();
        assert_eq!(lengths, [512, 512, 4, 1, 2]);
    }

    #[test]
    fn digits_group_from_the_right() {
        assert_eq!(words("superbpe", "a1234567b"), ["a", "1", "234", "567", "b"]);
        assert_eq!(words("tiny_aya", "12345 1234x"), ["12", "345", " ", "123", "4", "x"]);
        assert_eq!(words("afmoe", "in 1000000"), ["in", " ", "1", "000", "000"]);
        assert_eq!(words("llama3", "1234567"), ["123", "456", "7"]);
        assert_eq!(words("qwen2", "123"), ["1", "2", "3"]);
    }

    #[test]
    fn words_before_spaces() {
        let splitter = Splitter::new(&[], true);
        assert_eq!(cut(&splitter, "  a bc  d "), ["  a", " bc", "  d", " "]);
    }
}
