//! A vocabulary as a GGUF file stores it, before it is checked and built.
//!
//! The keys, and the defaults where a key is absent, are those of the GGUF specification
//! (ggml-org/ggml, `docs/gguf.md`, "Tokenizer") and of its reference reader (ggml-org/llama.cpp,
//! `src/llama-vocab.cpp`, `llama_vocab::impl::load`).

use pelton_weights::Metadata;

use crate::Error;

pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(crate) const TYPES: &str = "tokenizer.ggml.token_type";
pub(crate) const SCORES: &str = "tokenizer.ggml.scores";
pub(crate) const MERGES: &str = "tokenizer.ggml.merges";
pub(crate) const PRE: &str = "tokenizer.ggml.pre";
pub(crate) const BOS: &str = "tokenizer.ggml.bos_token_id";
pub(crate) const EOS: &str = "tokenizer.ggml.eos_token_id";
pub(crate) const EOT: &str = "tokenizer.ggml.eot_token_id";
pub(crate) const EOM: &str = "tokenizer.ggml.eom_token_id";
pub(crate) const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
pub(crate) const CLS: &str = "tokenizer.ggml.cls_token_id";
/// Spelled so in the files.
pub(crate) const SEPARATOR: &str = "tokenizer.ggml.seperator_token_id";

/// How a vocabulary's pieces are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// SentencePiece BPE, `llama`: neighbours are joined into the piece of the highest score.
    SentencePiece,
    /// BPE with a list of merges over the words of a pre-tokenizer, `gpt2` and `gemma4`.
    Bpe,
    /// The longest piece first, `bert`.
    WordPiece,
    /// The most probable sequence of pieces, `t5`.
    Unigram,
}

/// What a token is for, numbered as in `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenType {
    /// 0 and 5: in the vocabulary, but never produced from text.
    Unused,
    /// 1: a piece of text.
    Normal,
    /// 2: stands for what no other token can express.
    Unknown,
    /// 3: markup such as the beginning of a turn; no part of the text.
    Control,
    /// 4: text that is found before all else and never split.
    UserDefined,
    /// 6: one byte, `<0x00>` to `<0xFF>`.
    Byte,
}

impl TokenType {
    fn from_id(id: i32) -> Option<Self> {
        Some(match id {
            0 | 5 => Self::Unused,
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            6 => Self::Byte,
            _ => return None,
        })
    }
}

/// The contents of a file's `tokenizer.*` keys, as plain data that borrows the file's bytes.
///
/// [`Tokenizer::new`](crate::Tokenizer::new) checks that they fit together; nothing here has
/// been checked but types.
#[derive(Clone, Debug)]
pub struct Vocabulary<'a> {
    /// `tokenizer.ggml.model`.
    pub model: Model,
    /// `tokenizer.ggml.pre`, which names the pre-tokenizer of [`Model::Bpe`].
    pub pre: Option<&'a str>,
    /// The tokens' texts by id.
    pub tokens: Vec<&'a str>,
    /// What each token is for. All are [`TokenType::Normal`] in a file that does not say.
    pub types: Vec<TokenType>,
    /// The tokens' scores by id: logarithms of probabilities, or any numbers in the same order.
    pub scores: Option<Vec<f32>>,
    /// Pairs of pieces separated by one space, the most urgent first.
    pub merges: Option<Vec<&'a str>>,
    /// Begins a prompt.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Ends a turn.
    pub eot: Option<u32>,
    /// Ends a message that expects a tool's answer.
    pub eom: Option<u32>,
    /// Stands for what cannot be encoded.
    pub unknown: Option<u32>,
    /// Ends a prompt of [`Model::WordPiece`].
    pub separator: Option<u32>,
    /// Whether a prompt begins with `bos`, if the file says.
    pub add_bos: Option<bool>,
    /// Whether a prompt ends with `eos`, if the file says.
    pub add_eos: Option<bool>,
    /// Whether a text is encoded as if it began with a space, if the file says.
    pub add_space_prefix: Option<bool>,
    /// Whether [`Model::Unigram`] sees runs of spaces as one and none at the ends.
    pub remove_extra_whitespaces: bool,
    /// Whether [`Model::WordPiece`] sees lower case only.
    pub lowercase: bool,
    /// Whether [`Model::WordPiece`] sees letters without accents.
    pub strip_accents: bool,
    /// SentencePiece's compiled table of character replacements for [`Model::Unigram`].
    pub charsmap: Vec<u8>,
    /// The Jinja template that turns a conversation into a prompt.
    pub chat_template: Option<&'a str>,
    /// `general.name`. Some files need it for a rule that no key states.
    pub name: Option<&'a str>,
}

impl<'a> Vocabulary<'a> {
    /// A vocabulary of these tokens and nothing else.
    pub fn new(model: Model, tokens: Vec<&'a str>) -> Self {
        Self {
            model,
            pre: None,
            types: vec![TokenType::Normal; tokens.len()],
            tokens,
            scores: None,
            merges: None,
            bos: None,
            eos: None,
            eot: None,
            eom: None,
            unknown: None,
            separator: None,
            add_bos: None,
            add_eos: None,
            add_space_prefix: None,
            remove_extra_whitespaces: false,
            lowercase: true,
            strip_accents: true,
            charsmap: Vec::new(),
            chat_template: None,
            name: None,
        }
    }

    /// Reads a file's `tokenizer.*` keys.
    ///
    /// # Errors
    /// [`Error::NoVocabulary`] if the file carries none, else if a key is missing or of the
    /// wrong type, or if the model or a token type is not known.
    pub fn from_metadata(metadata: &'a Metadata) -> Result<Self, Error> {
        let mut pre = metadata.opt_string(PRE)?;
        let model = match metadata.opt_string("tokenizer.ggml.model")? {
            None | Some("no_vocab" | "none") => return Err(Error::NoVocabulary),
            Some("llama") => Model::SentencePiece,
            Some("gpt2") => Model::Bpe,
            Some("gemma4") => {
                pre = Some("gemma4");
                Model::Bpe
            }
            Some("bert") => Model::WordPiece,
            Some("t5") => Model::Unigram,
            Some(other) => return Err(Error::Model { name: other.to_owned() }),
        };
        let tokens = metadata.string_array(TOKENS)?.collect::<Result<Vec<_>, _>>()?;
        let mut this = Self::new(model, tokens);
        this.pre = pre;
        if let Some(types) = metadata.opt_i32_array(TYPES)? {
            this.types = (0u32..)
                .zip(types)
                .map(|(id, found)| TokenType::from_id(found).ok_or(Error::TokenType { id, found }))
                .collect::<Result<_, _>>()?;
        }
        this.scores = metadata.opt_f32_array(SCORES)?;
        if let Some(merges) = metadata.opt_string_array(MERGES)? {
            this.merges = Some(merges.collect::<Result<_, _>>()?);
        }
        this.bos = metadata.opt_u32(BOS)?;
        this.eos = metadata.opt_u32(EOS)?;
        this.eot = metadata.opt_u32(EOT)?;
        this.eom = metadata.opt_u32(EOM)?;
        this.unknown = metadata.opt_u32(UNKNOWN)?;
        if model == Model::WordPiece {
            // A BERT prompt begins with the class token; few of the files repeat it as BOS.
            this.bos = metadata.opt_u32(CLS)?.or(this.bos);
            this.separator = metadata.opt_u32(SEPARATOR)?;
        }
        this.add_bos = metadata.opt_bool("tokenizer.ggml.add_bos_token")?;
        this.add_eos = metadata.opt_bool("tokenizer.ggml.add_eos_token")?;
        this.add_space_prefix = metadata.opt_bool("tokenizer.ggml.add_space_prefix")?;
        this.remove_extra_whitespaces =
            metadata.opt_bool("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false);
        this.lowercase = metadata.opt_bool("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(true);
        this.strip_accents =
            metadata.opt_bool("tokenizer.ggml.normalizer.strip_accents")?.unwrap_or(this.lowercase);
        if let Some(charsmap) = metadata.opt_i32_array("tokenizer.ggml.precompiled_charsmap")? {
            // The array is of i8 or u8; either way these are the bytes.
            this.charsmap = charsmap.into_iter().map(|byte| byte as u8).collect();
        }
        this.chat_template = metadata.opt_string("tokenizer.chat_template")?;
        this.name = metadata.opt_string("general.name")?;
        Ok(this)
    }

    /// The scores of a model that has to have them.
    pub(crate) fn finite_scores(&self) -> Result<&[f32], Error> {
        let scores = self.scores.as_deref().ok_or(Error::Missing {
            key: SCORES,
            needed: "the scores say which pieces are preferred",
        })?;
        match (0u32..).zip(scores).find(|(_, score)| !score.is_finite()) {
            Some((id, &score)) => Err(Error::Score { id, score }),
            None => Ok(scores),
        }
    }
}
