//! Words that name a model.

use std::path::Path;

use pelton_hub::Reference;

/// The word for the model that is part of the program.
pub(crate) const BUILT_IN: &str = "built-in";
/// The word for the model that sees and is part of the program.
pub(crate) const BUILT_IN_VISION: &str = "built-in-vision";
/// The word for the model of speech that is part of the program, where both kinds can be meant.
pub(crate) const BUILT_IN_SPEECH: &str = "built-in-speech";

/// A note about a model that is part of the program.
pub(crate) fn demonstration(word: &str) -> Option<&'static str> {
    match word {
        BUILT_IN => Some(
            "the built-in model is a demonstration: `pelton chat qwen3:0.6b` downloads a model that \
             converses",
        ),
        BUILT_IN_VISION => Some(
            "built-in-vision is a demonstration: it knows drawn shapes and numbers, not photographs",
        ),
        _ => None,
    }
}

/// Whether a word is that of a model of text within the program.
pub(crate) fn is_built_in(word: &str) -> bool {
    matches!(word, BUILT_IN | BUILT_IN_VISION)
}

/// Endings of the names of model files, of Pelton's and of other systems.
const ENDINGS: [&str; 6] = [".gguf", ".safetensors", ".bin", ".pt", ".pth", ".onnx"];

/// Whether a word names a model by its form, so that it is no prompt. Such are the words
/// `built-in` and `built-in-vision`, an existing path, the form of a file, `owner/name`, a URL, a
/// short name, and a word with a colon or a number.
pub(crate) fn is_model(word: &str) -> bool {
    is_built_in(word)
        || is_path(word)
        || reference(word).is_some_and(|reference| has_form(word, &reference))
}

/// The name of a model that a word in the place of a model is. `None` is the model within
/// the program, or a path.
pub(crate) fn reference(word: &str) -> Option<Reference> {
    match word {
        BUILT_IN | BUILT_IN_SPEECH | BUILT_IN_VISION => None,
        word => Reference::of_word(word),
    }
}

fn is_path(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let is_word = !word.contains(char::is_whitespace);
    (!word.is_empty() && Path::new(word).exists())
        || ENDINGS.iter().any(|ending| lower.ends_with(ending))
        || is_word && ["./", "../", "/", "~/"].iter().any(|start| word.starts_with(start))
}

/// Whether a name looks like one sooner than like a text.
fn has_form(word: &str, reference: &Reference) -> bool {
    let is_letter_first = word.starts_with(|c: char| c.is_ascii_alphabetic());
    let has_number = word.len() > 2 && word.contains(|c: char| c.is_ascii_digit());
    match reference {
        Reference::Short(short) => {
            let is_known = short.repository().is_some();
            is_known || word.contains([':', '/']) || is_letter_first && has_number
        }
        Reference::Repository(_) => is_letter_first,
        Reference::Url(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_and_prompts() {
        for model in [
            "built-in",
            "built-in-vision",
            "nothing.gguf",
            "my models/nothing.GGUF",
            "Qwen/Qwen3-0.6B",
            "hf.co/Qwen/Qwen3-0.6B-GGUF:Q8_0",
            "hf://Qwen/Qwen3-0.6B-GGUF:Q8_0",
            "registry.ollama.ai/library/qwen3:0.6b",
            "https://example.org/x.gguf?download=true",
            "qwen3",
            "llama3.2:1b",
            "mistral",
            "gpt-oss",
            "Mistral",
            "codellama:latest",
            "./nothing",
            "/nothing/here",
            env!("CARGO_MANIFEST_DIR"),
        ] {
            assert!(is_model(model), "{model}");
        }
        for prompt in [
            "",
            "-",
            "Hello",
            "Once upon a time",
            "x",
            "2+2=",
            "Is it 1/2 or 3/4?",
            "What's/that?",
            "1/2",
            "hello:",
            "Note: this",
        ] {
            assert!(!is_model(prompt), "{prompt}");
        }
    }
}
