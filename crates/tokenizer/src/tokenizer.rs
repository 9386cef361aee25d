//! The tokenizer that a vocabulary makes.

use std::borrow::Cow;

use pelton_weights::Metadata;

use crate::bpe::Bpe;
use crate::lexicon::{Alphabet, Lexicon, NO_TOKEN, SPACE_MARK};
use crate::merge::Merger;
use crate::pretokenize::{self, Row};
use crate::special::{self, Fragment, Specials};
use crate::unigram::Unigram;
use crate::vocabulary::{
    BOS, EOM, EOS, EOT, Model, PRE, SCORES, SEPARATOR, TOKENS, TYPES, TokenType, UNKNOWN,
};
use crate::wordpiece::WordPiece;
use crate::{DecodeState, Error, StreamDecoder, Vocabulary};

/// What to make of special tokens that are written out in a text, such as `<|im_end|>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// They are ordinary text. Right for text from outside: it cannot end a turn or begin one.
    /// (Tokens of type user-defined are found nevertheless; models were trained so.)
    Ignore,
    /// They become the tokens. Right for prompts that a chat template has written.
    Parse,
}

/// Text to token ids and back, from the vocabulary of a model file.
///
/// It does not change; share it between threads by reference or in an `Arc`.
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
    /// What a prompt begins and ends with.
    prompt_begin: Option<u32>,
    prompt_end: Option<u32>,
    bos: Option<u32>,
    eos: Option<u32>,
    /// In ascending order.
    ends: Vec<u32>,
    add_space_prefix: bool,
    /// Whether the pieces of a text begin with a space that the text does not have.
    strip_first_space: bool,
    chat_template: Option<String>,
}

#[derive(Debug)]
enum Encoder {
    SentencePiece(Bpe),
    Bpe(Bpe, Alphabet),
    WordPiece(WordPiece),
    Unigram(Unigram),
}

impl Tokenizer {
    /// Builds the tokenizer of a model file.
    ///
    /// # Errors
    /// [`Error::NoVocabulary`] if the file carries none; otherwise as [`Tokenizer::new`], or if
    /// a key is of the wrong type.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, Error> {
        Self::new(Vocabulary::from_metadata(metadata)?)
    }

    /// Builds the tokenizer of a vocabulary.
    ///
    /// # Errors
    /// If the parts of the vocabulary do not fit together or something that its model needs is
    /// missing. The error names the metadata key.
    pub fn new(mut vocabulary: Vocabulary<'_>) -> Result<Self, Error> {
        check(&vocabulary)?;
        special::protect_ends(&mut vocabulary);
        let vocabulary = &vocabulary;
        let rules = Rules::of(vocabulary)?;
        let lexicon = Lexicon::new(vocabulary, rules.alphabet)?;
        let encoder = match (vocabulary.model, rules.row) {
            (Model::SentencePiece, _) => {
                Encoder::SentencePiece(Bpe::sentence_piece(vocabulary, &lexicon)?)
            }
            (Model::Bpe, Some(row)) => {
                let bpe = Bpe::merges(vocabulary, &lexicon, row, rules.alphabet)?;
                Encoder::Bpe(bpe, rules.alphabet)
            }
            (Model::Bpe, None) => return Err(missing_pre()),
            (Model::WordPiece, _) => Encoder::WordPiece(WordPiece::new(vocabulary, &lexicon)?),
            (Model::Unigram, _) => {
                Encoder::Unigram(Unigram::new(vocabulary, &lexicon, rules.add_space_prefix)?)
            }
        };
        Ok(Self {
            encoder,
            lexicon,
            specials: Specials::new(vocabulary)?,
            texts: vocabulary.tokens.iter().map(|&text| text.into()).collect(),
            types: vocabulary.types.clone(),
            prompt_begin: rules.prompt_begin,
            prompt_end: rules.prompt_end,
            bos: vocabulary.bos,
            eos: vocabulary.eos,
            ends: special::ends(vocabulary),
            add_space_prefix: rules.add_space_prefix,
            strip_first_space: rules.add_space_prefix || vocabulary.model == Model::WordPiece,
            chat_template: vocabulary.chat_template.map(str::to_owned),
        })
    }

    /// A text's ids. Nothing is added at its ends; see [`encode_prompt`](Self::encode_prompt).
    ///
    /// # Errors
    /// If the vocabulary has no token for a part of the text, or the text is 4 GiB or longer.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        self.encode_into(text, special, &mut ids)?;
        Ok(ids)
    }

    /// A prompt's ids: special tokens that are written out in it are parsed, and the tokens that
    /// the file wants at its ends are added, even where the text has them already. A prompt that
    /// a chat template has written is complete; give it to [`encode`](Self::encode).
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        ids.extend(self.prompt_begin);
        self.encode_into(text, Special::Parse, &mut ids)?;
        ids.extend(self.prompt_end);
        Ok(ids)
    }

    fn encode_into(&self, text: &str, special: Special, ids: &mut Vec<u32>) -> Result<(), Error> {
        // One byte is for the space that may be added.
        if u32::try_from(text.len()).map_or(true, |length| length == u32::MAX) {
            return Err(Error::TextTooLong { found: text.len() });
        }
        let mut merger = Merger::default();
        // The first text and a text after a special token begin with a space, if any does.
        let mut begins = true;
        self.specials.fragments(text, special, |fragment| {
            let text = match fragment {
                Fragment::Token(id) => {
                    begins = true;
                    ids.push(id);
                    return Ok(());
                }
                Fragment::Text(text) => text,
            };
            let begins = std::mem::take(&mut begins);
            match &self.encoder {
                Encoder::SentencePiece(bpe) => {
                    let mut text = spaced(text);
                    if begins && self.add_space_prefix {
                        text.to_mut().insert(0, ' ');
                    }
                    bpe.encode(&self.lexicon, &text, &mut merger, ids)
                }
                Encoder::Bpe(bpe, Alphabet::Marked) => {
                    bpe.encode(&self.lexicon, &spaced(text), &mut merger, ids)
                }
                Encoder::Bpe(bpe, Alphabet::Bytes) => {
                    bpe.encode(&self.lexicon, text, &mut merger, ids)
                }
                Encoder::WordPiece(wordpiece) => {
                    wordpiece.encode(text, ids);
                    Ok(())
                }
                Encoder::Unigram(unigram) => unigram.encode(&self.lexicon, text, ids),
            }
        })
    }

    /// The text of these ids, with U+FFFD for bytes that are no UTF-8. Control tokens are shown,
    /// as they are written, only if `special`; ids that are not in the vocabulary never. Spaces
    /// stay where the tokens have them, before full stops too (`transformers` can remove those,
    /// as `clean_up_tokenization_spaces`), so that a text comes back as it was encoded.
    pub fn decode(&self, ids: &[u32], special: bool) -> String {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for &id in ids {
            bytes.extend_from_slice(self.rendered(id, special));
        }
        if self.strip_first_space && bytes.first() == Some(&b' ') {
            bytes.remove(0);
        }
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// A decoder for a text that comes token by token, without control tokens.
    pub fn decoder(&self) -> StreamDecoder<'_> {
        StreamDecoder::new(self, DecodeState::new(false))
    }

    /// As [`decoder`](Self::decoder), for a text that goes on after a prompt: a space at its
    /// beginning is part of it.
    pub fn decoder_after_prompt(&self) -> StreamDecoder<'_> {
        StreamDecoder::new(self, DecodeState::continuing(false))
    }

    /// The bytes that a token stands for, which need not be whole characters. Those of a control
    /// token are its text.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        ((id as usize) < self.lexicon.len()).then(|| self.lexicon.bytes_of(id))
    }

    /// A token as the file writes it.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize).map(|text| &**text)
    }

    /// What a token is for.
    pub fn token_type(&self, id: u32) -> Option<TokenType> {
        self.types.get(id as usize).copied()
    }

    /// The number of tokens; ids are below it.
    pub fn vocab_size(&self) -> usize {
        self.lexicon.len()
    }

    /// The token that begins a text, if the file names one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text, if the file names one.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether a model that generates this token has finished: the file's EOS, EOT and EOM, and
    /// control tokens that are known to end a turn, such as `<|im_end|>`.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// All tokens of which [`is_end`](Self::is_end) is true, in ascending order.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The Jinja template that turns a conversation into a prompt, if the file has one.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// Whether the pieces of a text begin with a space that the text does not have.
    pub(crate) fn strips_first_space(&self) -> bool {
        self.strip_first_space
    }

    /// The bytes that a token adds to a text.
    pub(crate) fn rendered(&self, id: u32, special: bool) -> &[u8] {
        match self.token_type(id) {
            Some(TokenType::Normal | TokenType::UserDefined | TokenType::Byte) => {
                self.lexicon.bytes_of(id)
            }
            Some(_) if special => self.lexicon.bytes_of(id),
            _ => &[],
        }
    }
}

/// A text with spaces for space marks, which mean the same.
fn spaced(text: &str) -> Cow<'_, str> {
    if text.contains(SPACE_MARK) {
        Cow::Owned(text.replace(SPACE_MARK, " "))
    } else {
        Cow::Borrowed(text)
    }
}

/// What a vocabulary does not say and its model implies.
struct Rules {
    row: Option<&'static Row>,
    alphabet: Alphabet,
    prompt_begin: Option<u32>,
    prompt_end: Option<u32>,
    add_space_prefix: bool,
}

impl Rules {
    /// The defaults are llama.cpp's (`src/llama-vocab.cpp`, `llama_vocab::impl::load`).
    fn of(vocabulary: &Vocabulary<'_>) -> Result<Self, Error> {
        let row = match (vocabulary.model, vocabulary.pre) {
            (Model::Bpe, Some(name)) => Some(pretokenize::row(name)?),
            (Model::Bpe, None) => return Err(missing_pre()),
            // Other models cut text by rules of their own; what the key says is of no use.
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
        };
        let (end, end_key) = match vocabulary.model {
            Model::WordPiece => (vocabulary.separator, SEPARATOR),
            _ => (vocabulary.eos, EOS),
        };
        let needed = "the vocabulary's prompts need it";
        let token = |wanted: bool, id: Option<u32>, key| match id {
            None if wanted => Err(Error::Missing { key, needed }),
            id => Ok(id.filter(|_| wanted)),
        };
        Ok(Self {
            row,
            alphabet,
            prompt_begin: token(vocabulary.add_bos.unwrap_or(add_bos), vocabulary.bos, BOS)?,
            prompt_end: token(vocabulary.add_eos.unwrap_or(add_eos), end, end_key)?,
            add_space_prefix: vocabulary.add_space_prefix.unwrap_or(add_space_prefix),
        })
    }
}

fn missing_pre() -> Error {
    Error::Missing { key: PRE, needed: "byte-pair encoding needs a pre-tokenizer" }
}

/// Checks that the parts of a vocabulary fit together.
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
