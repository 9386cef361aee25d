//! Qwen3-Reranker: a language model whose answer is the choice between "yes" and "no".
//!
//! Its files are those of a language model. Only the repository's name and the first line of its
//! README tell, which is also what llama.cpp's converter goes by.

use std::collections::HashMap;
use std::path::Path;

use bytes::BytesMut;

use super::config::Config;
use super::family::Family;
use super::json::{CONFIG_BYTES, read};
use super::keys::{Out, array};
use super::stored::Source;
use super::tokenizer;
use crate::gguf::TensorEntry;
use crate::{Error, Problem, ValueType};

/// The prompt of the model's card, with the places of query and document.
const TEMPLATE: &str = concat!(
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and ",
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n",
    "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that ",
    "answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n",
    "<|im_start|>assistant\n<think>\n\n</think>\n\n"
);

/// Whether a folder has a Qwen3-Reranker.
pub(super) fn is_reranker(folder: &Path, family: &Family, config: &Config) -> Result<bool, Error> {
    if family.architecture != "qwen3" || !config.class.ends_with("ForCausalLM") {
        return Ok(false);
    }
    let named = |name: &str| name.to_lowercase().contains("qwen3-reranker");
    let stated = config.all.text(&["_name_or_path"])?.is_some_and(named);
    if stated || folder.to_str().is_some_and(named) {
        return Ok(true);
    }
    let readme = folder.join("README.md");
    if !readme.is_file() {
        return Ok(false);
    }
    let text = read(&readme, CONFIG_BYTES)?;
    Ok(String::from_utf8_lossy(&text).to_lowercase().contains("# qwen3-reranker"))
}

/// The head `cls.output.weight` of the output layer's rows for "yes" and "no", and its keys. The
/// output layer itself is removed.
pub(super) fn head(
    folder: &Path,
    config: &mut Config,
    sources: &mut HashMap<String, Source>,
    out: &mut Out,
) -> Result<TensorEntry, Error> {
    let rejected = |problem| Error::at(folder, problem);
    let Some(ids) = tokenizer::ids(folder, ["yes", "no"])? else {
        return Err(Error::at(
            &folder.join("tokenizer.json"),
            Problem::ConfigMissing { key: "vocab".to_owned(), expected: "the tokens yes and no" },
        ));
    };
    let has_output = sources.contains_key("lm_head.weight");
    let name = match config.tied && !has_output {
        true => "model.embed_tokens.weight",
        false => "lm_head.weight",
    };
    let Some(source) = sources.get(name) else {
        let expected = vec![config.hidden, 2];
        return Err(rejected(Problem::MissingTensor { tensor: name.to_owned(), expected }));
    };
    let fault =
        |fault: String| rejected(Problem::SafetensorsTensor { tensor: name.to_owned(), fault });
    let (Some(dtype), &[rows, columns]) = (source.stored.dtype(), source.shape.as_slice()) else {
        return Err(fault("is no matrix of F32, F16 or BF16".to_owned()));
    };
    let mut bytes = BytesMut::new();
    for id in ids {
        let row = usize::try_from(id).ok().filter(|id| *id < rows);
        let row = row.ok_or_else(|| fault(format!("has {rows} rows, expected one for {id}")))?;
        let size = columns * dtype.block_bytes();
        bytes.extend_from_slice(&source.bytes[row * size..(row + 1) * size]);
    }
    let shape = [columns, 2];
    let entry = TensorEntry::new("cls.output.weight".to_owned(), dtype, &shape, bytes.freeze())
        .ok_or_else(|| fault("has no elements".to_owned()))?;
    sources.remove("lm_head.weight");
    config.tied = true;
    out.set("qwen3.pooling_type", 4u32);
    out.set("qwen3.classifier.output_labels", array(ValueType::String, ["yes", "no"]));
    out.set("tokenizer.chat_template.rerank", TEMPLATE);
    out.set("tokenizer.chat_templates", array(ValueType::String, ["rerank"]));
    Ok(entry)
}
