//! Documents by their relevance for a query.

use pelton::{RerankOptions, Score};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

use crate::wait::on_thread;

/// Which documents are returned, and how.
pub(crate) struct Wanted {
    /// The most relevant ones, at most so many.
    pub(crate) most: usize,
    pub(crate) texts: bool,
    pub(crate) raw: bool,
}

/// The documents as dicts, the most relevant first. Equal scores keep the order of the documents.
pub(crate) fn rerank<'py>(
    py: Python<'py>,
    model: &pelton::Model,
    query: String,
    documents: Vec<String>,
    wanted: &Wanted,
) -> PyResult<Bound<'py, PyList>> {
    let (model, options) = (model.clone(), RerankOptions::default().raw(wanted.raw));
    let (mut scores, documents) = on_thread(py, move |gone| {
        let mut scores: Vec<(usize, Score)> = Vec::with_capacity(documents.len());
        model.rerank_each(&query, &documents, &options, |i, score| {
            scores.push((i, score));
            gone.flow()
        })?;
        Ok((scores, documents))
    })?;
    scores.sort_by(|(i, a), (j, b)| b.score.total_cmp(&a.score).then(i.cmp(j)));
    scores.truncate(wanted.most);
    let result = |(index, score): (usize, Score)| -> PyResult<Bound<'py, PyDict>> {
        let result = PyDict::new(py);
        result.set_item("index", index)?;
        result.set_item("score", score.score)?;
        if wanted.texts {
            result.set_item("document", &documents[index])?;
        }
        Ok(result)
    };
    PyList::new(py, scores.into_iter().map(result).collect::<PyResult<Vec<_>>>()?)
}
