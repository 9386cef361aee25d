//! Names of models: those that are read, those that are refused, and their texts.

use std::path::Path;

use pelton_hub::{FileName, Part, Reference, Revision, short_names};
use proptest::prelude::*;

/// The repository, revision and part that a text means.
fn parts(text: &str) -> (String, String, String) {
    let model = match text.parse() {
        Ok(Reference::Repository(model)) => model,
        Ok(Reference::Short(name)) => name.repository().unwrap_or_else(|| panic!("{text}")),
        other => panic!("{text}: {other:?}"),
    };
    let part = match model.part {
        Part::Any => String::new(),
        Part::Quantization(tag) => tag.to_string(),
        Part::File(file) => file.to_string(),
    };
    (model.repository.to_string(), model.revision.to_string(), part)
}

#[test]
fn forms_that_users_write() {
    for (text, repository, revision, part) in [
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", "main", ""),
        ("Qwen/Qwen3-0.6B-GGUF:q8_0", "Qwen/Qwen3-0.6B-GGUF", "main", "Q8_0"),
        ("o/n@dev", "o/n", "dev", ""),
        ("o/n@refs/pr/1:Q4_K_M", "o/n", "refs/pr/1", "Q4_K_M"),
        ("o/n:latest", "o/n", "main", ""),
        ("hf:o/n", "o/n", "main", ""),
        ("hf.co/o/n:Q4_K_M", "o/n", "main", "Q4_K_M"),
        ("huggingface.co/o/n", "o/n", "main", ""),
        ("hf:o/n.gguf", "o/n.gguf", "main", ""),
        ("https://huggingface.co/o/n", "o/n", "main", ""),
        ("https://huggingface.co/o/n/", "o/n", "main", ""),
        ("HTTPS://HF.co/o/n?library=x", "o/n", "main", ""),
        ("https://huggingface.co/o/n/tree/dev", "o/n", "dev", ""),
        ("https://huggingface.co/o/n/blob/main/a%20b/x.gguf", "o/n", "main", "a b/x.gguf"),
        ("https://huggingface.co/o/n/resolve/v1/x.gguf?download=true", "o/n", "v1", "x.gguf"),
        ("https://huggingface.co/o/n/resolve/refs/pr/1/x.gguf", "o/n", "refs/pr/1", "x.gguf"),
        ("hf://o/n:Q8_0", "o/n", "main", "Q8_0"),
        ("HF.co/o/n:LATEST", "o/n", "main", ""),
        ("hf.co/o/n/", "o/n", "main", ""),
        ("www.huggingface.co/o/n", "o/n", "main", ""),
        ("hf.co/o/n/resolve/main/d/x.gguf?download=true", "o/n", "main", "d/x.gguf"),
        ("library/qwen3:0.6b", "Qwen/Qwen3-0.6B-GGUF", "main", ""),
        ("registry.ollama.ai/library/qwen3:latest", "Qwen/Qwen3-8B-GGUF", "main", ""),
        ("https://ollama.com/library/qwen3:0.6b", "Qwen/Qwen3-0.6B-GGUF", "main", ""),
        ("qwen3:0.6b", "Qwen/Qwen3-0.6B-GGUF", "main", ""),
        ("qwen3", "Qwen/Qwen3-8B-GGUF", "main", ""),
        ("Qwen3:4B-q4_K_M", "Qwen/Qwen3-4B-GGUF", "main", "Q4_K_M"),
    ] {
        let expected = (repository.to_owned(), revision.to_owned(), part.to_owned());
        assert_eq!(parts(text), expected, "{text}");
    }
    let Ok(Reference::Url(url)) = "https://example.org:8443/a/x%20y.GGUF?s=1#top".parse() else {
        panic!("no address of a file");
    };
    assert_eq!(url.url(), "https://example.org:8443/a/x%20y.GGUF?s=1");
    assert_eq!((url.host(), url.file().as_str()), ("example.org:8443", "x y.GGUF"));
}

/// All spellings of a name are shown alike.
#[test]
fn spellings_have_one_form() {
    for (form, spellings) in [
        (
            "acme/good:Q8_0",
            &[
                "acme/good:q8_0",
                "hf.co/acme/good:Q8_0",
                "hf:acme/good:q8_0",
                "hf://acme/good:Q8_0",
                "huggingface.co/acme/good:q8_0",
                "https://hf.co/acme/good:Q8_0",
                "https://huggingface.co/acme/good:q8_0",
            ][..],
        ),
        (
            "acme/good",
            &["hf.co/acme/good", "acme/good:latest", "https://huggingface.co/acme/good/"],
        ),
        ("qwen3", &["Qwen3:latest", "library/qwen3", "ollama.com/library/qwen3:latest"]),
        ("hf:library/x", &["hf.co/library/x"]),
        ("hf:o/n:X.GGUF", &["hf.co/o/n:x.gguf"]),
        ("hf:o/n@v1.bin", &["hf:o/n@v1.bin"]),
        ("no name", &["no name"]),
    ] {
        for text in spellings {
            assert_eq!(Reference::canonical(text), form, "{text}");
            assert_eq!(Reference::canonical(form), form, "{text}");
        }
    }
}

#[test]
fn texts_that_are_no_names() {
    for text in [
        "",
        " ",
        "o/n x",
        "/etc/passwd",
        "./o/n",
        "../o/n",
        "~/o/n",
        "..\\n",
        "C:\\models\\x",
        "o/..",
        "../..",
        "o/n/x",
        "o//n",
        "o/n.gguf",
        "models/x.safetensors",
        "x.gguf",
        "-o/n",
        "o/n-",
        "o/a--b",
        "o/n:",
        "o/n:../x",
        "o/n@",
        "o/n@../x",
        "o/n@a//b",
        "https://",
        "https://huggingface.co/o",
        "https://huggingface.co/datasets/o/n",
        "https://huggingface.co/o/n/resolve/main/..%2f..%2fx.gguf",
        "https://huggingface.co/o/n/resolve/main/a%00.gguf",
        "https://example.org/",
        "https://example.org/x.zip",
        "https://example.org/..%2fx.gguf",
        "https://user:word@example.org/x.gguf",
        "ftp://example.org/x.gguf",
        "file:///x.gguf",
    ] {
        assert!(text.parse::<Reference>().is_err(), "{text}");
    }
}

#[test]
fn short_names_are_unambiguous() {
    let names: Vec<(String, &str)> = short_names().collect();
    assert!(names.len() >= 25);
    for (name, repository) in &names {
        assert_eq!(parts(name).0, *repository, "{name}");
        assert_eq!(names.iter().filter(|(other, _)| other == name).count(), 1, "{name}");
        let family = name.split(':').next().unwrap();
        assert!(names.iter().any(|(_, usual)| *usual == parts(family).0), "{family}");
    }
}

proptest! {
    /// No text makes the parser panic, and the text of a reference means the same reference.
    #[test]
    fn texts_of_references_mean_the_same(text in "\\PC{0,60}|[a-z.]{1,3}(/[A-Za-z0-9._@:-]{0,12}){0,3}|hf:[a-z]{1,3}/[a-z.]{1,9}(@[a-z/]{1,9})?(:[A-Z0-9_]{1,6})?|https://(huggingface.co|h)/[a-z/.%0-9]{0,40}") {
        if let Ok(reference) = text.parse::<Reference>() {
            let shown = reference.to_string();
            let again = shown.parse::<Reference>();
            prop_assert_eq!(again.as_ref().ok(), Some(&reference), "{:?} became {:?}", text, shown);
        }
    }

    /// The name of a file stays within its folder, on this system and on Windows.
    #[test]
    fn names_of_files_stay_inside(text in "\\PC{0,40}|[a.\\\\/:]{1,12}|(CON|com1|a|\\.\\.)(\\.[a-z]{1,3})?(/[a-z.]{1,4}){0,3}") {
        if let Ok(name) = text.parse::<FileName>() {
            let path = Path::new(name.as_str());
            let is_plain = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
            prop_assert!(path.components().all(is_plain), "{:?}", text);
            prop_assert!(!text.contains('\\') && !text.contains(':') && !text.contains('\0'));
            prop_assert_eq!(name.names().count(), path.components().count());
        }
    }

    #[test]
    fn revisions_stay_inside(text in "\\PC{0,40}|[a./]{1,12}") {
        if let Ok(revision) = text.parse::<Revision>() {
            let inside = Path::new(revision.as_str()).components().all(|part| matches!(part, std::path::Component::Normal(_)));
            prop_assert!(inside, "{:?}", text);
        }
    }
}
