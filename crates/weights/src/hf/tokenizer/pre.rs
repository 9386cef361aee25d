//! Names of pre-tokenizers, `tokenizer.ggml.pre`, by the steps in `tokenizer.json`.
//!
//! llama.cpp's converter identifies them by a hash of the ids of a text; the steps are the same
//! information without a list of vocabularies. The patterns are facts of the published files.

use serde_json::Value;

use super::contents::{kind, steps};
use crate::patterns::{CL100K, CL100K_DIGIT, DEEPSEEK_V3, GPT2, O200K, QWEN35, TEKKEN};

/// The end of every pattern of words.
const SPACES: &str = r"|\s+(?!\S)|\s+";

const BAILING: &str =
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]";

/// Han, Hiragana and Katakana.
const CJK: &str = "[一-龥\u{3040}-ゟ゠-ヿ]+";

/// A step of a pre-tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'a> {
    /// A pattern that ends with [`SPACES`], without that end.
    Words(&'a str),
    /// Another pattern.
    Isolate(&'a str),
    /// Digits, one by one or in runs.
    Digits { single: bool },
    /// Runs of punctuation.
    Punctuation,
}

/// A pre-tokenizer that has a name.
#[derive(Clone, Copy, Debug)]
pub(in crate::hf) struct Known {
    name: &'static str,
    steps: &'static [Step<'static>],
    /// Whether words are looked up before merging, where it matters.
    whole: Option<bool>,
    /// Whether the originals of GGUF files with this name compose characters (NFC).
    pub(in crate::hf) composes: bool,
}

const fn row(
    name: &'static str,
    steps: &'static [Step<'static>],
    whole: Option<bool>,
    composes: bool,
) -> Known {
    Known { name, steps, whole, composes }
}

const TABLE: &[Known] = &[
    row("gpt-2", &[Step::Words(GPT2)], None, false),
    row("llama-bpe", &[Step::Words(CL100K)], Some(true), false),
    row("dbrx", &[Step::Words(CL100K)], Some(false), false),
    row("qwen2", &[Step::Words(CL100K_DIGIT)], None, true),
    row("qwen35", &[Step::Words(QWEN35)], None, true),
    row("bailingmoe", &[Step::Words(BAILING)], None, false),
    row("granite-embed-multi-97m", &[Step::Words(O200K)], Some(true), false),
    row("gpt-4o", &[Step::Words(O200K)], Some(false), false),
    row("tekken", &[Step::Words(TEKKEN)], None, false),
    row("starcoder", &[Step::Digits { single: true }, Step::Words(GPT2)], None, false),
    row(
        "falcon",
        &[
            Step::Punctuation,
            Step::Words(GPT2),
            Step::Digits { single: false },
            Step::Isolate("[0-9][0-9][0-9]"),
        ],
        None,
        false,
    ),
    row(
        "deepseek-v3",
        &[Step::Isolate(r"\p{N}{1,3}"), Step::Isolate(CJK), Step::Words(DEEPSEEK_V3)],
        None,
        false,
    ),
];

/// The byte-level pre-tokenizer with these steps.
pub(in crate::hf) fn known(pre_tokenizer: &Value, whole: bool) -> Option<&'static Known> {
    let found: Vec<Step<'_>> = steps(pre_tokenizer)
        .into_iter()
        .map(step_of)
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    TABLE
        .iter()
        .find(|row| row.steps == found.as_slice() && row.whole.is_none_or(|of_row| of_row == whole))
}

/// The name of a byte-level pre-tokenizer, or a description that names no pre-tokenizer, so that
/// a tokenizer of this vocabulary is rejected by it.
pub(in crate::hf) fn name(pre_tokenizer: &Value, whole: bool) -> String {
    match known(pre_tokenizer, whole) {
        Some(known) => known.name.to_owned(),
        None => {
            let kinds: Vec<_> = steps(pre_tokenizer).into_iter().map(kind).collect();
            format!("unknown pre-tokenizer of tokenizer.json: {}", kinds.join(", "))
        }
    }
}

/// Whether a step changes bytes to GPT-2's alphabet or back, and has no other effect that is known.
pub(in crate::hf) fn is_byte_level(step: &Value) -> bool {
    let Value::Object(step) = step else { return false };
    step.iter().all(|(key, value)| match key.as_str() {
        "type" => value == "ByteLevel",
        "add_prefix_space" | "trim_offsets" | "use_regex" => value.is_boolean(),
        _ => false,
    })
}

/// A step; the inner `None` stands for one that splits nothing, the outer for an unknown one.
fn step_of(step: &Value) -> Option<Option<Step<'_>>> {
    let flag = |key: &str| step.get(key).and_then(Value::as_bool);
    let has_only = |keys: &[&str]| {
        let mut own = step.as_object().into_iter().flat_map(|step| step.keys());
        own.all(|key| key == "type" || keys.contains(&key.as_str()))
    };
    Some(match kind(step) {
        "ByteLevel" if is_byte_level(step) && flag("add_prefix_space") == Some(false) => {
            flag("use_regex").unwrap_or(true).then_some(Step::Words(GPT2))
        }
        "Digits" if has_only(&["individual_digits"]) => {
            Some(Step::Digits { single: flag("individual_digits")? })
        }
        "Punctuation" if has_only(&["behavior"]) => {
            // Runs of punctuation are one word in files of this table.
            let behavior = step.get("behavior").and_then(Value::as_str)?;
            (behavior == "Contiguous").then_some(Some(Step::Punctuation))?
        }
        "Split" if has_only(&["pattern", "behavior", "invert"]) => {
            let behavior = step.get("behavior")?.as_str()?;
            let invert = flag("invert").unwrap_or(false);
            // Patterns of words match all text, so that the text between matches is empty.
            let isolates = matches!((behavior, invert), ("Isolated", false) | ("Removed", true));
            let pattern = step.get("pattern")?.as_object().filter(|pattern| pattern.len() == 1)?;
            let pattern = pattern.get("Regex")?.as_str()?;
            isolates.then_some(())?;
            Some(match pattern.strip_suffix(SPACES) {
                Some(words) => Step::Words(words),
                None => Step::Isolate(pattern),
            })
        }
        _ => return None,
    })
}
