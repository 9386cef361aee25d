//! Chat templates.

use std::path::Path;

use serde_json::Value as Json;

use crate::hf::json::{CONFIG_BYTES, Object, read, shown};
use crate::hf::keys::{Out, array};
use crate::{Error, Problem, ValueType};

/// Sets `tokenizer.chat_template` and the named templates next to it. As in transformers, the
/// template of a file of its own replaces that of `tokenizer_config.json`.
pub(super) fn set(folder: &Path, settings: Option<&Object>, out: &mut Out) -> Result<(), Error> {
    let mut templates: Vec<(String, String)> = Vec::new();
    let own = folder.join("chat_template.jinja");
    if own.is_file() {
        templates.push(("default".to_owned(), text(&own)?));
        templates.extend(additional(&folder.join("additional_chat_templates"))?);
    } else if let Some(settings) = settings
        && let Some(value) = settings.get("chat_template")
    {
        templates = listed(value).ok_or_else(|| {
            let expected = "a template or a list of named templates";
            settings.invalid("chat_template", shown(value), expected)
        })?;
    }
    let mut names = Vec::new();
    for (name, template) in templates {
        if name == "default" {
            out.set("tokenizer.chat_template", template);
        } else {
            out.set(&format!("tokenizer.chat_template.{name}"), template);
            names.push(name);
        }
    }
    if !names.is_empty() {
        out.set("tokenizer.chat_templates", array(ValueType::String, names));
    }
    Ok(())
}

/// A template, or a list of objects with `name` and `template`.
fn listed(value: &Json) -> Option<Vec<(String, String)>> {
    if let Some(text) = value.as_str() {
        return Some(vec![("default".to_owned(), text.to_owned())]);
    }
    let entry = |entry: &Json| {
        let text = |key: &str| entry.get(key)?.as_str().map(str::to_owned);
        Some((text("name")?, text("template")?))
    };
    value.as_array()?.iter().map(entry).collect()
}

/// The templates of a folder, named by their files.
fn additional(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    const MOST: usize = 100;
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).take(MOST).collect();
    paths.sort();
    let mut templates = Vec::new();
    for path in paths {
        let name = path.file_stem().and_then(|name| name.to_str());
        if let (Some(name), Some("jinja")) = (name, path.extension().and_then(|e| e.to_str())) {
            templates.push((name.to_owned(), text(&path)?));
        }
    }
    Ok(templates)
}

fn text(path: &Path) -> Result<String, Error> {
    let fault = "text that is not UTF-8".to_owned();
    String::from_utf8(read(path, CONFIG_BYTES)?)
        .map_err(|_| Error::at(path, Problem::Json { fault }))
}
