//! Embeddings and scores of many texts, without a thread that waits for them.

use pelton::{EmbedOptions, Embedding, Error, Prompt, RequestHandle, RerankOptions, Score};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::tokens::Context;
use crate::{error::ApiError, metrics::Outcome};

/// Requests of one HTTP request at the same time, at most: others find a place in the queue.
const AT_ONCE: usize = 64;

/// The handles of requests that are not finished, which are cancelled on drop.
struct Unfinished(Vec<Option<RequestHandle>>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.iter().flatten().for_each(RequestHandle::cancel);
    }
}

type Sender<T> = UnboundedSender<(usize, Result<T, Error>)>;

/// Submits `count` requests, a bounded number of them at the same time, and collects their results
/// in order.
async fn collect<T: Send + 'static>(
    count: usize,
    submit: impl Fn(usize, Sender<T>) -> Result<RequestHandle, Error>,
) -> Result<Vec<T>, ApiError> {
    let (sender, mut results) = unbounded_channel();
    let mut unfinished = Unfinished((0..count).map(|_| None).collect());
    let mut all: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let (mut next, mut running) = (0, 0);
    loop {
        while next < count && running < AT_ONCE {
            match submit(next, sender.clone()) {
                Ok(handle) => unfinished.0[next] = Some(handle),
                // others fill the queue: the next one takes the place of a finished one
                Err(Error::Busy { .. }) if running > 0 => break,
                Err(Error::TextTooLong { tokens, limit, what, .. }) => {
                    return Err(Error::TextTooLong { text: next, tokens, limit, what }.into());
                }
                Err(error) => return Err(error.into()),
            }
            (next, running) = (next + 1, running + 1);
        }
        if running == 0 {
            break;
        }
        // a request always calls back, at the latest when it is dropped
        let Some((i, outcome)) = results.recv().await else { break };
        (running, unfinished.0[i]) = (running - 1, None);
        all[i] = Some(outcome?);
    }
    all.into_iter().map(|one| one.ok_or_else(|| Error::Stopped.into())).collect()
}

fn count(context: &Context, tokens: usize, failed: bool) {
    context.usage.add_prompt(tokens);
    let outcome = if failed { Outcome::Error } else { Outcome::Stop };
    context.metrics.count(outcome, tokens as u64);
}

/// The embeddings of texts.
pub(crate) async fn embed(
    context: &Context,
    texts: Vec<Prompt>,
    mut options: EmbedOptions,
) -> Result<Vec<Embedding>, ApiError> {
    (options.cache_salt, options.deadline) = (context.salt, context.deadline);
    options.client = context.client;
    let model = context.lease.model()?;
    let submit = |i: usize, sender: Sender<Embedding>| {
        model.submit_embedding(&texts[i], &options, move |outcome| {
            // the client may have gone
            let _ = sender.send((i, outcome));
        })
    };
    let all = collect(texts.len(), submit).await;
    let tokens = all.iter().flatten().map(|one| one.tokens).sum();
    count(context, tokens, all.is_err());
    all
}

/// The scores of documents for a query.
pub(crate) async fn rerank(
    context: &Context,
    query: &str,
    documents: &[String],
    mut options: RerankOptions,
) -> Result<Vec<Score>, ApiError> {
    (options.cache_salt, options.deadline) = (context.salt, context.deadline);
    options.client = context.client;
    let model = context.lease.model()?;
    let submit = |i: usize, sender: Sender<Score>| {
        model.submit_rerank(query, &documents[i], &options, move |outcome| {
            // the client may have gone
            let _ = sender.send((i, outcome));
        })
    };
    let all = collect(documents.len(), submit).await;
    let tokens = all.iter().flatten().map(|one| one.tokens).sum();
    count(context, tokens, all.is_err());
    all
}
