//! Several texts at the same time, whose frames go to one stream.

use std::future::Future;

use tokio::task::JoinSet;

use super::usage::Count;
use crate::{error::ApiError, wire::Broken};

/// Runs all texts to their end, and adds up their tokens. Dropping it cancels them.
pub(super) async fn run_all<F>(texts: impl IntoIterator<Item = F>) -> Result<Count, Broken>
where
    F: Future<Output = Result<Count, Broken>> + Send + 'static,
{
    let mut tasks: JoinSet<_> = texts.into_iter().collect();
    let mut sum = Count::default();
    while let Some(outcome) = tasks.join_next().await {
        match outcome {
            Ok(count) => sum.add_all(&count?),
            Err(error) => {
                let message = format!("a text could not be finished: {error}");
                return Err(ApiError::internal(message).into());
            }
        }
    }
    Ok(sum)
}
