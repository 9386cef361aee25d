//! References: models as users name them.

use std::{fmt, path::Path, str::FromStr};

use super::{
    FileName, Part, RepositoryReference, Revision, ShortName,
    repository::{ENDINGS, HOSTS, PREFIXES},
};
use crate::error::{Error, Result};

/// The name of a model that may have to be downloaded.
///
/// [`str::parse`] reads these forms, and never takes a path for one of them:
///
/// | form | meaning |
/// |---|---|
/// | `owner/name`, `owner/name:Q4_K_M` | a repository of the hub, and a quantization in it |
/// | `owner/name@revision` | a branch, tag or commit; a quantization may follow |
/// | `hf:…`, `hf://…`, `hf.co/…`, `huggingface.co/…` | the same with a prefix |
/// | `https://huggingface.co/owner/name/resolve/main/FILE` | one file; `blob` and `tree` are read too |
/// | `https://host/path/file.gguf` | a file of any server |
/// | `qwen3:0.6b`, `library/qwen3:0.6b` | a [short name](ShortName) |
///
/// [`Display`](fmt::Display) writes the one spelling that all spellings of a name have in common:
/// without prefix and `:latest`, the quantization in upper case, a short name in lower case. So two
/// texts name the same if they are shown alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Files of a repository.
    Repository(RepositoryReference),
    /// A GGUF file of any server.
    Url(UrlReference),
    /// A short name.
    Short(ShortName),
}

/// Starts of names of Ollama's own library.
const LIBRARY: [&str; 3] = ["library/", "ollama.com/library/", "registry.ollama.ai/library/"];
/// Hosts of that library.
const LIBRARY_HOSTS: [&str; 3] = ["ollama.com", "registry.ollama.ai", "www.ollama.com"];

/// A GGUF file of any server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlReference {
    url: String,
    host: String,
    file: FileName,
}

impl UrlReference {
    /// The address, with its query.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The host's name or number, with a port if there is one.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The file's name, without folders.
    pub fn file(&self) -> &FileName {
        &self.file
    }
}

impl Reference {
    /// The files of a hub that the name means: those of a short name are in a table.
    pub fn repository(&self) -> Option<RepositoryReference> {
        match self {
            Self::Repository(wanted) => Some(wanted.clone()),
            Self::Short(short) => short.repository(),
            Self::Url(_) => None,
        }
    }

    /// The name that a word in the place of a model is. `None` is a path: an existing one, or a
    /// word that is no name.
    pub fn of_word(word: &str) -> Option<Self> {
        if Path::new(word).exists() { None } else { word.parse().ok() }
    }

    /// The spelling of a name by which models are compared, or the text itself if it is no name.
    pub fn canonical(text: &str) -> String {
        text.parse::<Self>().map_or_else(|_| text.to_owned(), |reference| reference.to_string())
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Error::name(text, "expected one word"));
        }
        let lower = text.to_ascii_lowercase();
        if ["http://", "https://"].iter().any(|scheme| lower.starts_with(scheme)) {
            return of_address(text);
        }
        if let Some(prefix) = PREFIXES.iter().find(|prefix| lower.starts_with(*prefix)) {
            let rest = text[prefix.len()..].trim_end_matches('/');
            return match rest.matches('/').count() {
                0 | 1 => of_repository(text, rest),
                _ => of_page(text, rest.split(['?', '#']).next().unwrap_or(rest)),
            }
            .map(Self::Repository);
        }
        if let Some(prefix) = LIBRARY.iter().find(|prefix| lower.starts_with(*prefix)) {
            return text[prefix.len()..].parse().map(Self::Short);
        }
        if text.starts_with(['/', '.', '~', '\\']) || text.contains('\\') {
            return Err(Error::name(text, "a path is no name, and there is no such file"));
        }
        if ENDINGS.iter().any(|ending| lower.ends_with(ending)) {
            return Err(Error::name(text, "it ends as a file does, and there is no such file"));
        }
        match text.contains('/') {
            true => of_repository(text, text).map(Self::Repository),
            false => text.parse().map(Self::Short),
        }
    }
}

/// `owner/name[@revision][:tag]`.
fn of_repository(text: &str, rest: &str) -> Result<RepositoryReference> {
    let named = |error| match error {
        Error::Name { problem, .. } => Error::name(text, problem),
        other => other,
    };
    let (rest, tag) = match rest.rsplit_once(':') {
        Some((rest, tag)) => (rest, Some(tag)),
        None => (rest, None),
    };
    let (name, revision) = match rest.split_once('@') {
        Some((name, revision)) => (name, revision.parse().map_err(named)?),
        None => (rest, Revision::default()),
    };
    let part = match tag {
        None => Part::Any,
        // Ollama's word for no tag
        Some(tag) if tag.eq_ignore_ascii_case("latest") => Part::Any,
        Some(tag) => Part::Quantization(tag.parse().map_err(named)?),
    };
    Ok(RepositoryReference { repository: name.parse().map_err(named)?, revision, part })
}

/// An address: a page or a file of the hub, or a file of another host.
fn of_address(text: &str) -> Result<Reference> {
    let refuse = |problem: &str| Error::name(text, problem);
    let is_visible = |b: u8| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b);
    if !text.bytes().all(is_visible) {
        return Err(refuse("expected an address in ASCII, with %XX for other characters"));
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(|| refuse("expected https://"))?;
    let bare = rest.split(['?', '#']).next().unwrap_or(rest);
    let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
    if host.is_empty() || host.contains('@') {
        return Err(refuse("expected a host without a user's name or password"));
    }
    if LIBRARY_HOSTS.iter().any(|known| host.eq_ignore_ascii_case(known)) {
        let name = path.strip_prefix("library/").unwrap_or(path).trim_end_matches('/');
        return name.parse().map(Reference::Short);
    }
    if HOSTS.iter().any(|known| host.eq_ignore_ascii_case(known)) {
        return of_page(text, path.trim_end_matches('/')).map(Reference::Repository);
    }
    let last = path.rsplit('/').next().unwrap_or(path);
    let file: FileName = decoded(last)
        .filter(|name| !name.contains('/'))
        .ok_or_else(|| refuse("expected UTF-8 in the file's name"))?
        .parse()?;
    if !file.ends_with(".gguf") && !file.ends_with(".bin") {
        return Err(refuse(
            "expected the address of a .gguf file or of a .bin file of whisper.cpp",
        ));
    }
    let rest = rest.split('#').next().unwrap_or(rest);
    let url = format!("{}://{rest}", scheme.to_ascii_lowercase());
    Ok(Reference::Url(UrlReference { url, host: host.to_ascii_lowercase(), file }))
}

/// `owner/name[/resolve/REVISION/FILE]`, as the pages of the hub are addressed.
fn of_page(text: &str, path: &str) -> Result<RepositoryReference> {
    let mut parts = path.splitn(4, '/');
    let (owner, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut model = of_repository(text, &format!("{owner}/{name}"))?;
    let Some(kind) = parts.next() else { return Ok(model) };
    if !["resolve", "blob", "raw", "tree"].contains(&kind) {
        return Err(Error::name(text, "expected the page of a model or of one of its files"));
    }
    let rest = decoded(parts.next().unwrap_or_default())
        .ok_or_else(|| Error::name(text, "expected UTF-8 in the address"))?;
    // branches of pull requests have slashes: refs/pr/1
    let of_pull_request = rest.starts_with("refs/").then(|| rest.match_indices('/').nth(2));
    let (revision, file) = match of_pull_request {
        Some(Some((at, _))) => (&rest[..at], Some(&rest[at + 1..])),
        Some(None) => (&rest[..], None),
        None => match rest.split_once('/') {
            Some((revision, file)) => (revision, Some(file)),
            None => (&rest[..], None),
        },
    };
    model.revision = revision.parse()?;
    match file {
        Some(_) if kind == "tree" => {
            Err(Error::name(text, "expected a file (blob or resolve) or a whole revision (tree)"))
        }
        Some(file) => {
            model.part = Part::File(file.parse()?);
            Ok(model)
        }
        None => Ok(model),
    }
}

/// A text with `%XX` decoded; `None` if it is not UTF-8 then.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |b: u8| (b as char).to_digit(16);
                let byte = digit(*high)? * 16 + digit(*low)?;
                bytes.push(u8::try_from(byte).ok()?);
                rest = after;
            }
            (b'%', _) => return None,
            (byte, _) => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repository(reference) => reference.fmt(f),
            Self::Url(reference) => f.write_str(&reference.url),
            Self::Short(name) => name.fmt(f),
        }
    }
}
