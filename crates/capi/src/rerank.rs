//! Relevance of documents.

use std::ffi::c_char;

use pelton::RerankOptions;

use crate::{
    embed::{pelton_string, texts_of},
    error::pelton_error,
    guard::guard,
    handles,
    memory::{buffer, text},
    model::pelton_model,
    options::{self, pelton_options},
    settings::{Setting, flag, seconds, setting, whole},
    status::pelton_status,
};

pub(crate) const SETTINGS: &[Setting<RerankOptions>] = &[
    setting!("raw", flag, |options, raw| options.raw = raw),
    setting!("deadline", seconds, |options, time| options.deadline = Some(time)),
    setting!("cache_salt", whole, |options, salt| options.cache_salt = salt),
];

/// Scores documents by their relevance for a query, in the order of the documents: probabilities,
/// or with the option `raw` logits. The documents run at the same time, and with those of other
/// calls. Only the count is written if `scores` is NULL and `capacity` 0. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_rerank(
    model: *const pelton_model,
    query: *const c_char,
    query_length: usize,
    documents: *const pelton_string,
    document_count: usize,
    options: *const pelton_options,
    scores: *mut f32,
    capacity: usize,
    score_count: *mut usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let model = handles::get(model)?;
            let query = text(query, query_length, "query")?;
            let documents = texts_of(documents, document_count, "documents")?;
            let scores = buffer(scores, capacity, score_count, "scores")?;
            let options = options::read(options, SETTINGS)?;
            let model = model.text()?;
            if scores.is_query() {
                scores.answer(documents.len());
                return Ok(());
            }
            let all = model.rerank(query, &documents, &options)?;
            let all: Vec<f32> = all.iter().map(|score| score.score).collect();
            scores.fill(&all)
        })
    }
}
