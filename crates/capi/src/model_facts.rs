//! Facts of a model by name.

use std::ffi::c_char;

use pelton::{Model, graph::OutputKind, weights::Value};

use crate::{
    error::pelton_error,
    fault::Fault,
    guard::guard,
    handles,
    memory::{out, text},
    model::{ModelObject, pelton_model},
    status::pelton_status,
    text::{give, pelton_text},
};

/// A fact of a model: its name, and how it is found.
struct Fact<T: 'static> {
    name: &'static str,
    get: fn(&Model) -> Option<T>,
}

const INTEGERS: &[Fact<u64>] = &[
    Fact { name: "context", get: |model| Some(model.context() as u64) },
    Fact { name: "longest_context", get: |model| Some(model.summary().longest_context as u64) },
    Fact { name: "vocabulary", get: |model| Some(model.plan().vocab as u64) },
    Fact { name: "embedding_width", get: |model| Some(embedding_width(model) as u64) },
    Fact { name: "weight_bytes", get: |model| Some(model.summary().weight_bytes) },
    Fact { name: "kv_bytes", get: |model| Some(model.summary().kv_bytes) },
    Fact { name: "tensors", get: |model| Some(model.checkpoint().tensors().len() as u64) },
    Fact { name: "layers", get: |model| Some(model.plan().shape.layers as u64) },
    Fact { name: "bos", get: |model| model.tokenizer().ok()?.bos().map(u64::from) },
    Fact { name: "eos", get: |model| model.tokenizer().ok()?.eos().map(u64::from) },
    Fact { name: "running", get: |model| Some(model.status().running as u64) },
    Fact { name: "queued", get: |model| Some(model.status().queued as u64) },
    Fact { name: "generated_tokens", get: |model| Some(model.status().generated_tokens) },
    Fact { name: "prefix_hit_tokens", get: |model| Some(model.status().prefix_hit_tokens) },
    Fact { name: "prefix_lookup_tokens", get: |model| Some(model.status().prefix_lookup_tokens) },
];

const TEXTS: &[Fact<String>] = &[
    Fact { name: "name", get: |model| Some(model.summary().name) },
    Fact { name: "kind", get: |model| Some(kind(model).to_owned()) },
    Fact { name: "device", get: |model| Some(model.summary().device) },
    Fact { name: "architecture", get: |model| Some(model.plan().shape.architecture.clone()) },
    Fact { name: "summary", get: |model| Some(model.summary().to_string()) },
    Fact {
        name: "chat_template",
        get: |model| model.tokenizer().ok()?.chat_template().map(str::to_owned),
    },
];

/// The names of facts.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let integers = INTEGERS.iter().map(|fact| fact.name);
    integers.chain(TEXTS.iter().map(|fact| fact.name))
}

fn kind(model: &Model) -> &'static str {
    match model.plan().output {
        OutputKind::Logits => "text",
        OutputKind::Embedding => "embedding",
        OutputKind::Scores => "scores",
    }
}

/// The values of an embedding; 0 if the model computes none.
pub(crate) fn embedding_width(model: &Model) -> usize {
    match model.plan().output {
        OutputKind::Embedding => model.plan().output_width(),
        OutputKind::Logits | OutputKind::Scores => 0,
    }
}

/// The fact with a name. A name with a point is a key of the model file.
fn find<T>(
    model: &Model,
    facts: &[Fact<T>],
    name: &str,
    from_file: fn(&Value) -> Option<T>,
) -> Result<T, Fault> {
    let found = match facts.iter().find(|fact| fact.name == name) {
        Some(fact) => (fact.get)(model),
        None if name.contains('.') => model.checkpoint().metadata().get(name).and_then(from_file),
        None => {
            let names: Vec<&str> = facts.iter().map(|fact| fact.name).collect();
            let names = names.join(", ");
            return Err(Fault::invalid(format_args!(
                "there is no fact '{name}', expected one of {names}, or a key of the model file"
            )));
        }
    };
    found.ok_or_else(|| {
        let file = model.checkpoint().name();
        let status = pelton_status::PELTON_UNSUPPORTED;
        Fault::new(status, format_args!("{file}: the model has no '{name}' of that type"))
    })
}

fn integer(value: &Value) -> Option<u64> {
    match *value {
        Value::U8(value) => Some(value.into()),
        Value::U16(value) => Some(value.into()),
        Value::U32(value) => Some(value.into()),
        Value::U64(value) => Some(value),
        Value::I8(value) => value.try_into().ok(),
        Value::I16(value) => value.try_into().ok(),
        Value::I32(value) => value.try_into().ok(),
        Value::I64(value) => value.try_into().ok(),
        Value::Bool(value) => Some(value.into()),
        Value::F32(_) | Value::F64(_) | Value::String(_) | Value::Array(_) => None,
    }
}

/// A value as text; numbers as Rust prints them.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::String(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::F32(value) => Some(value.to_string()),
        Value::F64(value) => Some(value.to_string()),
        Value::I8(value) => Some(value.to_string()),
        Value::I16(value) => Some(value.to_string()),
        Value::I32(value) => Some(value.to_string()),
        Value::I64(value) => Some(value.to_string()),
        Value::Array(_) => None,
        other => integer(other).map(|value| value.to_string()),
    }
}

/// Reads a number of a model by its name, such as `context`, or by its key in the model file, such
/// as `llama.block_count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_model_integer(
    model: *const pelton_model,
    name: *const c_char,
    name_length: usize,
    value: *mut u64,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let model = handles::get(model)?;
            let name = text(name, name_length, "name")?;
            let place = out(value, "value")?;
            place.set(find(model.text()?, INTEGERS, name, integer)?);
            Ok(())
        })
    }
}

/// Reads a text of a model by its name, such as `kind` (`text`, `embedding`, `scores` or `speech`),
/// or any value by its key in the model file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_model_text(
    model: *const pelton_model,
    name: *const c_char,
    name_length: usize,
    value: *mut *mut pelton_text,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let model = handles::get(model)?;
            let name = text(name, name_length, "name")?;
            let place = out(value, "value")?;
            let found = match (&*model, name) {
                (ModelObject::Speech(_), "kind") => "speech".to_owned(),
                (ModelObject::Speech(speech), "name") => speech.name.clone(),
                _ => find(model.text()?, TEXTS, name, shown)?,
            };
            give(place, found);
            Ok(())
        })
    }
}
