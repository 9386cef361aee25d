//! Spellings of one name: whether two texts mean the same model.

use super::{Part, Reference};

/// The word for a name without a tag, in Ollama's library.
const LATEST: &str = ":latest";

/// A name of a model, to be compared with others by what it means.
///
/// `hf.co/Owner/Name:q8_0`, `https://huggingface.co/owner/name:Q8_0` and `owner/name:Q8_0` are the
/// same, and `name` is `name:latest`. Letters of a repository and of a tag are compared without
/// case, as hubs do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spelling {
    /// The name in its usual form.
    whole: String,
    /// The repository, if it is one.
    repository: Option<String>,
    /// The repository and revision of a name without a part.
    open: Option<String>,
    /// The same of a name with or without one.
    revision: Option<String>,
}

impl Spelling {
    /// The spelling of any text, whether it is a name of a hub's model or not.
    pub fn of(name: &str) -> Self {
        let plain = |text: &str| text.strip_suffix(LATEST).unwrap_or(text).to_owned();
        let Ok(reference) = name.parse::<Reference>() else {
            return Self { whole: plain(name), ..Self::default() };
        };
        let of = match &reference {
            Reference::Repository(of) => Some(of),
            _ => None,
        };
        let repository = of.map(|of| of.repository.to_string().to_ascii_lowercase());
        let revision =
            of.map(|of| format!("{}@{}", of.repository, of.revision).to_ascii_lowercase());
        let open = revision.clone().filter(|_| of.is_some_and(|of| of.part == Part::Any));
        let whole = match &reference {
            // the path of a file and the address of another server have a case
            Reference::Url(_) => reference.to_string(),
            Reference::Repository(of) if matches!(of.part, Part::File(_)) => reference.to_string(),
            Reference::Repository(_) => reference.to_string().to_ascii_lowercase(),
            // a word alone may be the name of any file
            Reference::Short(_) if !plain(name).contains(':') => plain(name),
            Reference::Short(_) => reference.to_string(),
        };
        Self { whole, repository, open, revision }
    }

    /// Whether it names a repository alone, of which the other one is some files.
    pub fn leaves_open(&self, other: &Self) -> bool {
        self.open.is_some() && self.open == other.revision
    }

    /// Whether both are of one repository, or the same.
    pub fn is_of_same_repository(&self, other: &Self) -> bool {
        self == other || self.repository.is_some() && self.repository == other.repository
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name() {
        for same in [
            &[
                "acme/good:Q8_0",
                "hf.co/acme/good:Q8_0",
                "hf.co/acme/good:q8_0",
                "HF.co/Acme/Good:Q8_0",
                "hf:acme/good:q8_0",
                "huggingface.co/acme/good:Q8_0",
                "https://huggingface.co/acme/good:Q8_0",
                "https://hf.co/acme/good:q8_0",
                "acme/good@main:Q8_0",
            ][..],
            &[
                "acme/good",
                "hf.co/acme/good:latest",
                "acme/good:latest",
                "https://hf.co/acme/good/",
            ],
            &["qwen3:0.6b", "Qwen3:0.6B"],
            &["mistral", "mistral:latest"],
            &["My own model", "My own model:latest"],
            &[
                "https://huggingface.co/acme/good/resolve/main/good-Q8_0.gguf",
                "https://hf.co/acme/good/blob/main/good-Q8_0.gguf",
            ],
        ] {
            for one in same {
                assert_eq!(Spelling::of(one), Spelling::of(same[0]), "{one}");
            }
        }
        let all = [
            "acme/good",
            "acme/good:Q8_0",
            "acme/good:Q4_0",
            "acme/good@v2:Q8_0",
            "acme/other:Q8_0",
            "good:q8_0",
            "good",
            "Good",
            "built-in",
            "",
        ];
        for (i, one) in all.iter().enumerate() {
            for other in &all[..i] {
                assert_ne!(Spelling::of(one), Spelling::of(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn a_repository_leaves_its_files_open() {
        let open = |one: &str, other: &str| Spelling::of(one).leaves_open(&Spelling::of(other));
        assert!(open("hf.co/acme/good", "acme/good:Q8_0") && open("acme/good", "acme/good"));
        assert!(
            !open("acme/good:Q4_0", "acme/good:Q8_0") && !open("acme/good@v2", "acme/good:Q8_0")
        );
        assert!(!open("good", "good"));
        let near = |one, other| Spelling::of(one).is_of_same_repository(&Spelling::of(other));
        assert!(near("acme/good@v2:Q4_0", "hf.co/acme/good:Q8_0") && near("good", "good:latest"));
        assert!(!near("acme/good:Q4_0", "acme/bad:Q4_0") && !near("good", "acme/good"));
    }
}
