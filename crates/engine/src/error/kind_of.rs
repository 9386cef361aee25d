//! The kind of each error.

use std::io;

use pelton_audio::AudioError;
use pelton_graph::Error as GraphError;
use pelton_tokenizer::Error as TokenizerError;
use pelton_weights::{Error as WeightsError, Problem};

use super::{Error, ErrorKind};

impl Error {
    /// The kind of the error.
    ///
    /// ```
    /// use pelton::{Engine, ErrorKind, LoadOptions};
    ///
    /// let engine = Engine::builder().build()?;
    /// let error = engine.load("no-such-model.gguf", &LoadOptions::default()).err().unwrap();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Weights(error) => of_weights(error),
            Self::Graph(error) => of_graph(error),
            Self::Tokenizer(error) => of_tokenizer(error),
            Self::EffortTable { .. }
            | Self::Draft { .. }
            | Self::PictureMark { .. }
            | Self::TowerAlone { .. }
            | Self::TowerWidth { .. }
            | Self::NoTower { .. }
            | Self::TowerInText { .. } => ErrorKind::InvalidModel,
            Self::Tower(error) => error.kind(),
            Self::NoChatTemplate { .. }
            | Self::NoVision
            | Self::NoVocabulary { .. }
            | Self::Output { .. }
            | Self::Labels { .. }
            | Self::NoGpu => ErrorKind::Unsupported,
            Self::Name(_) => ErrorKind::NotFound,
            Self::Audio(error) => of_audio(error),
            Self::Chat(_)
            | Self::Picture(_)
            | Self::PictureCount { .. }
            | Self::PictureBounds { .. }
            | Self::RopeScaling { .. }
            | Self::Transcription(_)
            | Self::Option { .. }
            | Self::Effort { .. }
            | Self::Context { .. }
            | Self::UnknownToken { .. }
            | Self::EmptyPrompt
            | Self::Sampling(_)
            | Self::RequestOption { .. }
            | Self::OwnThread
            | Self::InUse { .. } => ErrorKind::InvalidInput,
            Self::Constraint(pelton_constraint::Error::Busy) | Self::Busy { .. } => ErrorKind::Busy,
            Self::Constraint(_) => ErrorKind::InvalidInput,
            Self::PictureTokens { .. }
            | Self::PromptTooLong { .. }
            | Self::TooManyBytes { .. }
            | Self::TextTooLong { .. } => ErrorKind::TooLong,
            Self::KvMemory { .. } | Self::CacheFull { .. } => ErrorKind::OutOfMemory,
            Self::Deadline(_) => ErrorKind::TimedOut,
            Self::Cancelled | Self::Stopped => ErrorKind::Cancelled,
            Self::Spawn(_)
            | Self::NotANumber { .. }
            | Self::PromptNotANumber { .. }
            | Self::NotFinite
            | Self::Pass(_)
            | Self::Gone(_) => ErrorKind::Internal,
        }
    }
}

fn of_weights(error: &WeightsError) -> ErrorKind {
    match error.problem() {
        Problem::Read(error) if error.kind() == io::ErrorKind::NotFound => ErrorKind::NotFound,
        Problem::Read(_) | Problem::Write(_) => ErrorKind::Io,
        _ => ErrorKind::InvalidModel,
    }
}

fn of_graph(error: &GraphError) -> ErrorKind {
    match error {
        GraphError::Weights(error) => of_weights(error),
        GraphError::Memory { .. } | GraphError::LoadMemory { .. } => ErrorKind::OutOfMemory,
        GraphError::Device { .. } => ErrorKind::Device,
        GraphError::Architecture { .. }
        | GraphError::Effort(_)
        | GraphError::Op { .. }
        | GraphError::Kv { .. }
        | GraphError::Placement(_)
        | GraphError::Profile => ErrorKind::Unsupported,
        GraphError::UnusedTensor { .. }
        | GraphError::TensorValue { .. }
        | GraphError::Adapter { .. }
        | GraphError::Quant(_)
        | GraphError::Matrix { .. } => ErrorKind::InvalidModel,
        _ => ErrorKind::Internal,
    }
}

fn of_audio(error: &AudioError) -> ErrorKind {
    match error {
        AudioError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            ErrorKind::NotFound
        }
        AudioError::Io { .. } => ErrorKind::Io,
        AudioError::Codec { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::InvalidInput,
    }
}

fn of_tokenizer(error: &TokenizerError) -> ErrorKind {
    match error {
        TokenizerError::Metadata(error) => of_weights(error),
        // the others are of vocabularies
        TokenizerError::Unencodable { .. } | TokenizerError::TextTooLong { .. } => {
            ErrorKind::InvalidInput
        }
        _ => ErrorKind::InvalidModel,
    }
}
