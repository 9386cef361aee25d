//! English text to sentences and words.

/// Stands for a span of code or a formula: one word, at which a sentence can begin.
pub(crate) const CODE: char = '\u{fffc}';

/// The most words of a sentence.
pub(crate) const LONGEST: usize = 35;

/// The words that open no sentence.
const OPENINGS: [&str; 4] = ["of", "with", "what", "that"];

/// Words with a full stop after which a sentence goes on.
const ABBREVIATIONS: [&str; 7] = ["e.g.", "i.e.", "cf.", "vs.", "No.", "Fig.", "Eq."];

/// The sentences of a block of text, without surrounding white space.
///
/// A sentence ends at `.`, `?` or `!`, with closing brackets and quotes, before white space that no
/// lowercase letter follows, or at the end of the block.
pub(crate) fn sentences(block: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut ends = false;
    for (at, c) in block.char_indices() {
        match c {
            '.' | '?' | '!' => ends = !is_abbreviation(&block[start..=at]),
            ')' | ']' | '"' | '\'' | '”' | '’' => {}
            _ if c.is_whitespace() && ends => {
                let next =
                    block[at..].trim_start().chars().find(|c| c.is_alphanumeric() || *c == CODE);
                if !next.is_some_and(char::is_lowercase) {
                    sentences.push(block[start..at].trim());
                    start = at;
                }
                ends = false;
            }
            _ => ends = false,
        }
    }
    sentences.push(block[start..].trim());
    sentences.retain(|sentence| words(sentence) > 0);
    sentences
}

fn is_abbreviation(sentence: &str) -> bool {
    let last = sentence.rsplit(|c: char| c.is_whitespace() || c == '(').next();
    last.is_some_and(|word| ABBREVIATIONS.contains(&word))
}

/// The number of words: runs between white space that have a letter, a digit or code in them.
pub(crate) fn words(sentence: &str) -> usize {
    let is_word = |word: &&str| word.chars().any(|c| c.is_alphanumeric() || c == CODE);
    sentence.split_whitespace().filter(is_word).count()
}

/// The fault of a sentence, if it has one: its opening, a bound after its noun, or its length.
pub(crate) fn fault(sentence: &str) -> Option<String> {
    let first = sentence.split_whitespace().next().unwrap_or_default();
    let first = first.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    if OPENINGS.contains(&first.as_str()) {
        return Some(format!("begins with \"{first}\""));
    }
    let bound = sentence.split_once(", at most").map(|(_, rest)| rest);
    if bound.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ',', ';', ':'])) {
        return Some("has \", at most\" after its noun".to_owned());
    }
    let words = words(sentence);
    (words > LONGEST).then(|| format!("has {words} words, at most {LONGEST} are allowed"))
}
