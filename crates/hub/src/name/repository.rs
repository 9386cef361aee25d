//! References to files of a repository.

use std::fmt;

use super::{FileName, Repository, Revision, Tag};

/// The hosts whose addresses stand for repositories.
pub(super) const HOSTS: [&str; 3] = ["huggingface.co", "hf.co", "www.huggingface.co"];

/// Starts of the names of repositories, in lower case. A longer one comes before its own beginning.
pub(super) const PREFIXES: [&str; 5] =
    ["hf://", "hf:", "hf.co/", "huggingface.co/", "www.huggingface.co/"];

/// Endings of files. Without a prefix such as `hf:`, a text that ends so is a path.
pub(super) const ENDINGS: [&str; 6] = [".gguf", ".safetensors", ".bin", ".pt", ".pth", ".onnx"];

/// Files of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryReference {
    /// The repository.
    pub repository: Repository,
    /// The branch, tag or commit.
    pub revision: Revision,
    /// Which of its files are wanted.
    pub part: Part,
}

/// Files of a repository that make a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The GGUF file that suits the memory, or a directory of safetensors.
    Any,
    /// The GGUF file of this quantization.
    Quantization(Tag),
    /// One file.
    File(FileName),
}

/// A text as a segment of an address: `%XX` for everything but letters, digits and `-._~`.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ if byte.is_ascii_alphanumeric() => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

impl fmt::Display for RepositoryReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Part::File(file) = &self.part {
            let file: Vec<String> = file.names().map(encoded).collect();
            let (host, file) = (HOSTS[0], file.join("/"));
            let revision = match self.revision.as_str() {
                text if text.starts_with("refs/") => text.to_owned(),
                text => encoded(text),
            };
            return write!(f, "https://{host}/{}/resolve/{revision}/{file}", self.repository);
        }
        let mut name = self.repository.to_string();
        if !self.revision.is_main() {
            name += &format!("@{}", self.revision);
        }
        if let Part::Quantization(tag) = &self.part {
            name += &format!(":{tag}");
        }
        // the ending of a file, and the start of Ollama's library, are a repository's only behind a
        // prefix
        let lower = name.to_ascii_lowercase();
        let is_other =
            ENDINGS.iter().any(|ending| lower.ends_with(ending)) || lower.starts_with("library/");
        write!(f, "{}{name}", if is_other { "hf:" } else { "" })
    }
}
