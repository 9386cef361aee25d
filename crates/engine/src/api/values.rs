//! Embeddings and relevance scores: their options and results.

use std::{fmt, str::FromStr, time::Duration};

use super::Client;

/// The rows of a text that an embedding summarizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pooling {
    /// None: one embedding for each token.
    None,
    /// The mean of all tokens.
    Mean,
    /// The first token, a classifier's `[CLS]`.
    Cls,
    /// The last token.
    Last,
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Mean => "mean",
            Self::Cls => "cls",
            Self::Last => "last",
        })
    }
}

impl FromStr for Pooling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "mean" => Ok(Self::Mean),
            "cls" => Ok(Self::Cls),
            "last" => Ok(Self::Last),
            _ => Err("expected mean, cls, last or none".to_owned()),
        }
    }
}

/// The tokens of a prompt after which logits are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogitRows {
    /// The last token.
    Last,
    /// Each token.
    Each,
}

/// How texts are embedded.
///
/// ```
/// use pelton::EmbedOptions;
///
/// let options = EmbedOptions::default().dimensions(256);
/// assert!(options.normalize);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EmbedOptions {
    /// The leading values that are kept, for models that were trained for it (Matryoshka
    /// representation learning, arXiv 2205.13147); `None` for all. They are cut before they are
    /// normalized.
    pub dimensions: Option<usize>,
    /// Whether each embedding is divided by its Euclidean norm.
    pub normalize: bool,
    /// The longest time from the call to the last result.
    pub deadline: Option<Duration>,
    /// The namespace of cached prefixes, which only models with causal attention have.
    pub cache_salt: u64,
    /// The sender.
    pub client: Client,
}

impl Default for EmbedOptions {
    fn default() -> Self {
        Self {
            dimensions: None,
            normalize: true,
            deadline: None,
            cache_salt: 0,
            client: Client::default(),
        }
    }
}

impl EmbedOptions {
    /// Sets the number of leading values that are kept.
    pub fn dimensions(mut self, dimensions: usize) -> Self {
        self.dimensions = Some(dimensions);
        self
    }

    /// Sets whether each embedding is divided by its Euclidean norm.
    pub fn normalize(mut self, normalize: bool) -> Self {
        self.normalize = normalize;
        self
    }

    /// Sets the time from the call to the last result.
    pub fn deadline(mut self, time: Duration) -> Self {
        self.deadline = Some(time);
        self
    }

    /// Sets the namespace of cached prefixes.
    pub fn cache_salt(mut self, salt: u64) -> Self {
        self.cache_salt = salt;
        self
    }

    /// Sets the sender.
    pub fn client(mut self, client: Client) -> Self {
        self.client = client;
        self
    }
}

/// The embedding of a text: one vector, or with [`Pooling::None`] one for each token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Embedding {
    /// `[vectors, dimensions]`.
    pub values: Vec<f32>,
    /// Elements of a vector.
    pub dimensions: usize,
    /// Tokens of the text, special ones included.
    pub tokens: usize,
}

impl Embedding {
    pub(crate) fn new(values: Vec<f32>, dimensions: usize, tokens: usize) -> Self {
        Self { values, dimensions, tokens }
    }

    /// Its vectors, one after the other.
    pub fn vectors(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.dimensions.max(1))
    }
}

/// A query, encoded once for all its documents; see
/// [`Model::rerank_query`](crate::Model::rerank_query).
#[derive(Clone, Debug)]
pub struct RerankQuery {
    pub(crate) text: String,
    /// Its tokens, where a pair is not written by a template.
    pub(crate) tokens: Option<Vec<u32>>,
}

/// How documents are scored.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RerankOptions {
    /// Whether scores are logits instead of probabilities.
    pub raw: bool,
    /// The longest time from the call to the last result.
    pub deadline: Option<Duration>,
    /// The namespace of cached prefixes, which only models with causal attention have.
    pub cache_salt: u64,
    /// The sender.
    pub client: Client,
}

impl RerankOptions {
    /// Sets whether scores are logits instead of probabilities.
    pub fn raw(mut self, raw: bool) -> Self {
        self.raw = raw;
        self
    }

    /// Sets the time from the call to the last result.
    pub fn deadline(mut self, time: Duration) -> Self {
        self.deadline = Some(time);
        self
    }

    /// Sets the namespace of cached prefixes.
    pub fn cache_salt(mut self, salt: u64) -> Self {
        self.cache_salt = salt;
        self
    }

    /// Sets the sender.
    pub fn client(mut self, client: Client) -> Self {
        self.client = client;
        self
    }
}

/// The relevance of a document for a query.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Score {
    /// The probability that the document is relevant, or its logit.
    pub score: f32,
    /// Tokens of the query and the document, special ones included.
    pub tokens: usize,
}

impl Score {
    pub(crate) fn new(score: f32, tokens: usize) -> Self {
        Self { score, tokens }
    }
}
