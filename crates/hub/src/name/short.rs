//! Short names: a family and a size, as Ollama's library spells them.

use std::{fmt, str::FromStr};

use super::{Part, Repository, RepositoryReference, Revision, Tag};
use crate::error::{Error, Result};

/// A short name: `qwen3:0.6b`, or `qwen3` for the family's usual size.
///
/// A quantization may follow the size: `qwen3:4b-q4_k_m`. Names that [`short_names`] lacks are
/// valid too: Ollama's folder may have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortName {
    name: String,
    tag: String,
}

/// The tag of names without one, as in Ollama.
const LATEST: &str = "latest";

/// A row of the table: family, size, whether the family's name alone means it, repository.
type Row = (&'static str, &'static str, bool, &'static str);

/// Families and sizes follow Ollama's library. The repositories are those of the models' makers
/// where they publish GGUF files, or else of llama.cpp's authors (`ggml-org`) and of `bartowski`.
const TABLE: &[Row] = &[
    ("qwen3", "0.6b", false, "Qwen/Qwen3-0.6B-GGUF"),
    ("qwen3", "1.7b", false, "Qwen/Qwen3-1.7B-GGUF"),
    ("qwen3", "4b", false, "Qwen/Qwen3-4B-GGUF"),
    ("qwen3", "8b", true, "Qwen/Qwen3-8B-GGUF"),
    ("qwen3", "14b", false, "Qwen/Qwen3-14B-GGUF"),
    ("qwen3", "30b", false, "Qwen/Qwen3-30B-A3B-GGUF"),
    ("qwen3", "32b", false, "Qwen/Qwen3-32B-GGUF"),
    ("qwen2.5", "0.5b", false, "Qwen/Qwen2.5-0.5B-Instruct-GGUF"),
    ("qwen2.5", "1.5b", false, "Qwen/Qwen2.5-1.5B-Instruct-GGUF"),
    ("qwen2.5", "7b", true, "Qwen/Qwen2.5-7B-Instruct-GGUF"),
    ("qwen2.5-coder", "1.5b", false, "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF"),
    ("qwen2.5-coder", "7b", true, "Qwen/Qwen2.5-Coder-7B-Instruct-GGUF"),
    ("gpt-oss", "20b", true, "ggml-org/gpt-oss-20b-GGUF"),
    ("gemma3", "1b", false, "ggml-org/gemma-3-1b-it-GGUF"),
    ("gemma3", "4b", true, "ggml-org/gemma-3-4b-it-GGUF"),
    ("gemma3", "12b", false, "ggml-org/gemma-3-12b-it-GGUF"),
    ("llama3.2", "1b", false, "bartowski/Llama-3.2-1B-Instruct-GGUF"),
    ("llama3.2", "3b", true, "bartowski/Llama-3.2-3B-Instruct-GGUF"),
    ("llama3.1", "8b", true, "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF"),
    ("mistral", "7b", true, "bartowski/Mistral-7B-Instruct-v0.3-GGUF"),
    ("phi4", "14b", true, "bartowski/phi-4-GGUF"),
    ("smollm2", "360m", false, "HuggingFaceTB/SmolLM2-360M-Instruct-GGUF"),
    ("smollm2", "1.7b", true, "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF"),
    ("smollm3", "3b", true, "ggml-org/SmolLM3-3B-GGUF"),
    ("deepseek-r1", "7b", true, "bartowski/DeepSeek-R1-Distill-Qwen-7B-GGUF"),
    ("qwen3-embedding", "0.6b", true, "Qwen/Qwen3-Embedding-0.6B-GGUF"),
];

/// The known short names, each with its repository, in the order of families and sizes.
pub fn short_names() -> impl Iterator<Item = (String, &'static str)> {
    TABLE.iter().map(|(name, size, _, repository)| (format!("{name}:{size}"), *repository))
}

impl ShortName {
    /// The family: `qwen3`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The size with what follows it, or `latest`.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The repository of the name, if the table has it.
    pub fn repository(&self) -> Option<RepositoryReference> {
        let of = |row: &Row, part| {
            let repository: Repository = row.3.parse().ok()?;
            Some(RepositoryReference { repository, revision: Revision::default(), part })
        };
        let family = || TABLE.iter().filter(|row| row.0 == self.name);
        if self.tag == LATEST {
            return of(family().find(|row| row.2)?, Part::Any);
        }
        if let Some(row) = family().find(|row| row.1 == self.tag) {
            return of(row, Part::Any);
        }
        let (row, quantization) = family()
            .find_map(|row| Some((row, self.tag.strip_prefix(row.1)?.strip_prefix('-')?)))?;
        of(row, Part::Quantization(quantization.parse::<Tag>().ok()?))
    }

    /// Known names of the same family, or else all families, for an error.
    pub(crate) fn suggestions(&self) -> String {
        let sizes: Vec<String> = TABLE
            .iter()
            .filter(|row| row.0 == self.name)
            .map(|row| format!("{}:{}", row.0, row.1))
            .collect();
        if !sizes.is_empty() {
            return sizes.join(", ");
        }
        let mut families: Vec<&str> = TABLE.iter().map(|row| row.0).collect();
        families.dedup();
        families.join(", ")
    }
}

impl FromStr for ShortName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let lower = text.to_ascii_lowercase();
        let (name, tag) = lower.split_once(':').unwrap_or((&lower, LATEST));
        let is_named = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_alphanumeric())
                && word.len() <= 80
                && !word.contains("..")
                && word.chars().all(is_named)
        };
        match is_word(name) && is_word(tag) {
            true => Ok(Self { name: name.to_owned(), tag: tag.to_owned() }),
            false => {
                Err(Error::name(text, "expected OWNER/NAME, an address or a name as qwen3:0.6b"))
            }
        }
    }
}

impl fmt::Display for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match self.tag == LATEST {
            true => Ok(()),
            false => write!(f, ":{}", self.tag),
        }
    }
}
