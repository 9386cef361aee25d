//! Embeddings of texts.

use pelton::{EmbedOptions, Pooling};
use pyo3::{IntoPyObjectExt, prelude::*, types::PyList};

use crate::{arguments::Prompts, array::Array, error::Failure, wait::on_thread};

/// The embeddings: `[texts, dimensions]`, of one text `[dimensions]`. A model that pools nothing
/// gives one array `[tokens, dimensions]` for each text.
pub(crate) fn embed<'py>(
    py: Python<'py>,
    model: &pelton::Model,
    prompts: Prompts,
    options: EmbedOptions,
) -> PyResult<Bound<'py, PyAny>> {
    let (model, is_one) = (model.clone(), prompts.is_one);
    let (pooling, embeddings) = on_thread(py, move |gone| {
        let pooling = model.pooling()?;
        let mut all = vec![None; prompts.list.len()];
        model.embed_each(&prompts.list, &options, |i, embedding| {
            all[i] = Some(embedding);
            gone.flow()
        })?;
        let all: Option<Vec<pelton::Embedding>> = all.into_iter().collect();
        Ok((pooling, all.ok_or(pelton::Error::Cancelled).map_err(Failure::from)?))
    })?;
    if pooling == Pooling::None {
        let arrays = embeddings.into_iter().map(|one| Array::new(one.values, one.dimensions, true));
        let mut arrays: Vec<Array> = arrays.collect();
        return match (is_one, arrays.pop()) {
            (true, Some(array)) => array.into_bound_py_any(py),
            (_, last) => Ok(PyList::new(py, arrays.into_iter().chain(last).map(Some))?.into_any()),
        };
    }
    let width = embeddings.first().map_or(1, |one| one.dimensions);
    let values = embeddings.into_iter().flat_map(|one| one.values).collect();
    Array::new(values, width, !is_one).into_bound_py_any(py)
}
