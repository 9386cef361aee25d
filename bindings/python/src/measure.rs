//! The measurement that the overhead of Python is compared with.

use std::time::Instant;

use pelton::{GenerateOptions, Prompt, Sampling};
use pyo3::prelude::*;

use crate::{error::Failure, model::Model};

/// Generates `max_tokens` tokens greedily by the Rust library's own iterator, without Python.
/// Returns the tokens and the seconds. For `benches/overhead.py`.
#[pyfunction]
#[pyo3(name = "_time_in_rust")]
pub(crate) fn time_in_rust(
    py: Python<'_>,
    model: &Model,
    prompt: Vec<u32>,
    max_tokens: usize,
) -> PyResult<(usize, f64)> {
    let model = model.get(py)?;
    let outcome = py.detach(|| -> Result<(usize, f64), Failure> {
        let options = GenerateOptions::default().max_tokens(max_tokens).ignore_eos(true);
        let begun = Instant::now();
        let stream =
            model.generate(Prompt::Tokens(prompt), options.sampling(Sampling::greedy()))?;
        let mut count = 0;
        for token in stream {
            token?;
            count += 1;
        }
        Ok((count, begun.elapsed().as_secs_f64()))
    });
    outcome.map_err(|failure| failure.raise(py))
}
