//! Vectors of numbers in responses, written without a JSON value for each number.

use axum::{
    Json as Answer,
    response::{IntoResponse, Response},
};
use pelton::Embedding;
use serde::{Serialize, Serializer};

use crate::{error::ApiError, generate};

/// Vectors of one width, as a list of lists or as the list of the only one.
pub(super) struct Vectors {
    pub(super) values: Vec<f32>,
    /// The elements of each; `None` for a single vector.
    pub(super) width: Option<usize>,
}

impl Vectors {
    /// All vectors of an embedding, as a list of lists.
    pub(super) fn all(embedding: Embedding) -> Self {
        Self { width: Some(embedding.dimensions.max(1)), values: embedding.values }
    }

    /// The vector of an embedding, or the list of its vectors where each token has one.
    pub(super) fn of(embedding: Embedding) -> Self {
        match embedding.values.len() > embedding.dimensions {
            true => Self::all(embedding),
            false => Self { values: embedding.values, width: None },
        }
    }
}

impl Serialize for Vectors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.width {
            Some(width) => serializer.collect_seq(self.values.chunks_exact(width).map(Numbers)),
            None => Numbers(&self.values).serialize(serializer),
        }
    }
}

struct Numbers<'a>(&'a [f32]);

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // the digits are those of JSON values, which have no 32-bit floats
        serializer.collect_seq(self.0.iter().map(|&value| f64::from(value)))
    }
}

/// The response of a large value, which is written on a thread that may block.
pub(super) async fn large<T: Serialize + Send + 'static>(value: T) -> Result<Response, ApiError> {
    generate::blocking(move || Ok(Answer(value).into_response())).await
}
