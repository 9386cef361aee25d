//! The parts of references. Each type holds only texts that are safe in a path and in an address.

use std::{fmt, str::FromStr};

use crate::error::{Error, Result};

/// The longest owner or name of a repository in bytes, as the hub limits them.
const SEGMENT: usize = 96;
/// The longest revision, in bytes.
const REVISION: usize = 200;
/// The longest path of a file in a repository, in bytes.
const PATH: usize = 1024;
/// The longest name in such a path in bytes, as file systems limit them.
const NAME: usize = 255;

/// Names that Windows gives to devices, in any folder and with any extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// A repository of a hub: `owner/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository {
    owner: String,
    name: String,
}

impl Repository {
    /// The user or organization.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The name, without its owner.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for Repository {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((owner, name)) = text.split_once('/') else {
            return Err(Error::name(text, "expected OWNER/NAME"));
        };
        for part in [owner, name] {
            let is_named = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
            let is_edge = |b: Option<&u8>| b.is_none_or(|b| b"-.".contains(b));
            let bytes = part.as_bytes();
            if bytes.len() > SEGMENT
                || !bytes.iter().copied().all(is_named)
                || is_edge(bytes.first())
                || is_edge(bytes.last())
                || part.contains("--")
                || part.contains("..")
            {
                let problem = "expected OWNER/NAME of at most 96 letters, digits and single . _ - \
                               within each";
                return Err(Error::name(text, problem));
            }
        }
        Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// A branch, tag or commit of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(String);

impl Revision {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the branch of references without a revision.
    pub fn is_main(&self) -> bool {
        self.0 == "main"
    }

    /// Whether it is the hash of a commit, whose files never change.
    pub fn is_commit(&self) -> bool {
        is_hex(&self.0, 40)
    }
}

impl Default for Revision {
    fn default() -> Self {
        Self("main".to_owned())
    }
}

impl FromStr for Revision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_named = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let is_part =
            |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with('.');
        if text.len() > REVISION || !text.chars().all(is_named) || !text.split('/').all(is_part) {
            return Err(Error::name(text, "expected a branch, a tag or a commit as revision"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A quantization, as file names write it: `Q4_K_M`. Letters are compared without case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(String);

impl Tag {
    /// The text in upper case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tag {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_named = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let has_word = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if text.len() > SEGMENT || !has_word || !text.chars().all(is_named) {
            return Err(Error::name(
                text,
                "expected a quantization such as Q4_K_M after the colon",
            ));
        }
        Ok(Self(text.to_ascii_uppercase()))
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of a file in a repository. It leads to no place outside of a folder, on any system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(String);

impl FileName {
    /// The path, with `/` between its names.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names of the path: folders, then the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The file's own name.
    pub fn base(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// Whether the file has this ending, without case.
    pub(crate) fn ends_with(&self, ending: &str) -> bool {
        let (name, ending) = (self.0.as_bytes(), ending.as_bytes());
        name.len() >= ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending)
    }
}

impl FromStr for FileName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain = |c: char| !c.is_control() && !"\\:<>\"|?*".contains(c);
        let is_name = |name: &str| {
            let stem = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
            let digits = stem.trim_start_matches("com").trim_start_matches("lpt");
            let is_port = stem.len() == 4 && digits.len() == 1 && digits != "0";
            !name.is_empty()
                && name.len() <= NAME
                && name != "."
                && name != ".."
                && !name.ends_with(['.', ' '])
                && !name.starts_with(' ')
                && !DEVICES.contains(&stem.as_str())
                && !is_port
        };
        if text.len() > PATH || !text.chars().all(is_plain) || !text.split('/').all(is_name) {
            let problem = "expected the path of a file within a repository, without .. and without \
                           characters that a system forbids";
            return Err(Error::name(text, problem));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a text consists of `digits` lower-case hexadecimal digits.
pub(crate) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
