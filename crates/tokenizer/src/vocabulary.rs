//! The vocabulary of a GGUF file before validation.
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
pub(crate) const RULES: &str = "tokenizer.huggingface.json";
pub(crate) const BOS: &str = "tokenizer.ggml.bos_token_id";
pub(crate) const EOS: &str = "tokenizer.ggml.eos_token_id";
pub(crate) const EOT: &str = "tokenizer.ggml.eot_token_id";
pub(crate) const EOM: &str = "tokenizer.ggml.eom_token_id";
pub(crate) const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
pub(crate) const CLS: &str = "tokenizer.ggml.cls_token_id";
/// The misspelling is that of the files.
pub(crate) const SEPARATOR: &str = "tokenizer.ggml.seperator_token_id";

/// Tokenization algorithm of a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// SentencePiece BPE, `llama`: merges the adjacent pair whose piece has the highest score.
    SentencePiece,
    /// BPE with a list of merges over the words of a pre-tokenizer, `gpt2` and `gemma4`.
    Bpe,
    /// Longest match first, `bert`.
    WordPiece,
    /// The most probable segmentation, `t5`.
    Unigram,
    /// The rules of a `tokenizer.json`, which the file carries.
    Rules,
}

/// Type of a token, with the values of `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenType {
    /// 0 and 5: never results from encoding.
    Unused,
    /// 1: a piece of text.
    Normal,
    /// 2: replaces text without tokens.
    Unknown,
    /// 3: markup such as the beginning of a turn, not rendered as text.
    Control,
    /// 4: text that is recognized before pre-tokenization and never split.
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

/// The contents of a file's `tokenizer.*` keys, borrowed from the file's bytes.
///
/// Only types are validated here; [`Tokenizer::new`](crate::Tokenizer::new) checks the
/// consistency.
#[derive(Clone, Debug)]
pub struct Vocabulary<'a> {
    /// `tokenizer.ggml.model`.
    pub model: Model,
    /// `tokenizer.ggml.pre`, which names the pre-tokenizer of [`Model::Bpe`].
    pub pre: Option<&'a str>,
    /// The text of a `tokenizer.json` for [`Model::Rules`], `tokenizer.huggingface.json`.
    pub rules: Option<&'a str>,
    /// Texts of the tokens, indexed by id.
    pub tokens: Vec<&'a str>,
    /// Types of the tokens, indexed by id; all [`TokenType::Normal`] in a file without types.
    pub types: Vec<TokenType>,
    /// Scores of the tokens, indexed by id: log-probabilities, or other values in the same order.
    pub scores: Option<Vec<f32>>,
    /// Pairs of pieces separated by one space, in descending priority.
    pub merges: Option<Vec<&'a str>>,
    /// Beginning-of-sequence token.
    pub bos: Option<u32>,
    /// End-of-sequence token.
    pub eos: Option<u32>,
    /// End-of-turn token.
    pub eot: Option<u32>,
    /// End-of-message token, which precedes a tool's answer.
    pub eom: Option<u32>,
    /// Unknown token, which replaces text without tokens.
    pub unknown: Option<u32>,
    /// Separator, which ends a prompt of [`Model::WordPiece`] and can separate the texts of a pair.
    pub separator: Option<u32>,
    /// Whether a prompt begins with `bos`, if the file states it.
    pub add_bos: Option<bool>,
    /// Whether a prompt ends with `eos`, if the file states it.
    pub add_eos: Option<bool>,
    /// Whether a separator precedes the second text of a pair, if the file states it.
    pub add_separator: Option<bool>,
    /// Whether encoding adds a space before a text, if the file states it.
    pub add_space_prefix: Option<bool>,
    /// Whether a text that begins with a space gets no further one, if the file states it. A
    /// `tokenizer.json` whose pre-tokenizer adds the space does.
    pub space_prefix_once: Option<bool>,
    /// Whether encoding adds that space after each special token too, if the file states it: a
    /// `tokenizer.json` does, a GGUF file does not.
    pub space_after_special: Option<bool>,
    /// Whether [`Model::Unigram`] collapses runs of spaces and removes spaces at both ends.
    pub remove_extra_whitespaces: bool,
    /// Whether [`Model::WordPiece`] converts text to lower case.
    pub lowercase: bool,
    /// Whether [`Model::WordPiece`] removes accents.
    pub strip_accents: bool,
    /// SentencePiece's compiled normalization table for [`Model::Unigram`].
    pub charsmap: Vec<u8>,
    /// Jinja chat template.
    pub chat_template: Option<&'a str>,
    /// `general.name`. It selects rules of some models that no key states.
    pub name: Option<&'a str>,
}

/// When a space is put before a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    Never,
    /// Before a text that does not begin with one.
    Once,
    Always,
}

impl Prefix {
    /// Whether a text gets the space, which may begin with one.
    pub(crate) fn applies(self, spaced: bool) -> bool {
        match self {
            Self::Never => false,
            Self::Once => !spaced,
            Self::Always => true,
        }
    }
}

impl<'a> Vocabulary<'a> {
    /// Creates a vocabulary with these tokens and defaults for all other fields.
    pub fn new(model: Model, tokens: Vec<&'a str>) -> Self {
        Self {
            model,
            pre: None,
            rules: None,
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
            add_separator: None,
            add_space_prefix: None,
            space_prefix_once: None,
            space_after_special: None,
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
    /// [`Error::NoVocabulary`] if the file has none. Otherwise if a key is missing or of the wrong
    /// type, or if the model or a token type is unknown.
    pub fn from_metadata(metadata: &'a Metadata) -> Result<Self, Error> {
        let mut pre = metadata.opt_string(PRE)?;
        let rules = metadata.opt_string(RULES)?;
        let model = match metadata.opt_string("tokenizer.ggml.model")? {
            None | Some("no_vocab" | "none") => return Err(Error::NoVocabulary),
            Some(_) if rules.is_some() => Model::Rules,
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
        (this.pre, this.rules) = (pre, rules);
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
            // A BERT prompt begins with the class token, which few files repeat as BOS.
            this.bos = metadata.opt_u32(CLS)?.or(this.bos);
        }
        this.separator = metadata.opt_u32(SEPARATOR)?;
        this.add_bos = metadata.opt_bool("tokenizer.ggml.add_bos_token")?;
        this.add_eos = metadata.opt_bool("tokenizer.ggml.add_eos_token")?;
        this.add_separator = metadata.opt_bool("tokenizer.ggml.add_sep_token")?;
        this.add_space_prefix = metadata.opt_bool("tokenizer.ggml.add_space_prefix")?;
        this.space_prefix_once = metadata.opt_bool("tokenizer.ggml.space_prefix_once")?;
        this.space_after_special = metadata.opt_bool("tokenizer.ggml.space_after_special")?;
        this.remove_extra_whitespaces =
            metadata.opt_bool("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false);
        this.lowercase = metadata.opt_bool("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(true);
        this.strip_accents =
            metadata.opt_bool("tokenizer.ggml.normalizer.strip_accents")?.unwrap_or(this.lowercase);
        if let Some(charsmap) = metadata.opt_i32_array("tokenizer.ggml.precompiled_charsmap")? {
            // The array is of i8 or u8; the conversion yields the bytes for both.
            this.charsmap = charsmap.into_iter().map(|byte| byte as u8).collect();
        }
        this.chat_template = metadata.opt_string("tokenizer.chat_template")?;
        this.name = metadata.opt_string("general.name")?;
        Ok(this)
    }

    /// The scores of a model that requires them.
    pub(crate) fn finite_scores(&self) -> Result<&[f32], Error> {
        let scores = self.scores.as_deref().ok_or(Error::Missing {
            key: SCORES,
            needed: "the scores determine the segmentation",
        })?;
        match (0u32..).zip(scores).find(|(_, score)| !score.is_finite()) {
            Some((id, &score)) => Err(Error::Score { id, score }),
            None => Ok(scores),
        }
    }
}
