//! The algorithms of tokenizers.

use super::contents::{Contents, kind, steps};

/// Tokenization algorithm, by its name in GGUF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// `gpt2`: BPE on bytes.
    ByteLevel,
    /// `llama`: SentencePiece's BPE.
    SentencePiece,
    /// `gemma4`: BPE on text with space marks and with merges.
    Marked,
    /// `bert`.
    WordPiece,
    /// `t5`.
    Unigram,
    /// One that only the file itself describes.
    Other,
}

impl Algorithm {
    pub(super) fn of(contents: &Contents, architecture: &str) -> Self {
        match contents.model.kind.as_deref() {
            Some("WordPiece") => Self::WordPiece,
            Some("Unigram") => Self::Unigram,
            None | Some("BPE") => {
                let byte_level = steps(&contents.decoder).iter().any(|s| kind(s) == "ByteLevel");
                match (byte_level, contents.model.byte_fallback) {
                    (true, _) => Self::ByteLevel,
                    (_, Some(true)) if architecture == "gemma4" => Self::Marked,
                    (_, Some(true)) => Self::SentencePiece,
                    _ => Self::Other,
                }
            }
            Some(_) => Self::Other,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ByteLevel => "gpt2",
            Self::SentencePiece => "llama",
            Self::Marked => "gemma4",
            Self::WordPiece => "bert",
            Self::Unigram => "t5",
            Self::Other => "huggingface",
        }
    }
}
