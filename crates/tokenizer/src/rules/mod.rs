//! The rules of a `tokenizer.json`, as the library `tokenizers` applies them (0.23).
//!
//! A text passes added tokens that are recognized as they are written, normalizers, added tokens
//! that are recognized in normalized text, pre-tokenizers, and the model. Every key of the file is
//! read here, changes nothing, or is refused by its place.

mod added;
mod chars;
mod decode;
mod later;
mod model;
mod node;
mod normalize;
mod onig;
mod pattern;
mod piece;
mod split;

use std::borrow::Cow;

use hashbrown::HashMap;
use serde_json::Value;

use crate::Error;
use crate::merge::Merger;
use crate::special::Special;
use crate::vocabulary::TokenType;
pub(crate) use chars::Form;

use added::{Added, Fragment, Recognizer};
use decode::Decoder;
use model::Model;
use node::Node;
use normalize::Normalizer;
use piece::Piece;
use split::Splitter;

/// The rules of a file.
#[derive(Debug)]
pub(crate) struct Rules {
    recognizer: Recognizer,
    normalizers: Vec<Normalizer>,
    splitters: Vec<Splitter>,
    model: Model,
    /// A character that decoding removes at the beginning of a text, and how often at most.
    pub(crate) leading: Option<(char, usize)>,
    /// The bytes of tokens that have others as the first of a text.
    firsts: HashMap<u32, Box<[u8]>>,
    /// Tokens that a space follows, unless they end the text.
    spaced: Vec<bool>,
}

/// The tokens of a file.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// Texts by id; empty for ids without a token.
    pub(crate) texts: Vec<Box<str>>,
    pub(crate) types: Vec<TokenType>,
    /// The bytes that each token adds to a text.
    pub(crate) bytes: Vec<Vec<u8>>,
}

impl Rules {
    /// Reads the text of a file. `types` has the types of tokens by id, which decide the kinds of
    /// added tokens; added tokens beyond it are left out.
    ///
    /// # Errors
    /// If a rule is unknown, malformed or not supported. The error names its place.
    pub(crate) fn read(json: &str, types: &[TokenType]) -> Result<(Self, Tokens), Error> {
        let value: Value = serde_json::from_str(json).map_err(|fault| Error::Rule {
            place: "the file".to_owned(),
            fault: format!("is no JSON: {fault}"),
        })?;
        let file = Node::new(String::new(), &value)?;
        if file.text("version")?.is_some_and(|version| version != "1.0") {
            return Err(file.wrong("version", "1.0"));
        }
        // Prompts have their own limits, and the post-processor became keys of BOS and EOS.
        file.disregard(&["truncation", "padding", "post_processor"]);

        let mut normalizers = Vec::new();
        if let Some(node) = file.node("normalizer")? {
            normalize::read(node, &mut normalizers)?;
        }
        let mut splitters = Vec::new();
        if let Some(node) = file.node("pre_tokenizer")? {
            split::read(node, &mut splitters)?;
        }
        let decoder = Decoder::read(file.node("decoder")?)?;
        let model = file.node("model")?.ok_or_else(|| file.wrong("model", "an object"))?;
        let (model, texts) = Model::read(model, types.len())?;
        let mut added = Vec::new();
        if file.get("added_tokens").is_some() {
            for node in file.nodes("added_tokens")? {
                added.push(Added::read(node, &normalizers)?);
            }
        }
        added.retain(|token| (token.id as usize) < types.len());
        file.finish()?;

        let mut tokens = Tokens {
            texts: vec![Box::default(); types.len()],
            types: vec![TokenType::Unused; types.len()],
            bytes: vec![Vec::new(); types.len()],
        };
        for (text, id) in texts {
            tokens.texts[id as usize] = text;
            tokens.types[id as usize] = TokenType::Normal;
        }
        for token in &added {
            let id = token.id as usize;
            tokens.texts[id] = token.pattern().into();
            tokens.types[id] = match types[id] {
                kind @ (TokenType::Control | TokenType::UserDefined) => kind,
                _ if token.special => TokenType::Control,
                _ => TokenType::UserDefined,
            };
        }
        let (mut firsts, mut spaced) = (HashMap::new(), vec![false; types.len()]);
        for id in (0..types.len()).filter(|&id| tokens.types[id] != TokenType::Unused) {
            let text = &tokens.texts[id];
            let (first, further) = (decoder.render(text, true)?, decoder.render(text, false)?);
            if first.bytes != further.bytes {
                firsts.insert(id as u32, first.bytes.into());
            }
            spaced[id] = further.space;
            tokens.bytes[id] = further.bytes;
        }
        for token in &added {
            tokens.texts[token.id as usize].clone_from(&token.content);
        }
        let is_control = |id: u32| tokens.types[id as usize] == TokenType::Control;
        let recognizer = Recognizer::new(&added, is_control)?;
        let leading = decoder.leading;
        Ok((Self { recognizer, normalizers, splitters, model, leading, firsts, spaced }, tokens))
    }

    /// The bytes of a token that begins a text, where they are others than further on.
    pub(crate) fn first_bytes(&self, id: u32) -> Option<&[u8]> {
        self.firsts.get(&id).map(|bytes| &**bytes)
    }

    /// Whether a space follows a token, unless it ends the text.
    pub(crate) fn is_spaced(&self, id: u32) -> bool {
        self.spaced.get(id as usize).copied().unwrap_or(false)
    }

    /// Appends the ids of the concatenation of texts. Ordinary text is encoded across the borders
    /// of the texts, as untrusted as its least trusted part.
    ///
    /// # Errors
    /// If the vocabulary has no token for a piece of the text, a pattern backtracks too often, or
    /// the text grows too much.
    pub(crate) fn encode(
        &self,
        parts: &[(&str, Special)],
        ids: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let mut merger = Merger::default();
        let mut pending = Pending { text: Cow::Borrowed(""), special: Special::Parse, start: 0 };
        let mut before = 0;
        for &(part, special) in parts {
            let each = &mut |fragment| {
                match fragment {
                    Fragment::Token(id) => {
                        let text = std::mem::replace(&mut pending, Pending::EMPTY);
                        self.encode_text(text, false, &mut merger, ids)?;
                        ids.push(id);
                    }
                    Fragment::Text(at, text) => pending.add(text, special, before + at),
                }
                Ok(())
            };
            match parts.len() {
                1 => self.recognizer.raw(part, special, each)?,
                _ => self.recognizer.raw_part(part, special, each)?,
            }
            before += part.len();
        }
        self.encode_text(pending, false, &mut merger, ids)
    }

    /// Appends the ids of the middle of a text, without special tokens.
    ///
    /// # Errors
    /// See [`encode`](Self::encode).
    pub(crate) fn encode_continuing(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), Error> {
        let mut pending = Pending::EMPTY;
        self.recognizer.raw(text, Special::Plain, &mut |fragment| {
            if let Fragment::Text(_, text) = fragment {
                pending.add(text, Special::Plain, 0);
            }
            Ok(())
        })?;
        self.encode_text(pending, true, &mut Merger::default(), ids)
    }

    /// Encodes text between tokens that are recognized before normalization.
    fn encode_text(
        &self,
        Pending { text, special, start }: Pending<'_>,
        continues: bool,
        merger: &mut Merger,
        ids: &mut Vec<u32>,
    ) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        let mut whole = Piece { text, at_start: start == 0, continues };
        normalize::apply(&self.normalizers, &mut whole)?;
        if u32::try_from(whole.text.len()).is_err() {
            return Err(Error::TextTooLong { found: whole.text.len() });
        }
        let at_start = whole.at_start;
        self.recognizer.normal(&whole.text, special, &mut |fragment| match fragment {
            Fragment::Token(id) => {
                ids.push(id);
                Ok(())
            }
            Fragment::Text(at, text) => {
                let at_start = at_start && at == 0;
                let piece = Piece { text: Cow::Borrowed(text), at_start, continues };
                split::split(&self.splitters, &piece, &mut |word| {
                    self.model.encode(word, merger, ids)
                })
            }
        })
    }
}

/// Text that waits for the next token.
struct Pending<'t> {
    text: Cow<'t, str>,
    special: Special,
    /// Its offset in the whole text.
    start: usize,
}

impl<'t> Pending<'t> {
    const EMPTY: Pending<'static> =
        Pending { text: Cow::Borrowed(""), special: Special::Parse, start: 0 };

    fn add(&mut self, text: &'t str, special: Special, start: usize) {
        if self.text.is_empty() {
            (self.text, self.special, self.start) = (Cow::Borrowed(text), special, start);
            return;
        }
        self.text.to_mut().push_str(text);
        self.special = match (self.special, special) {
            (Special::Plain, _) | (_, Special::Plain) => Special::Plain,
            (Special::Ignore, _) | (_, Special::Ignore) => Special::Ignore,
            _ => Special::Parse,
        };
    }
}
