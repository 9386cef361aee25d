//! Embeddings and scores of many texts, without a thread that waits for them.

use std::{collections::BTreeMap, sync::Arc};

use pelton::{
    EmbedOptions, Embedding, Error, Prompt, RequestHandle, RerankOptions, RerankQuery, Score,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{blocking::blocking, tokens::Context};
use crate::{error::ApiError, metrics::Outcome, models::Place};

/// The most requests of one HTTP request at the same time: others find a place in the queue.
const AT_ONCE: usize = 64;

/// The handles of requests that are not finished, by their numbers, which are cancelled on drop.
#[derive(Default)]
struct Unfinished(BTreeMap<usize, RequestHandle>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.values().for_each(RequestHandle::cancel);
    }
}

type Sender<T> = UnboundedSender<(usize, Result<T, Error>)>;

/// A callback of a request with a number, which leaves its place.
fn answer<T>(
    i: usize,
    sender: Sender<T>,
    place: Place,
) -> impl FnOnce(Result<T, Error>) + Send + 'static
where
    T: Send + 'static,
{
    move |outcome| {
        drop(place);
        // the client may have gone
        let _ = sender.send((i, outcome));
    }
}

/// Submits the texts of a range until the queue is full; the error is that of the text after those
/// that are submitted.
fn submit_some<T>(
    range: std::ops::Range<usize>,
    submit: &impl Fn(usize, Sender<T>) -> Result<RequestHandle, Error>,
    sender: &Sender<T>,
) -> (Unfinished, Option<Error>) {
    let mut some = Unfinished::default();
    for i in range {
        match submit(i, sender.clone()) {
            Ok(handle) => some.0.insert(i, handle),
            Err(Error::TextTooLong { tokens, limit, what, .. }) => {
                return (some, Some(Error::TextTooLong { text: i, tokens, limit, what }));
            }
            Err(error) => return (some, Some(error)),
        };
    }
    (some, None)
}

/// Submits `count` requests, a bounded number of them at the same time, and collects their results
/// in order; `arrived` sees each at once. Texts are encoded on threads that may block.
async fn collect<T: Send + 'static>(
    count: usize,
    submit: impl Fn(usize, Sender<T>) -> Result<RequestHandle, Error> + Send + Sync + 'static,
    arrived: impl Fn(&T),
) -> Result<Vec<T>, ApiError> {
    let submit = Arc::new(submit);
    let (sender, mut results) = unbounded_channel();
    let mut unfinished = Unfinished::default();
    let mut all: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut next = 0;
    loop {
        // some at a time: a way to another thread and back costs as much as a short text
        if next < count && unfinished.0.len() <= AT_ONCE / 2 {
            let range = next..count.min(next + AT_ONCE - unfinished.0.len());
            let (submit, sender) = (Arc::clone(&submit), sender.clone());
            let (mut some, error) =
                blocking(move || Ok(submit_some(range, &*submit, &sender))).await?;
            next += some.0.len();
            unfinished.0.append(&mut some.0);
            match error {
                // others fill the queue: the next one takes the place of a finished one
                Some(Error::Busy { .. }) if !unfinished.0.is_empty() => {}
                Some(error) => return Err(error.into()),
                None => {}
            }
        }
        if unfinished.0.is_empty() {
            break;
        }
        // a request always calls back, at the latest when it is dropped
        let Some((i, outcome)) = results.recv().await else { break };
        unfinished.0.remove(&i);
        let one = outcome?;
        arrived(&one);
        all[i] = Some(one);
    }
    all.into_iter().map(|one| one.ok_or_else(|| Error::Stopped.into())).collect()
}

fn count(context: &Context, tokens: usize, failed: bool) {
    let outcome = if failed { Outcome::Error } else { Outcome::Stop };
    context.metrics.count(outcome, tokens as u64);
}

/// Refuses the name of an adapter in place of that of the model: adapters change generated texts
/// only.
fn check_adapter(context: &Context) -> Result<(), ApiError> {
    match &context.lease.adapter {
        None => Ok(()),
        Some(name) => {
            let message =
                format!("model is the adapter {name}, expected a model: only texts have adapters");
            Err(ApiError::field("model", message))
        }
    }
}

/// The embeddings of texts.
pub(crate) async fn embed(
    context: &Context,
    texts: Vec<Prompt>,
    mut options: EmbedOptions,
) -> Result<Vec<Embedding>, ApiError> {
    check_adapter(context)?;
    (options.cache_salt, options.deadline) = (context.salt, context.deadline);
    options.client = context.client;
    let (replicas, count_of) = (context.lease.replicas()?.clone(), texts.len());
    let submit = move |i: usize, sender: Sender<Embedding>| {
        replicas.submit(|model, place| {
            model.submit_embedding(&texts[i], &options, answer(i, sender.clone(), place))
        })
    };
    let all = collect(count_of, submit, |one| context.usage.add_prompt(one.tokens)).await;
    let tokens = all.iter().flatten().map(|one| one.tokens).sum();
    count(context, tokens, all.is_err());
    all
}

/// The scores of documents, all for one query or each for its own.
pub(crate) async fn rerank(
    context: &Context,
    queries: Vec<String>,
    documents: Vec<String>,
    mut options: RerankOptions,
) -> Result<Vec<Score>, ApiError> {
    check_adapter(context)?;
    (options.cache_salt, options.deadline) = (context.salt, context.deadline);
    options.client = context.client;
    let (replicas, count_of) = (context.lease.replicas()?.clone(), documents.len());
    let encoder = replicas.first().clone();
    let encode = move || queries.iter().map(|query| Ok(encoder.rerank_query(query)?)).collect();
    let queries: Vec<RerankQuery> = blocking(encode).await?;
    let submit = move |i: usize, sender: Sender<Score>| {
        replicas.submit(|model, place| {
            let query = &queries[i % queries.len()];
            model.submit_rerank(query, &documents[i], &options, answer(i, sender.clone(), place))
        })
    };
    let all = collect(count_of, submit, |one| context.usage.add_prompt(one.tokens)).await;
    let tokens = all.iter().flatten().map(|one| one.tokens).sum();
    count(context, tokens, all.is_err());
    all
}
