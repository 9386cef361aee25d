//! The tokenizer of a vocabulary.

use std::borrow::Cow;

use pelton_weights::Metadata;

use crate::bpe::Bpe;
use crate::lexicon::{Alphabet, Lexicon, NO_TOKEN, SPACE_MARK};
use crate::merge::Merger;
use crate::position::Position;
use crate::pretokenize::{self, Row};
use crate::rules::{Form, Rules as FileRules};
use crate::special::{self, Fragment, Special, Specials};
use crate::twins;
use crate::unigram::Unigram;
use crate::vocabulary::{
    BOS, EOM, EOS, EOT, Model, PRE, Prefix, RULES, SCORES, SEPARATOR, TOKENS, TYPES, TokenType,
    UNKNOWN,
};
use crate::wordpiece::WordPiece;
use crate::{Error, Vocabulary};

/// Encoder of text to token ids and decoder of ids, with the vocabulary of a model file.
///
/// It is immutable and may be shared between threads by reference or in an `Arc`.
///
/// ```no_run
/// use pelton_tokenizer::{Special, Tokenizer};
/// use pelton_weights::Checkpoint;
///
/// let checkpoint = Checkpoint::open("model.gguf")?;
/// let tokenizer = Tokenizer::from_metadata(checkpoint.metadata())?;
/// let ids = tokenizer.encode("Hello world", Special::Ignore)?;
/// assert_eq!(tokenizer.decode(&ids, false), "Hello world");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Tokenizer {
    encoder: Encoder,
    lexicon: Lexicon,
    specials: Specials,
    texts: Vec<Box<str>>,
    types: Vec<TokenType>,
    /// Tokens added at the beginning and the end of a prompt.
    prompt_begin: Option<u32>,
    prompt_end: Option<u32>,
    /// Token added between two texts of a pair, after `prompt_end`.
    pair_separator: Option<u32>,
    bos: Option<u32>,
    eos: Option<u32>,
    /// End-of-generation tokens, in ascending order.
    ends: Vec<u32>,
    prefix: Prefix,
    /// Whether texts are composed (NFC) before they are split into words.
    composes: bool,
    /// Whether that space is added after each special token too.
    space_after_special: Spaces,
    /// Whether encoding adds a space before a text, which decoding removes.
    strip_first_space: bool,
    chat_template: Option<String>,
}

/// Where else than before the first text the space is added.
#[derive(Clone, Copy, Debug)]
struct Spaces {
    /// After special tokens in one text.
    in_text: bool,
    /// After special tokens in a rendered chat.
    in_parts: bool,
}

impl Spaces {
    /// GGUF files do not state it. In a text llama.cpp adds the space. In a rendered chat the
    /// template has not written it. Only Phi-3 has it there, as its `tokenizer.json` prepends it
    /// (transformers, `modeling_gguf_pytorch_utils.py` and `tokenization_llama.py`).
    fn of(vocabulary: &Vocabulary<'_>) -> Self {
        match vocabulary.space_after_special {
            Some(stated) => Self { in_text: stated, in_parts: stated },
            None => Self { in_text: true, in_parts: special::is_phi_3(vocabulary) },
        }
    }
}

#[derive(Debug)]
enum Encoder {
    SentencePiece(Bpe),
    Bpe(Bpe, Alphabet),
    WordPiece(WordPiece),
    Unigram(Unigram),
    Rules(Box<FileRules>),
}

impl Encoder {
    fn new(vocabulary: &Vocabulary<'_>, rules: &Rules, lexicon: &Lexicon) -> Result<Self, Error> {
        match (vocabulary.model, rules.row) {
            (Model::SentencePiece, _) => {
                Ok(Self::SentencePiece(Bpe::sentence_piece(vocabulary, lexicon)?))
            }
            (Model::Bpe, Some(row)) => {
                let bpe = Bpe::merges(vocabulary, lexicon, row, rules.alphabet)?;
                Ok(Self::Bpe(bpe, rules.alphabet))
            }
            (Model::Bpe, None) => Err(missing_pre()),
            (Model::WordPiece, _) => Ok(Self::WordPiece(WordPiece::new(vocabulary, lexicon)?)),
            (Model::Unigram, _) => Ok(Self::Unigram(Unigram::new(vocabulary, lexicon)?)),
            (Model::Rules, _) => {
                Err(Error::Missing { key: RULES, needed: "it has the rules of this vocabulary" })
            }
        }
    }
}

impl Tokenizer {
    /// Builds the tokenizer of a model file.
    ///
    /// # Errors
    /// [`Error::NoVocabulary`] if the file has none; otherwise as [`Tokenizer::new`], or if
    /// a key is of the wrong type.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, Error> {
        Self::new(Vocabulary::from_metadata(metadata)?)
    }

    /// Builds the tokenizer of a vocabulary.
    ///
    /// # Errors
    /// If the vocabulary is inconsistent or a key required by its model is missing. The error names
    /// the metadata key.
    pub fn new(mut vocabulary: Vocabulary<'_>) -> Result<Self, Error> {
        check(&vocabulary)?;
        twins::warn(&vocabulary);
        special::protect_ends(&mut vocabulary);
        let vocabulary = &vocabulary;
        let rules = Rules::of(vocabulary)?;
        let (mut texts, mut types) = (Vec::new(), vocabulary.types.clone());
        let (encoder, lexicon) = match vocabulary.rules {
            Some(json) if vocabulary.model == Model::Rules => {
                let (encoder, tokens) = FileRules::read(json, &vocabulary.types)?;
                let lexicon = Lexicon::of_bytes(&tokens.bytes, &tokens.types)?;
                (texts, types) = (tokens.texts, tokens.types);
                (Encoder::Rules(Box::new(encoder)), lexicon)
            }
            _ => {
                texts.extend(vocabulary.tokens.iter().map(|&text| text.into()));
                let lexicon = Lexicon::new(vocabulary, rules.alphabet)?;
                (Encoder::new(vocabulary, &rules, &lexicon)?, lexicon)
            }
        };
        Ok(Self {
            encoder,
            lexicon,
            specials: Specials::new(vocabulary)?,
            texts,
            types,
            prompt_begin: rules.prompt_begin,
            prompt_end: rules.prompt_end,
            pair_separator: rules.pair_separator,
            bos: vocabulary.bos,
            eos: vocabulary.eos,
            ends: special::ends(vocabulary),
            prefix: rules.prefix,
            composes: vocabulary.model == Model::Bpe
                && vocabulary.pre.is_some_and(pretokenize::composes),
            space_after_special: Spaces::of(vocabulary),
            strip_first_space: rules.prefix != Prefix::Never
                || vocabulary.model == Model::WordPiece,
            chat_template: vocabulary.chat_template.map(str::to_owned),
        })
    }

    /// Encodes a text, without BOS and EOS; compare [`encode_prompt`](Self::encode_prompt).
    ///
    /// # Errors
    /// If the vocabulary has no token for a piece of the text, or the text is 4 GiB or longer.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        self.encode_into(&[(text, special)], self.space_after_special.in_text, &mut ids)?;
        Ok(ids)
    }

    /// Encodes a prompt: parses the texts of special tokens, and adds the BOS, EOS or separator of
    /// the file. They are added even if the text has them already. A prompt rendered by a chat
    /// template is complete; encode it by [`encode`](Self::encode).
    ///
    /// # Errors
    /// See [`encode`](Self::encode).
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        ids.extend(self.prompt_begin);
        self.encode_into(&[(text, Special::Parse)], self.space_after_special.in_text, &mut ids)?;
        ids.extend(self.prompt_end);
        Ok(ids)
    }

    /// Encodes two texts as one prompt of a cross-encoder, with the BOS, EOS and separator tokens
    /// that the file specifies: `[CLS] first [SEP] second [SEP]` for [`Model::WordPiece`],
    /// `<s> first </s></s> second </s>` for XLM-RoBERTa. The texts of special tokens in them are
    /// ordinary text.
    ///
    /// # Errors
    /// See [`encode`](Self::encode).
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<Vec<u32>, Error> {
        let mut ids = self.encode_pair_first(first)?;
        ids.extend(self.encode_pair_second(second)?);
        Ok(ids)
    }

    /// The first part of [`encode_pair`](Self::encode_pair): the first text with the tokens around
    /// it.
    ///
    /// # Errors
    /// See [`encode`](Self::encode).
    pub fn encode_pair_first(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 4);
        ids.extend(self.prompt_begin);
        self.encode_into(&[(text, Special::Ignore)], self.space_after_special.in_text, &mut ids)?;
        ids.extend(self.prompt_end);
        ids.extend(self.pair_separator);
        Ok(ids)
    }

    /// The second part of [`encode_pair`](Self::encode_pair): the second text with the end of the
    /// prompt, the tokens of type 1 in BERT.
    ///
    /// # Errors
    /// See [`encode`](Self::encode).
    pub fn encode_pair_second(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 1);
        self.encode_into(&[(text, Special::Ignore)], self.space_after_special.in_text, &mut ids)?;
        ids.extend(self.prompt_end);
        Ok(ids)
    }

    /// Encodes the concatenation of texts, of which only those with [`Special::Parse`] can have
    /// special tokens: a template filled with untrusted text. Ordinary text is encoded across the
    /// borders of the parts. A vocabulary that adds a space before a text adds it at the beginning.
    /// After special tokens it does so only if the file states it, as in transformers.
    ///
    /// # Errors
    /// See [`encode`](Self::encode).
    pub fn encode_parts(&self, parts: &[(&str, Special)]) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::with_capacity(parts.iter().map(|(text, _)| text.len() / 3 + 2).sum());
        self.encode_into(parts, self.space_after_special.in_parts, &mut ids)?;
        Ok(ids)
    }

    /// Encodes the middle of a text, as [`encode`](Self::encode) does without special tokens. It
    /// adds no space, which some vocabularies add at the beginning of a text.
    ///
    /// # Errors
    /// See [`encode`](Self::encode).
    pub fn encode_continuing(&self, text: &str) -> Result<Vec<u32>, Error> {
        if u32::try_from(text.len()).is_err() {
            return Err(Error::TextTooLong { found: text.len() });
        }
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        if let Encoder::Rules(rules) = &self.encoder {
            rules.encode_continuing(text, &mut ids)?;
            return Ok(ids);
        }
        self.encode_text(Cow::Borrowed(text), false, &mut Merger::default(), &mut ids)?;
        Ok(ids)
    }

    fn encode_into(
        &self,
        parts: &[(&str, Special)],
        space_after_special: bool,
        ids: &mut Vec<u32>,
    ) -> Result<(), Error> {
        // One byte is reserved for the space that may be added.
        let length = parts.iter().fold(0, |sum: usize, (text, _)| sum.saturating_add(text.len()));
        if u32::try_from(length).map_or(true, |length| length == u32::MAX) {
            return Err(Error::TextTooLong { found: length });
        }
        if let Encoder::Rules(rules) = &self.encoder {
            return rules.encode(parts, ids);
        }
        let mut merger = Merger::default();
        // The space is added before the first text, and perhaps before one after a special token.
        let mut begins = true;
        let mut pending = Cow::Borrowed("");
        for &(text, special) in parts {
            self.specials.fragments(text, special, |fragment| {
                match fragment {
                    Fragment::Token(id) => {
                        self.encode_text(std::mem::take(&mut pending), begins, &mut merger, ids)?;
                        begins = space_after_special;
                        ids.push(id);
                    }
                    Fragment::Text(text) if pending.is_empty() => pending = Cow::Borrowed(text),
                    Fragment::Text(text) => pending.to_mut().push_str(text),
                }
                Ok(())
            })?;
        }
        self.encode_text(pending, begins, &mut merger, ids)
    }

    /// Encodes text between special tokens; `begins` if a space may be added before it.
    fn encode_text(
        &self,
        text: Cow<'_, str>,
        begins: bool,
        merger: &mut Merger,
        ids: &mut Vec<u32>,
    ) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        match &self.encoder {
            Encoder::SentencePiece(bpe) => {
                let mut text = spaced(&text);
                if begins && self.prefix.applies(text.starts_with(' ')) {
                    text.to_mut().insert(0, ' ');
                }
                bpe.encode(&self.lexicon, &text, merger, ids)
            }
            Encoder::Bpe(bpe, Alphabet::Marked) => {
                bpe.encode(&self.lexicon, &spaced(&text), merger, ids)
            }
            Encoder::Bpe(bpe, Alphabet::Bytes) if self.composes => {
                bpe.encode(&self.lexicon, &Form::Nfc.of(&text), merger, ids)
            }
            Encoder::Bpe(bpe, Alphabet::Bytes) => bpe.encode(&self.lexicon, &text, merger, ids),
            Encoder::WordPiece(wordpiece) => {
                wordpiece.encode(&text, ids);
                Ok(())
            }
            Encoder::Unigram(unigram) => {
                let prefix = if begins { self.prefix } else { Prefix::Never };
                unigram.encode(&self.lexicon, &text, prefix, ids)
            }
            Encoder::Rules(rules) => rules.encode_continuing(&text, ids),
        }
    }

    /// Decodes ids to text, with U+FFFD for bytes that are not UTF-8. Control tokens are rendered
    /// only if `special`; ids out of range are ignored. Spaces before punctuation are kept
    /// (`transformers` can remove them by `clean_up_tokenization_spaces`), so that decoding inverts
    /// encoding.
    pub fn decode(&self, ids: &[u32], special: bool) -> String {
        let (mut bytes, mut position) = (Vec::with_capacity(ids.len() * 4), Position::default());
        for &id in ids {
            self.append(id, special, &mut position, &mut bytes);
        }
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// The bytes of a token, which are not necessarily complete characters. The bytes of a control
    /// token are its text.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        ((id as usize) < self.lexicon.len()).then(|| self.lexicon.bytes_of(id))
    }

    /// The text of a token in the file.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize).map(|text| &**text)
    }

    /// The type of a token.
    pub fn token_type(&self, id: u32) -> Option<TokenType> {
        self.types.get(id as usize).copied()
    }

    /// Number of tokens; all ids are below it.
    pub fn vocab_size(&self) -> usize {
        self.lexicon.len()
    }

    /// The bytes of the longest token that ordinary text can become.
    pub fn longest_token(&self) -> usize {
        self.lexicon.longest()
    }

    /// The beginning-of-sequence token (BOS), if the file specifies one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The end-of-sequence token (EOS), if the file specifies one.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether generation ends with this token: the file's EOS, EOT and EOM, and control tokens
    /// that are known to end a turn, such as `<|im_end|>`.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// The end-of-generation tokens (see [`is_end`](Self::is_end)), in ascending order.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The Jinja chat template, if the file has one.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// Appends the bytes that a token adds to decoded text.
    pub(crate) fn append(
        &self,
        id: u32,
        special: bool,
        position: &mut Position,
        out: &mut Vec<u8>,
    ) {
        let mut bytes = match self.token_type(id) {
            Some(TokenType::Normal | TokenType::UserDefined | TokenType::Byte) => {
                self.lexicon.bytes_of(id)
            }
            Some(_) if special => self.lexicon.bytes_of(id),
            _ => return,
        };
        let mut leading = self.strip_first_space.then_some((' ', 1));
        if let Encoder::Rules(rules) = &self.encoder {
            leading = rules.leading;
            if std::mem::replace(&mut position.space, rules.is_spaced(id)) {
                out.push(b' ');
            }
            if !position.begun {
                bytes = rules.first_bytes(id).unwrap_or(bytes);
            }
        }
        position.begun = true;
        if !position.open {
            if let Some((c, most)) = leading {
                let mut buffer = [0; 4];
                let c = c.encode_utf8(&mut buffer).as_bytes();
                while position.removed < most
                    && let Some(rest) = bytes.strip_prefix(c)
                {
                    (bytes, position.removed) = (rest, position.removed + 1);
                }
                position.open = position.removed == most;
            }
            position.open |= !bytes.is_empty();
        }
        out.extend_from_slice(bytes);
    }
}

/// The text with space marks replaced by spaces, which are equivalent.
fn spaced(text: &str) -> Cow<'_, str> {
    if text.contains(SPACE_MARK) {
        Cow::Owned(text.replace(SPACE_MARK, " "))
    } else {
        Cow::Borrowed(text)
    }
}

/// Settings of a vocabulary, with the defaults of its model for absent keys.
struct Rules {
    row: Option<&'static Row>,
    alphabet: Alphabet,
    prompt_begin: Option<u32>,
    prompt_end: Option<u32>,
    pair_separator: Option<u32>,
    prefix: Prefix,
}

impl Rules {
    /// The defaults are llama.cpp's (`src/llama-vocab.cpp`, `llama_vocab::impl::load`).
    fn of(vocabulary: &Vocabulary<'_>) -> Result<Self, Error> {
        let row = match (vocabulary.model, vocabulary.pre) {
            (Model::Bpe, Some(name)) => Some(pretokenize::row(name)?),
            (Model::Bpe, None) => return Err(missing_pre()),
            // Other models have their own pre-tokenization; the key is ignored.
            _ => None,
        };
        let alphabet = match row {
            Some(row) if !row.marked => Alphabet::Bytes,
            _ => Alphabet::Marked,
        };
        let (add_bos, add_eos, add_space_prefix) = match vocabulary.model {
            Model::SentencePiece => (true, false, true),
            Model::Bpe => (row.is_some_and(|row| row.add_bos), false, false),
            Model::WordPiece => (true, true, false),
            Model::Unigram => (false, true, false),
            Model::Rules => (false, false, false),
        };
        let (end, end_key) = match vocabulary.model {
            Model::WordPiece => (vocabulary.separator, SEPARATOR),
            _ => (vocabulary.eos, EOS),
        };
        let needed = "prompts of this vocabulary begin or end with it";
        let token = |wanted: bool, id: Option<u32>, key| match id {
            None if wanted => Err(Error::Missing { key, needed }),
            id => Ok(id.filter(|_| wanted)),
        };
        // The separator of WordPiece is the end of its prompts. The default of the names is that of
        // llama.cpp's `add_sep`.
        let pair_separator = match (vocabulary.model, vocabulary.add_separator) {
            (Model::WordPiece, _) | (_, Some(false)) => None,
            (_, Some(true)) => token(true, vocabulary.separator.or(vocabulary.eos), SEPARATOR)?,
            (_, None) => vocabulary.separator.filter(|_| {
                matches!(vocabulary.pre, Some("jina-v1-en" | "jina-v2-code" | "roberta-bpe"))
            }),
        };
        Ok(Self {
            row,
            alphabet,
            prompt_begin: token(vocabulary.add_bos.unwrap_or(add_bos), vocabulary.bos, BOS)?,
            prompt_end: token(vocabulary.add_eos.unwrap_or(add_eos), end, end_key)?,
            pair_separator,
            prefix: match vocabulary.add_space_prefix.unwrap_or(add_space_prefix) {
                false => Prefix::Never,
                true if vocabulary.space_prefix_once == Some(true) => Prefix::Once,
                true => Prefix::Always,
            },
        })
    }
}

fn missing_pre() -> Error {
    Error::Missing { key: PRE, needed: "byte-pair encoding requires a pre-tokenizer" }
}

/// Checks the consistency of a vocabulary.
fn check(vocabulary: &Vocabulary<'_>) -> Result<(), Error> {
    let tokens = vocabulary.tokens.len();
    if u32::try_from(tokens).map_or(true, |count| count == NO_TOKEN) {
        return Err(Error::TooLarge { key: TOKENS });
    }
    let scores = vocabulary.scores.as_ref().map_or(tokens, Vec::len);
    for (key, found) in [(TYPES, vocabulary.types.len()), (SCORES, scores)] {
        if found != tokens {
            return Err(Error::Length { key, found, expected: tokens });
        }
    }
    for (key, id) in [
        (BOS, vocabulary.bos),
        (EOS, vocabulary.eos),
        (EOT, vocabulary.eot),
        (EOM, vocabulary.eom),
        (UNKNOWN, vocabulary.unknown),
        (SEPARATOR, vocabulary.separator),
    ] {
        if let Some(id) = id.filter(|&id| id as usize >= tokens) {
            return Err(Error::Id { key, id, tokens });
        }
    }
    Ok(())
}
