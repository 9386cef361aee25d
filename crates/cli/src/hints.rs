//! The next step after an error.

use std::path::Path;

use pelton::{
    Error,
    graph::Error as GraphError,
    weights::{Error as WeightsError, Problem},
};

use crate::{
    names::{BUILT_IN, is_built_in},
    output::Hint,
};

/// An error of a load, with the next step where there is one.
pub(crate) fn of_load(error: impl Into<Error>, file: &str) -> anyhow::Error {
    let error = error.into();
    let hint = match &error {
        Error::Weights(error) | Error::Graph(GraphError::Weights(error)) => of_file(error, file),
        Error::Context { context, .. } => Some(format!("--context {context} is the longest")),
        Error::KvMemory { fits: 0, .. } => {
            Some("--device gpu,cpu runs layers on the CPU, --device cpu all of them".to_owned())
        }
        Error::KvMemory { fits, .. } => {
            Some(format!("--context {fits} fits; --kv q8_0 takes half of the memory"))
        }
        Error::Graph(GraphError::LoadMemory { device, .. }) if device != "cpu" => Some(format!(
            "--device gpu,cpu runs layers on the CPU; `pelton inspect {file} --placement` shows which"
        )),
        Error::Graph(_) | Error::Tokenizer(_) if !is_built_in(file) => {
            Some(format!("`pelton inspect {file}` shows what can be read of it"))
        }
        _ => None,
    };
    with_hint(error, hint)
}

/// The next step after an error of a model's files. Most of them name it themselves.
fn of_file(error: &WeightsError, file: &str) -> Option<String> {
    match error.problem() {
        Problem::Read(_) if !Path::new(file).exists() || Path::new(file).is_dir() => {
            Some(what_a_model_is())
        }
        Problem::AdapterFolder => {
            Some(format!("`--lora {file}` adds it to the model of adapter_config.json"))
        }
        _ => None,
    }
}

/// The names that a model can have on this machine.
pub(crate) fn what_a_model_is() -> String {
    format!(
        "a model is the path of a .gguf file or of a folder with config.json and .safetensors files, a \
         name such as qwen3:0.6b or OWNER/NAME, or the word {BUILT_IN}"
    )
}

/// An error of a request, with the next step where there is one.
pub(crate) fn of_request(error: Error) -> anyhow::Error {
    let hint = match &error {
        Error::PromptTooLong { .. } | Error::TooManyBytes { .. } => {
            Some("--context N makes room if the model has it")
        }
        Error::NoVocabulary { .. } => Some(
            "download tokenizer.json into the folder; transformers writes it from tokenizer.model with \
             AutoTokenizer.from_pretrained(F).save_pretrained(F)",
        ),
        Error::Output { .. } => {
            Some("`pelton embed` computes embeddings, `pelton rerank` scores of documents")
        }
        _ => None,
    };
    with_hint(error, hint.map(str::to_owned))
}

fn with_hint(error: Error, hint: Option<String>) -> anyhow::Error {
    match hint {
        Some(hint) => Hint { error: error.into(), hint }.into(),
        None => error.into(),
    }
}
