//! Work that blocks, on a thread of its own.

use crate::error::ApiError;

/// Runs work that may take longer than a moment, such as encoding a long prompt.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(ApiError::internal(format!("the request could not be run: {error}"))),
    }
}
