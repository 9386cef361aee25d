//! Added tokens: texts that are recognized before or after normalization.

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, MatchKind};

use super::chars::is_word;
use super::node::Node;
use super::normalize::{self, Normalizer};
use super::piece::Piece;
use crate::Error;
use crate::special::Special;

/// An added token.
#[derive(Debug)]
pub(super) struct Added {
    pub(super) id: u32,
    pub(super) content: Box<str>,
    /// Its text after normalization, if texts are searched for that.
    pub(super) normal: Option<Box<str>>,
    pub(super) special: bool,
    single_word: bool,
    strip_before: bool,
    strip_after: bool,
}

impl Added {
    /// # Errors
    /// If a key is missing, of the wrong type or unknown.
    pub(super) fn read(node: Node<'_>, normalizers: &[Normalizer]) -> Result<Self, Error> {
        let id = node.integer("id")?.ok_or_else(|| node.wrong("id", "an id"))?;
        let content = node.required_text("content")?;
        let flag = |key| Ok::<_, Error>(node.flag(key)?.unwrap_or(false));
        let special = flag("special")?;
        let normal = match node.flag("normalized")?.unwrap_or(!special) {
            true => {
                let mut piece = Piece { text: content.into(), at_start: true, continues: false };
                normalize::apply(normalizers, &mut piece)?;
                Some(piece.text.into())
            }
            false => None,
        };
        let added = Self {
            id,
            content: content.into(),
            normal,
            special,
            single_word: flag("single_word")?,
            strip_before: flag("lstrip")?,
            strip_after: flag("rstrip")?,
        };
        node.finish()?;
        Ok(added)
    }

    /// The text that texts are searched for.
    pub(super) fn pattern(&self) -> &str {
        self.normal.as_deref().unwrap_or(&self.content)
    }
}

/// Searches for added tokens, by the texts that they are recognized in.
#[derive(Debug)]
pub(super) struct Recognizer {
    /// In the text before normalization.
    raw: Searches,
    /// In the text after normalization.
    normal: Searches,
    /// Control tokens of `normal`, in parts of a rendered chat.
    markup: Search,
}

#[derive(Debug)]
struct Searches {
    all: Search,
    /// Without control tokens.
    ordinary: Search,
}

/// Search for a set of tokens, leftmost-longest.
#[derive(Debug, Default)]
struct Search {
    engine: Option<AhoCorasick>,
    tokens: Vec<Found>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    id: u32,
    single_word: bool,
    strip_before: bool,
    strip_after: bool,
}

/// A fragment of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    /// Text with its offset, not empty.
    Text(usize, &'t str),
    /// A recognized token.
    Token(u32),
}

/// Callback for fragments.
type Each<'e, 't> = &'e mut dyn FnMut(Fragment<'t>) -> Result<(), Error>;

impl Recognizer {
    /// # Errors
    /// If an automaton exceeds its size limit.
    pub(super) fn new(added: &[Added], is_control: impl Fn(u32) -> bool) -> Result<Self, Error> {
        let search = |normal: bool, control: bool, ordinary: bool| {
            let chosen = added.iter().filter(|token| {
                let kind = if is_control(token.id) { control } else { ordinary };
                kind && token.normal.is_some() == normal
            });
            Search::new(chosen.map(|token| (token.pattern(), token)))
        };
        let searches = |normal| {
            Ok::<_, Error>(Searches {
                all: search(normal, true, true)?,
                ordinary: search(normal, false, true)?,
            })
        };
        let markup = added.iter().filter(|token| token.normal.is_some() && is_control(token.id));
        Ok(Self {
            raw: searches(false)?,
            normal: searches(true)?,
            markup: Search::new(markup.map(|token| (&*token.content, token)))?,
        })
    }

    /// Splits a text before normalization.
    pub(super) fn raw<'t>(
        &self,
        text: &'t str,
        special: Special,
        each: Each<'_, 't>,
    ) -> Result<(), Error> {
        self.raw.of(special, text, each)
    }

    /// Splits a part of a rendered chat before normalization. Its control tokens are recognized
    /// by their own texts, since the text around them may come from a user.
    pub(super) fn raw_part<'t>(
        &self,
        text: &'t str,
        special: Special,
        each: Each<'_, 't>,
    ) -> Result<(), Error> {
        if special != Special::Parse {
            return self.raw.of(special, text, each);
        }
        self.raw.of(special, text, &mut |fragment| match fragment {
            Fragment::Text(start, text) => self.markup.fragments(text, &mut |inner| {
                each(match inner {
                    Fragment::Text(at, text) => Fragment::Text(start + at, text),
                    token => token,
                })
            }),
            token => each(token),
        })
    }

    /// Splits a text after normalization.
    pub(super) fn normal<'t>(
        &self,
        text: &'t str,
        special: Special,
        each: Each<'_, 't>,
    ) -> Result<(), Error> {
        self.normal.of(special, text, each)
    }
}

impl Searches {
    fn of<'t>(&self, special: Special, text: &'t str, each: Each<'_, 't>) -> Result<(), Error> {
        match special {
            Special::Parse => self.all.fragments(text, each),
            Special::Ignore => self.ordinary.fragments(text, each),
            Special::Plain if text.is_empty() => Ok(()),
            Special::Plain => each(Fragment::Text(0, text)),
        }
    }
}

impl Search {
    fn new<'a>(tokens: impl Iterator<Item = (&'a str, &'a Added)>) -> Result<Self, Error> {
        let (mut texts, mut found) = (Vec::new(), Vec::new());
        let mut known = HashSet::new();
        for (text, token) in tokens {
            if !text.is_empty() && known.insert(text) {
                texts.push(text);
                found.push(Found {
                    id: token.id,
                    single_word: token.single_word,
                    strip_before: token.strip_before,
                    strip_after: token.strip_after,
                });
            }
        }
        if texts.is_empty() {
            return Ok(Self::default());
        }
        let engine = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts)
            .map_err(|error| Error::Specials(error.to_string()))?;
        Ok(Self { engine: Some(engine), tokens: found })
    }

    /// Splits a text by the rules of `AddedVocabulary::find_matches` of `tokenizers`.
    fn fragments<'t>(&self, text: &'t str, each: Each<'_, 't>) -> Result<(), Error> {
        let mut rest = 0;
        let found = self.engine.iter().flat_map(|engine| engine.find_iter(text));
        for found in found {
            let token = self.tokens[found.pattern().as_usize()];
            let (before, after) = (&text[..found.start()], &text[found.end()..]);
            if token.single_word
                && (before.chars().next_back().is_some_and(is_word)
                    || after.chars().next().is_some_and(is_word))
            {
                continue;
            }
            let mut start = found.start();
            if token.strip_before {
                start = before.trim_end().len().max(rest);
            }
            if rest < start {
                each(Fragment::Text(rest, &text[rest..start]))?;
            }
            each(Fragment::Token(token.id))?;
            rest = found.end();
            if token.strip_after {
                rest += after.len() - after.trim_start().len();
            }
        }
        if rest < text.len() { each(Fragment::Text(rest, &text[rest..])) } else { Ok(()) }
    }
}
