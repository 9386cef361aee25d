//! Names of pre-tokenizers, `tokenizer.ggml.pre`, by the steps in `tokenizer.json`.
//!
//! llama.cpp's converter identifies them by a hash of the ids of a text; the steps are the same
//! information without a list of vocabularies. The patterns are facts of the published files.

use serde_json::Value;

use super::contents::{kind, steps};

/// The end of every pattern of words.
const SPACES: &str = r"|\s+(?!\S)|\s+";

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+";

/// A pattern of OpenAI's cl100k family with a pattern of digits.
macro_rules! cl100k {
    ($digits:literal) => {
        concat!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        )
    };
}

/// A pattern of OpenAI's o200k family with a pattern of contractions and one of digits.
macro_rules! o200k {
    ($suffix:literal, $digits:literal) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            $suffix,
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            $suffix,
            "|",
            $digits,
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
        )
    };
}

const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
);

const BAILING: &str =
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]";

const DEEPSEEK_V3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+"
);

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

/// Names by steps; `whole` tells whether words are looked up before merging, where it matters.
const TABLE: &[(&str, &[Step<'static>], Option<bool>)] = &[
    ("gpt-2", &[Step::Words(GPT2)], None),
    ("llama-bpe", &[Step::Words(cl100k!(r"\p{N}{1,3}"))], Some(true)),
    ("dbrx", &[Step::Words(cl100k!(r"\p{N}{1,3}"))], Some(false)),
    ("qwen2", &[Step::Words(cl100k!(r"\p{N}"))], None),
    ("qwen35", &[Step::Words(QWEN35)], None),
    ("bailingmoe", &[Step::Words(BAILING)], None),
    (
        "granite-embed-multi-97m",
        &[Step::Words(o200k!("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}"))],
        Some(true),
    ),
    ("gpt-4o", &[Step::Words(o200k!("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}"))], Some(false)),
    ("tekken", &[Step::Words(o200k!("", r"\p{N}"))], None),
    ("starcoder", &[Step::Digits { single: true }, Step::Words(GPT2)], None),
    (
        "falcon",
        &[
            Step::Punctuation,
            Step::Words(GPT2),
            Step::Digits { single: false },
            Step::Isolate("[0-9][0-9][0-9]"),
        ],
        None,
    ),
    (
        "deepseek-v3",
        &[Step::Isolate(r"\p{N}{1,3}"), Step::Isolate(CJK), Step::Words(DEEPSEEK_V3)],
        None,
    ),
];

/// The name of a byte-level pre-tokenizer, or a description that names no pre-tokenizer, so that
/// a tokenizer of this vocabulary is rejected by it.
pub(in crate::hf) fn name(pre_tokenizer: &Value, whole: bool) -> String {
    let all = steps(pre_tokenizer);
    let found: Option<Vec<Step<'_>>> = all
        .iter()
        .map(|step| step_of(step))
        .collect::<Option<Vec<_>>>()
        .map(|steps| steps.into_iter().flatten().collect());
    let row = found.and_then(|found| {
        TABLE.iter().find(|(_, steps, of_whole)| {
            *steps == found.as_slice() && of_whole.is_none_or(|of_whole| of_whole == whole)
        })
    });
    match row {
        Some((name, ..)) => (*name).to_owned(),
        None => {
            let kinds: Vec<_> = all.iter().map(|step| kind(step)).collect();
            format!("unknown pre-tokenizer of tokenizer.json: {}", kinds.join(", "))
        }
    }
}

/// A step; the inner `None` stands for one that splits nothing, the outer for an unknown one.
fn step_of(step: &Value) -> Option<Option<Step<'_>>> {
    let flag = |key: &str| step.get(key).and_then(Value::as_bool);
    Some(match kind(step) {
        "ByteLevel" => flag("use_regex").unwrap_or(true).then_some(Step::Words(GPT2)),
        "Digits" => Some(Step::Digits { single: flag("individual_digits")? }),
        "Punctuation" => Some(Step::Punctuation),
        "Split" => {
            let behavior = step.get("behavior")?.as_str()?;
            let invert = flag("invert").unwrap_or(false);
            // Patterns of words match all text, so that the text between matches is empty.
            let isolates = matches!((behavior, invert), ("Isolated", false) | ("Removed", true));
            let pattern = step.get("pattern")?.get("Regex")?.as_str()?;
            isolates.then_some(())?;
            Some(match pattern.strip_suffix(SPACES) {
                Some(words) => Step::Words(words),
                None => Step::Isolate(pattern),
            })
        }
        _ => return None,
    })
}
