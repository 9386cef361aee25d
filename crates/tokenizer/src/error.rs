//! What can be wrong with a vocabulary, or with a text for it.

/// Why a vocabulary cannot be used, or a text not be encoded.
///
/// Each variant names the metadata key or the token at fault and what was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file says that it carries no vocabulary, or says nothing about one.
    #[error(
        "the model file carries no vocabulary (tokenizer.ggml.model is absent or \"no_vocab\")"
    )]
    NoVocabulary,
    /// A metadata key is missing, of the wrong type or not UTF-8.
    #[error(transparent)]
    Metadata(#[from] pelton_weights::Error),
    /// A kind of vocabulary that is not built here.
    #[error(
        "tokenizer.ggml.model is {name:?}, expected \"llama\", \"gpt2\", \"gemma4\", \"bert\" or \"t5\""
    )]
    Model {
        /// The value in the file.
        name: String,
    },
    /// A pre-tokenizer whose rules are not known here. There is no default: other rules would
    /// give other ids.
    #[error("tokenizer.ggml.pre is {name:?}, which is not in the table of pre-tokenizers{hint}")]
    PreTokenizer {
        /// The value in the file.
        name: String,
        /// What is known about the name, if anything.
        hint: &'static str,
    },
    /// Something that this kind of vocabulary cannot do without.
    #[error("{key} is missing: {needed}")]
    Missing {
        /// The metadata key.
        key: &'static str,
        /// Who needs it.
        needed: &'static str,
    },
    /// Two arrays that should go together do not.
    #[error("{key} has {found} elements, expected {expected} as in tokenizer.ggml.tokens")]
    Length {
        /// The metadata key.
        key: &'static str,
        /// Its length.
        found: usize,
        /// The number of tokens.
        expected: usize,
    },
    /// More tokens or merges, or longer ones, than 32-bit numbers can count.
    #[error("{key} has more than 2^32 - 2 elements or bytes")]
    TooLarge {
        /// The metadata key.
        key: &'static str,
    },
    /// A special token's id is not in the vocabulary.
    #[error("{key} is {id}, but the vocabulary has {tokens} tokens")]
    Id {
        /// The metadata key.
        key: &'static str,
        /// The id in the file.
        id: u32,
        /// The number of tokens.
        tokens: usize,
    },
    /// A token type that GGUF does not define.
    #[error("tokenizer.ggml.token_type gives token {id} the type {found}, expected 0 to 6")]
    TokenType {
        /// The token.
        id: u32,
        /// Its type in the file.
        found: i32,
    },
    /// Two tokens of the same text.
    #[error("tokens {first} and {second} are both {text:?}, expected distinct tokens")]
    Duplicate {
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
        /// Their text.
        text: String,
    },
    /// A token of type byte that is not written `<0x00>` to `<0xFF>`.
    #[error("token {id} has type byte but is {text:?}, expected <0x00> to <0xFF>")]
    Byte {
        /// The token.
        id: u32,
        /// Its text.
        text: String,
    },
    /// A token so long that looking for it would be slow.
    #[error("token {id} stands for {found} bytes, expected at most {limit}")]
    TokenLength {
        /// The token.
        id: u32,
        /// Its length.
        found: usize,
        /// The most that is accepted; the longest known token has 1024 bytes.
        limit: usize,
    },
    /// A score that cannot be compared.
    #[error("tokenizer.ggml.scores gives token {id} the score {score}, expected a finite number")]
    Score {
        /// The token.
        id: u32,
        /// Its score.
        score: f32,
    },
    /// A merge that cannot be made.
    #[error("tokenizer.ggml.merges has {merge:?} at place {place}: {fault}")]
    Merge {
        /// The merge.
        merge: String,
        /// Its place in the array, from 0.
        place: usize,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A table of character replacements that points outside itself.
    #[error("tokenizer.ggml.precompiled_charsmap {fault}")]
    Charsmap {
        /// What is wrong with it.
        fault: &'static str,
    },
    /// A part of a text for which the vocabulary has neither tokens nor an unknown token.
    #[error("the vocabulary has no token for {text:?} and no unknown token")]
    Unencodable {
        /// The character or bytes.
        text: String,
    },
    /// A text too long to count its bytes in 32 bits.
    #[error("the text has {found} bytes, expected fewer than 2^32")]
    TextTooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// The engine that finds special tokens could not be built.
    #[error("the special tokens cannot be searched for: {0}")]
    Specials(String),
}
