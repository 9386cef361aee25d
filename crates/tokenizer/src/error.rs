//! Errors of vocabularies and of encoding.

/// The reason that a vocabulary cannot be used or a text cannot be encoded.
///
/// Each variant names the metadata key or the token concerned and the value expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file without a vocabulary.
    #[error(
        "the model file carries no vocabulary (tokenizer.ggml.model is absent or \"no_vocab\")"
    )]
    NoVocabulary,
    /// A metadata key is missing, of the wrong type or not UTF-8.
    #[error(transparent)]
    Metadata(#[from] pelton_weights::Error),
    /// An unsupported kind of vocabulary.
    #[error(
        "tokenizer.ggml.model is {name:?}, expected \"llama\", \"gpt2\", \"gemma4\", \"bert\" or \"t5\""
    )]
    Model {
        /// The value in the file.
        name: String,
    },
    /// An unknown pre-tokenizer. There is no default, because other rules would result in other
    /// ids.
    #[error("tokenizer.ggml.pre is {name:?}, which is not in the table of pre-tokenizers{hint}")]
    PreTokenizer {
        /// The value in the file.
        name: String,
        /// An explanation for names that are known to be unsupported, or empty.
        hint: &'static str,
    },
    /// A key that is required by this kind of vocabulary.
    #[error("{key} is missing: {needed}")]
    Missing {
        /// The metadata key.
        key: &'static str,
        /// The reason that the key is required.
        needed: &'static str,
    },
    /// An array whose length differs from the number of tokens.
    #[error("{key} has {found} elements, expected {expected} as in tokenizer.ggml.tokens")]
    Length {
        /// The metadata key.
        key: &'static str,
        /// Its length.
        found: usize,
        /// The number of tokens.
        expected: usize,
    },
    /// Tokens or merges whose number or total length exceeds 32 bits.
    #[error("{key} has more than 2^32 - 2 elements or bytes")]
    TooLarge {
        /// The metadata key.
        key: &'static str,
    },
    /// A special token's id that is out of range.
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
    #[error("tokenizer.ggml.token_type has type {found} for token {id}, expected 0 to 6")]
    TokenType {
        /// The token.
        id: u32,
        /// Its type in the file.
        found: i32,
    },
    /// A token of type byte whose text is not `<0x00>` to `<0xFF>`.
    #[error("token {id} has type byte but is {text:?}, expected <0x00> to <0xFF>")]
    Byte {
        /// The token.
        id: u32,
        /// Its text.
        text: String,
    },
    /// A token that is too long to search for at every position of a text.
    #[error("token {id} has {found} bytes, expected at most {limit}")]
    TokenLength {
        /// The token.
        id: u32,
        /// Its length.
        found: usize,
        /// The limit; the longest known token has 1024 bytes.
        limit: usize,
    },
    /// A score that is not finite.
    #[error("tokenizer.ggml.scores has score {score} for token {id}, expected a finite number")]
    Score {
        /// The token.
        id: u32,
        /// Its score.
        score: f32,
    },
    /// An invalid merge.
    #[error("tokenizer.ggml.merges has {merge:?} at index {index}: {fault}")]
    Merge {
        /// The merge.
        merge: String,
        /// Its index in the array.
        index: usize,
        /// The violated rule.
        fault: &'static str,
    },
    /// An inconsistent normalization table.
    #[error("tokenizer.ggml.precompiled_charsmap {fault}")]
    Charsmap {
        /// The violated rule.
        fault: &'static str,
    },
    /// A rule of `tokenizer.json` that is unknown, malformed or not supported.
    #[error("tokenizer.json: {place} {fault}")]
    Rule {
        /// The place in the file, such as `pre_tokenizer.pretokenizers[1].behavior`.
        place: String,
        /// The reason, as the end of a sentence.
        fault: String,
    },
    /// A pattern that backtracks too often on a text.
    #[error("the pattern {pattern:?} of tokenizer.json takes too long on this text")]
    Backtracking {
        /// The pattern.
        pattern: String,
    },
    /// A text that rules of `tokenizer.json` make much longer.
    #[error("the rules of tokenizer.json make the text longer than {limit} bytes")]
    Grown {
        /// The limit in bytes.
        limit: usize,
    },
    /// A piece of a text for which the vocabulary has neither tokens nor an unknown token.
    #[error("the vocabulary has no token for {text:?} and no unknown token")]
    Unencodable {
        /// The character or bytes.
        text: String,
    },
    /// A text whose length in bytes exceeds 32 bits.
    #[error("the text has {found} bytes, expected fewer than 2^32")]
    TextTooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// Construction of the automaton that finds special tokens failed.
    #[error("no search automaton can be built for the special tokens: {0}")]
    Specials(String),
}
