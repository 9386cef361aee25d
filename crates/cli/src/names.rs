//! Words that name a model.

use std::path::Path;

/// The word for the model that is part of the program.
pub(crate) const BUILT_IN: &str = "built-in";
/// The word for the model of speech that is part of the program, where both kinds can be meant.
pub(crate) const BUILT_IN_SPEECH: &str = "built-in-speech";

/// Endings of the names of model files, of Pelton's and of other systems.
const ENDINGS: [&str; 6] = [".gguf", ".safetensors", ".bin", ".pt", ".pth", ".onnx"];

/// Starts of the names of models of a hub.
const PREFIXES: [&str; 8] = [
    "http://",
    "https://",
    "hf:",
    "hf.co/",
    "huggingface.co/",
    "www.huggingface.co/",
    "ollama.com/library/",
    "registry.ollama.ai/library/",
];

/// Whether a single argument names a model, so that it is no prompt. Such an argument is a path
/// that exists, the word `built-in`, or a word without spaces that has the form of a file, a
/// repository, a URL or an Ollama tag.
pub(crate) fn is_model(word: &str) -> bool {
    word == BUILT_IN || is_path(word) || is_remote(word)
}

fn is_path(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    (!word.is_empty() && Path::new(word).exists())
        || ENDINGS.iter().any(|ending| lower.ends_with(ending))
        || is_word(word) && ["./", "../", "/", "~/"].iter().any(|start| word.starts_with(start))
}

/// Whether a word names a model of a hub and not a path: `owner/name`, `hf.co/…`, a URL, or a name with a
/// number such as `qwen3` and `llama3.2:1b`. An existing path is no such name.
pub(crate) fn is_remote(word: &str) -> bool {
    if !is_word(word) || Path::new(word).exists() {
        return false;
    }
    let lower = word.to_ascii_lowercase();
    let starts = |list: &[&str]| list.iter().any(|start| lower.starts_with(start));
    if starts(&PREFIXES) {
        return true;
    }
    let named = |c: char| c.is_ascii_alphanumeric() || "._-:@".contains(c);
    let first_is_letter = word.starts_with(|c: char| c.is_ascii_alphabetic());
    match word.split_once('/') {
        Some((owner, name)) => {
            let parts = [owner, name];
            first_is_letter && parts.iter().all(|part| !part.is_empty() && part.chars().all(named))
        }
        // one word with a number is a tag of Ollama's library sooner than a text
        None => {
            first_is_letter
                && word.len() > 2
                && word.chars().all(named)
                && word.contains(|c: char| c.is_ascii_digit())
        }
    }
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && !word.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_and_prompts() {
        for model in [
            "built-in",
            "nothing.gguf",
            "my models/nothing.GGUF",
            "Qwen/Qwen3-0.6B",
            "hf.co/Qwen/Qwen3-0.6B-GGUF:Q8_0",
            "hf://Qwen/Qwen3-0.6B-GGUF:Q8_0",
            "registry.ollama.ai/library/qwen3:0.6b",
            "https://example.org/x.gguf?download=true",
            "qwen3",
            "llama3.2:1b",
            "./nothing",
            "/nothing/here",
            env!("CARGO_MANIFEST_DIR"),
        ] {
            assert!(is_model(model), "{model}");
        }
        for prompt in
            ["", "-", "Hello", "Once upon a time", "x", "2+2=", "Is it 1/2 or 3/4?", "What's/that?"]
        {
            assert!(!is_model(prompt), "{prompt}");
        }
    }
}
