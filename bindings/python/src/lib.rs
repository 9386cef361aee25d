//! The extension module `pelton._pelton` of the Python package `pelton`.
//!
//! It is a thin front of the crate `pelton`: keyword arguments become options, events become
//! Python objects. No call holds the GIL while it waits, and each wait looks for signals twenty
//! times a second (`wait.rs`). The thread that runs a model never takes the GIL: it fills an
//! [`inbox`], and wakes event loops by a file that they watch (`bell.rs`). An awaitable call runs
//! on a thread of its own (`call.rs`). All classes are frozen; what changes has a lock of its own,
//! under which no Python code runs.
//!
//! After `fork` a model belongs to the process that loaded it: `process.rs` refuses its use in a
//! child.

mod arguments;
mod array;
mod bell;
mod call;
mod chat;
mod completion;
mod dlpack;
mod embed;
mod error;
mod inbox;
mod json;
mod live;
mod load;
mod load_options;
mod measure;
mod model;
mod options;
mod process;
mod request;
mod rerank;
mod samples;
mod score;
mod speech;
mod stream;
mod token;
mod tokenizer;
mod transcript;
mod wait;

use pyo3::prelude::*;

#[pymodule]
#[pyo3(name = "_pelton")]
fn define(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("LOAD_OPTIONS", load_options::names(module.py())?)?;
    module.add("SAMPLING_OPTIONS", options::sampling_names(module.py())?)?;
    module.add_class::<array::Array>()?;
    module.add_class::<bell::Bell>()?;
    module.add_class::<call::Call>()?;
    module.add_class::<chat::ChatStream>()?;
    module.add_class::<completion::Completion>()?;
    module.add_class::<completion::Usage>()?;
    module.add_class::<live::LiveTranscript>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<transcript::Segment>()?;
    module.add_class::<speech::SpeechModel>()?;
    module.add_class::<transcript::Transcript>()?;
    module.add_class::<transcript::Word>()?;
    module.add_class::<stream::TokenStream>()?;
    module.add_class::<token::Token>()?;
    module.add_class::<tokenizer::Tokenizer>()?;
    module.add_function(wrap_pyfunction!(load::load, module)?)?;
    module.add_function(wrap_pyfunction!(speech::load_speech, module)?)?;
    module.add_function(wrap_pyfunction!(measure::time_in_rust, module)?)
}
