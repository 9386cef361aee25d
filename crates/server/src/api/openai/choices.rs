//! Several texts at the same time, whose frames go to one stream.

use std::{future::Future, time::Duration};

use tokio::{task::JoinSet, time::sleep};

use super::usage::Count;
use crate::{
    error::ApiError,
    generate::{self, Batch},
    wire::Broken,
};

/// The pause between two tries to submit texts while others fill the queue.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs texts to their end with `run`, those of `batch` as the queue has room for them. Adds up
/// their tokens. Dropping it cancels them.
pub(in crate::api) async fn run_all<T, F>(
    texts: Vec<T>,
    mut batch: Batch<T>,
    mut run: impl FnMut(T) -> F,
) -> Result<Count, Broken>
where
    T: Send + 'static,
    F: Future<Output = Result<Count, Broken>> + Send + 'static,
{
    let mut tasks: JoinSet<_> = texts.into_iter().map(&mut run).collect();
    let mut sum = Count::default();
    loop {
        match tasks.join_next().await {
            Some(Ok(count)) => sum.add_all(&count?),
            Some(Err(error)) => {
                let message = format!("a text could not be finished: {error}");
                return Err(ApiError::internal(message).into());
            }
            None if batch.is_submitted() => return Ok(sum),
            None => sleep(PAUSE).await,
        }
        if !batch.is_submitted() {
            let some;
            (batch, some) = generate::starting(batch.compiles, move || {
                let some = batch.submit()?;
                Ok((batch, some))
            })
            .await?;
            some.into_iter().for_each(|text| drop(tasks.spawn(run(text))));
        }
    }
}
