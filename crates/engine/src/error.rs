//! What can go wrong between a request and its text.

use std::path::PathBuf;

/// Why a model could not be loaded, or a request not be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model file is not as it must be.
    #[error(transparent)]
    Weights(#[from] pelton_weights::Error),

    /// There is no plan for the model, or it cannot be loaded or run.
    #[error(transparent)]
    Graph(#[from] pelton_graph::Error),

    /// The model's vocabulary is broken, or a text cannot be encoded.
    #[error(transparent)]
    Tokenizer(#[from] pelton_tokenizer::Error),

    /// Text was given to a model whose file has no vocabulary.
    #[error("{}: the file has no vocabulary, expected a prompt of token ids", .file.display())]
    NoVocabulary {
        /// The file.
        file: PathBuf,
    },

    /// A token of the prompt is not in the vocabulary.
    #[error("token {token} of the prompt is not in the vocabulary of {vocab}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// Tokens in the vocabulary.
        vocab: usize,
    },

    /// The prompt has no token, and the model none to begin with.
    #[error("the prompt is empty, expected at least one token")]
    EmptyPrompt,

    /// The prompt leaves no room for an answer.
    #[error("the prompt has {tokens} tokens, expected fewer than the context's {context}")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Positions that the model was loaded with.
        context: usize,
    },

    /// The context that was asked for is longer than the model's.
    #[error("a context of {asked} was asked for, expected 1 to the model's {context}")]
    Context {
        /// What was asked for.
        asked: usize,
        /// What the model was made for.
        context: usize,
    },

    /// A sampling value is out of its range.
    #[error("{0}")]
    Sampling(String),

    /// No logit was a number: the weights are broken, or an activation overflowed.
    #[error("the model's output is not a number at token {index} of the text")]
    NotANumber {
        /// How many tokens were made before.
        index: usize,
    },

    /// The pages are all taken.
    #[error("{needed} positions do not fit in what other requests leave of the cache")]
    CacheFull {
        /// Positions that were needed.
        needed: usize,
    },

    /// The pass that the request shared with others failed.
    #[error("the model could not be run: {0}")]
    Pass(String),

    /// A GPU was asked for from a build without that feature.
    #[error("this build of pelton has no GPU support, expected one with the feature 'gpu'")]
    NoGpu,

    /// The thread that runs the model has ended.
    #[error("the model was stopped")]
    Stopped,
}
