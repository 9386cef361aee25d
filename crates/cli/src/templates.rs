//! Chat templates by name, for models whose files have none.

use std::fs;

use anyhow::{Context, Result};

use crate::output::WithHint;

/// The formats by the names that other systems use too. Each is that of the family's published
/// templates for text: tools are explained in a message.
const NAMED: &[(&str, &str)] = &[
    (
        "chatml",
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
         {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    ),
    (
        "llama3",
        "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n\
         {{ m.content | trim }}<|eot_id|>{% endfor %}\
         {% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
    ),
    (
        "gemma",
        "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}\
         {% if m.role == 'system' %}{% set ns.system = m.content ~ '\n\n' %}{% else %}\
         <start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n\
         {{ ns.system }}{{ m.content | trim }}<end_of_turn>\n{% set ns.system = '' %}{% endif %}{% endfor %}\
         {% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
    ),
    (
        "mistral",
        "{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}\
         {% if m.role == 'system' %}{% set ns.system = m.content ~ '\n\n' %}\
         {% elif m.role == 'assistant' %} {{ m.content | trim }}{{ eos_token }}{% else %}\
         [INST] {{ ns.system }}{{ m.content }} [/INST]{% set ns.system = '' %}{% endif %}{% endfor %}",
    ),
    (
        "phi",
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}\
         {% if add_generation_prompt %}<|assistant|>\n{% endif %}",
    ),
];

/// The source of the template with this name, if it has one.
pub(crate) fn named(name: &str) -> Option<&'static str> {
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
}

/// The source of a template: that of a name, of a file, or a template itself.
///
/// # Errors
/// If there is no such name and no such file.
pub(crate) fn source(name: &str) -> Result<String> {
    if let Some(source) = named(name) {
        return Ok(source.to_owned());
    }
    if name.contains("{{") || name.contains("{%") {
        return Ok(name.to_owned());
    }
    let names: Vec<_> = NAMED.iter().map(|(name, _)| *name).collect();
    let read = fs::read_to_string(name).with_context(|| format!("{name} could not be read"));
    read.hint(format!("a template is a Jinja file, or one of {}", names.join(", ")))
}
