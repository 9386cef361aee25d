//! The reasons why a model is not loaded, or a request not answered.

mod kind;
mod kind_of;
mod report;

use std::{io, path::PathBuf, time::Duration};

pub use kind::ErrorKind;
pub use report::Report;

/// Why a model could not be loaded, or a request not be answered.
///
/// The message names the thing (file, tensor, key or option), what was found and what was expected.
/// [`kind`](Self::kind) is for programs, and `source` the error of the system where there is one.
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

    /// A chat cannot be rendered: its messages are not valid, or the template refuses them or
    /// fails.
    #[error(transparent)]
    Chat(#[from] pelton_chat::Error),

    /// Audio cannot be read or decoded.
    #[error(transparent)]
    Audio(#[from] pelton_audio::AudioError),

    /// An option of a transcription is out of its range, or the model cannot do what it asks for.
    #[error("{0}")]
    Transcription(String),

    /// A name of a model that no file has, and that the hub does not find or download. Without the
    /// feature `hub` no name is known.
    #[error("{0}")]
    Name(String),

    /// A chat was given to a model whose file has no chat template.
    #[error("{file}: the file has no chat template, expected one or a template of the caller")]
    NoChatTemplate {
        /// The file.
        file: String,
    },

    /// A prompt has pictures, but the model has no encoder of pictures.
    #[error("{}", crate::chat::NO_VISION)]
    NoVision,

    /// A picture cannot be decoded or prepared.
    #[error(transparent)]
    Picture(#[from] pelton_image::ImageError),

    /// A picture becomes more rows than the model is loaded for.
    #[error(
        "{name} becomes {tokens} tokens, expected at most {most}: choose a smaller picture, or load the \
         model with a greater picture_tokens"
    )]
    PictureTokens {
        /// The picture.
        name: String,
        /// Its rows.
        tokens: usize,
        /// The most rows.
        most: usize,
    },

    /// The context cannot be extended in this way.
    #[error("rope_scaling {scaling} cannot be: {fault}")]
    RopeScaling {
        /// The way.
        scaling: &'static str,
        /// The reason.
        fault: &'static str,
    },

    /// A picture should have more rows at least than it may have.
    #[error(
        "picture_tokens_min is {least}, expected at most {most}, the tokens that a picture may become"
    )]
    PictureBounds {
        /// The fewest rows.
        least: usize,
        /// The most rows.
        most: usize,
    },

    /// A prompt names a picture that it does not have.
    #[error("the prompt has {found} pictures, expected at least {expected}")]
    PictureCount {
        /// Its pictures.
        found: usize,
        /// The pictures that its text names.
        expected: usize,
    },

    /// The vocabulary does not have the token where pictures are put.
    #[error(
        "the vocabulary has no control token {mark:?}, expected it where a prompt has a picture"
    )]
    PictureMark {
        /// The token's text.
        mark: &'static str,
    },

    /// A vision tower is of another model.
    #[error(
        "{tower}: its embeddings have {found} elements, expected {expected}, the width of the model"
    )]
    TowerWidth {
        /// The tower's file.
        tower: String,
        /// Elements of its embeddings.
        found: usize,
        /// The width of the model.
        expected: usize,
    },

    /// A file that was to have a model is a vision tower alone.
    #[error(
        "{}: the file is a vision tower, expected the model that it belongs to; --mmproj takes a tower", .file.display()
    )]
    TowerAlone {
        /// The file.
        file: PathBuf,
    },

    /// A file that was to have a vision tower has none.
    #[error("{}: the file has no vision tower, expected an mmproj file", .file.display())]
    NoTower {
        /// The file.
        file: PathBuf,
    },

    /// The vision tower of a directory cannot be read.
    #[error(
        "the vision tower cannot be read, expected a sound one or the option pictures off: {0}"
    )]
    Tower(Box<Self>),

    /// A GGUF file has its vision tower among the tensors of the text.
    #[error(
        "{file}: the vision tower is in the file of the text, as Ollama writes it, expected it in an mmproj \
         file or the option pictures off"
    )]
    TowerInText {
        /// The file.
        file: String,
    },

    /// A load option is out of its range.
    #[error("load option '{option}' is {found}, expected {expected}")]
    Option {
        /// The field of [`LoadOptions`](crate::LoadOptions).
        option: &'static str,
        /// Its value.
        found: String,
        /// The values that it can have.
        expected: String,
    },

    /// The effort of a request is out of its range, or the model was not loaded for it.
    #[error("effort is {found}, expected {expected}")]
    Effort {
        /// The effort.
        found: f64,
        /// The values that it can have.
        expected: &'static str,
    },

    /// A file of a calibration of effort is not as it must be, or is of another model.
    #[error("{}: {what}", .file.display())]
    EffortTable {
        /// The file.
        file: PathBuf,
        /// The value found, and the expected one.
        what: String,
    },

    /// A draft model cannot draft for the model.
    #[error("the draft model {} {found}, expected {expected}", .file.display())]
    Draft {
        /// The draft model's file.
        file: PathBuf,
        /// The property found.
        found: String,
        /// The expected property.
        expected: String,
    },

    /// The context is longer than the model's.
    #[error("load option 'context' is {asked}, expected 1 to the model's {context}")]
    Context {
        /// Positions in the options.
        asked: usize,
        /// Positions that the model was made for.
        context: usize,
    },

    /// The memory cannot hold the keys and values of one sequence of the full context.
    #[error(
        "keys and values of a context of {context} positions need {needed} bytes \
         ({per_position} per position), expected at most {available}, which hold {fits} positions"
    )]
    KvMemory {
        /// Positions in the options.
        context: usize,
        /// Bytes that they need.
        needed: u64,
        /// Bytes of one position in all layers.
        per_position: u64,
        /// Bytes that there are for keys and values.
        available: u64,
        /// The longest context that fits.
        fits: usize,
    },

    /// The thread that runs the model could not be started.
    #[error("the thread that runs the model could not be started: {0}")]
    Spawn(#[source] io::Error),

    /// Text was given to a model whose file has no vocabulary.
    #[error("{}: {found}, expected a vocabulary, or a prompt of token ids", .file.display())]
    NoVocabulary {
        /// The file or directory.
        file: PathBuf,
        /// The finding in place of a vocabulary.
        found: &'static str,
    },

    /// A token of the request is not in the vocabulary.
    #[error("token {token} of the request is not in the vocabulary of {vocab}")]
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
        /// Tokens of the prompt, the positions that it needs.
        tokens: usize,
        /// Positions that the model was loaded with.
        context: usize,
    },

    /// A text has more bytes than tokens that fill the context can have, so it is not encoded.
    #[error(
        "a text of {bytes} bytes has at least {least} tokens, expected fewer than the context's {context}"
    )]
    TooManyBytes {
        /// Bytes of the text.
        bytes: usize,
        /// The least number of tokens that it can have.
        least: usize,
        /// Positions that the model was loaded with.
        context: usize,
    },

    /// A text whose values are wanted is too long to be run as a whole: nothing is truncated.
    #[error("text {text} has {tokens} tokens, expected at most {limit}, {what}")]
    TextTooLong {
        /// The number of the text in the call, from 0.
        text: usize,
        /// Its tokens.
        tokens: usize,
        /// Tokens that it can have.
        limit: usize,
        /// The limit's source: the context, or the rows of a pass.
        what: &'static str,
    },

    /// A request asks for results that the model does not compute.
    #[error("{file}: the model computes {found}, expected one that computes {expected}")]
    Output {
        /// The file.
        file: String,
        /// The model's results.
        found: &'static str,
        /// The results that the request needs.
        expected: &'static str,
    },

    /// A classifier's labels are not those of a reranker.
    #[error(
        "{file}: the classifier has {found} labels, expected 1, or 2 that '{key}' names yes and no"
    )]
    Labels {
        /// The file.
        file: String,
        /// Labels.
        found: usize,
        /// The key of their names.
        key: String,
    },

    /// A value of a request is out of its range.
    #[error("{0}")]
    Sampling(String),

    /// A constraint does not compile, or cannot be followed.
    #[error(transparent)]
    Constraint(#[from] pelton_constraint::Error),

    /// An option of a request is out of its range.
    #[error("{option} is {found}, expected {expected}")]
    RequestOption {
        /// The option.
        option: &'static str,
        /// Its value.
        found: String,
        /// The values that it can have.
        expected: String,
    },

    /// The queue is full.
    #[error("the queue is full: {found} {what}, expected at most {limit}")]
    Busy {
        /// `requests` or `prompt tokens`.
        what: &'static str,
        /// How many there would be with the request.
        found: usize,
        /// How many the load options allow.
        limit: usize,
    },

    /// The request was not finished before its deadline.
    #[error("the request was not finished within its deadline of {0:?}")]
    Deadline(Duration),

    /// Every logit was NaN: the weights are broken, or an activation overflowed.
    #[error("the model's output is not a number at token {index} of the text")]
    NotANumber {
        /// Tokens that were generated before.
        index: usize,
    },

    /// Every logit after a token of the prompt was NaN.
    #[error("the model's output is not a number at token {index} of the prompt")]
    PromptNotANumber {
        /// Tokens of the prompt before.
        index: usize,
    },

    /// A value of an embedding or a score is infinite or not a number: the weights are broken, or
    /// an activation overflowed.
    #[error("the model's output is not finite")]
    NotFinite,

    /// The request was cancelled.
    #[error("the request was cancelled")]
    Cancelled,

    /// There are too few pages.
    #[error("{needed} positions of keys and values are needed, expected at most {available}")]
    CacheFull {
        /// Positions that are needed.
        needed: usize,
        /// Positions that there are.
        available: usize,
    },

    /// A pass that ran the request failed. Later requests may succeed.
    #[error("the model could not be run: {0}")]
    Pass(String),

    /// A model that is to become a session has other handles.
    #[error(
        "the model has {others} other handles or streams, expected none: drop them before it becomes \
         a session"
    )]
    InUse {
        /// Clones of the model and streams of its requests.
        others: usize,
    },

    /// A callback waited for the model, which waits for its return.
    #[error("the thread that runs the model cannot wait for it, expected a call from another")]
    OwnThread,

    /// A GPU was chosen in a build without that feature.
    #[error("this build of pelton has no GPU support, expected one with the feature 'gpu'")]
    NoGpu,

    /// Passes failed again and again: the model answers no more.
    #[error("the model is gone: {0}")]
    Gone(String),

    /// The model was unloaded before the request was finished.
    #[error("the model was unloaded")]
    Stopped,
}
