//! The vocabulary of a model.

use pelton::Special;
use pyo3::prelude::*;

use crate::{
    arguments::{get, numbers},
    error::Failure,
    process::Owned,
};

/// The tokenizer of a model.
#[pyclass(frozen, module = "pelton")]
pub(crate) struct Tokenizer {
    model: Owned<pelton::Model>,
}

impl Tokenizer {
    pub(crate) fn new(model: &pelton::Model) -> Result<Self, Failure> {
        model.tokenizer()?;
        Ok(Self { model: Owned::new(model.clone()) })
    }

    fn get(&self, py: Python<'_>) -> PyResult<&pelton::Tokenizer> {
        let model = self.model.get().map_err(|failure| failure.raise(py))?;
        model.tokenizer().map_err(|error| Failure::from(error).raise(py))
    }
}

#[pymethods]
impl Tokenizer {
    /// The ids of a text, in which special tokens count as such. `add_special` adds the tokens that
    /// the model's file puts before and after a text.
    #[pyo3(signature = (text, *, add_special = true))]
    fn encode(&self, text: &Bound<'_, PyAny>, add_special: bool) -> PyResult<Vec<u32>> {
        let py = text.py();
        let text: String = get("text", text, "a text")?;
        let tokenizer = self.get(py)?;
        let ids = py.detach(|| match add_special {
            true => tokenizer.encode_prompt(&text),
            false => tokenizer.encode(&text, Special::Parse),
        });
        ids.map_err(|error| Failure::from(pelton::Error::from(error)).raise(py))
    }

    /// The text of ids; `special` writes control tokens out.
    #[pyo3(signature = (ids, *, special = false))]
    fn decode(&self, py: Python<'_>, ids: &Bound<'_, PyAny>, special: bool) -> PyResult<String> {
        let ids: Vec<u32> = numbers("ids", ids, "a list of token ids")?;
        let tokenizer = self.get(py)?;
        Ok(py.detach(|| tokenizer.decode(&ids, special)))
    }

    /// The bytes of a token; None if there is none of this id.
    fn token_bytes(&self, py: Python<'_>, id: u32) -> PyResult<Option<Vec<u8>>> {
        Ok(self.get(py)?.token_bytes(id).map(<[u8]>::to_vec))
    }

    /// The token that begins a text, if there is one.
    #[getter]
    fn bos_id(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        Ok(self.get(py)?.bos())
    }

    /// The token that ends a text, if there is one.
    #[getter]
    fn eos_id(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        Ok(self.get(py)?.eos())
    }

    /// All tokens that end a text.
    #[getter]
    fn end_ids(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        Ok(self.get(py)?.ends().to_vec())
    }

    /// The source of the chat template in Jinja, if the file has one.
    #[getter]
    fn chat_template(&self, py: Python<'_>) -> PyResult<Option<&str>> {
        Ok(self.get(py)?.chat_template())
    }

    /// Tokens of the vocabulary.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.vocab_size())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Tokenizer(tokens={})", self.get(py)?.vocab_size()))
    }
}
