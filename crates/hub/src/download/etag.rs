//! Entity tags: the names of blobs, which are hashes of their bytes where the hub knows them.

use crate::{
    error::{Error, Result},
    name::is_hex,
};

/// The largest number of characters of an entity tag.
const LONGEST: usize = 128;

/// An entity tag that is safe as the name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Etag(String);

/// The relation of an entity tag to the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Their SHA-256, as for files in large-file storage.
    Sha256,
    /// The hash of a Git blob: SHA-1 of a header with the length and the bytes.
    GitSha1,
    /// Nothing: only the size is compared.
    Opaque,
}

impl Etag {
    /// Reads the header `ETag` or `X-Linked-ETag`, of a response from `url`.
    pub(crate) fn of_header(url: &str, header: &str) -> Result<Self> {
        let bare = header.trim();
        let bare = bare.strip_prefix("W/").unwrap_or(bare).trim_matches('"');
        Self::new(bare).ok_or_else(|| {
            Error::answer(url, "its ETag is no name of a file, expected letters, digits, . _ and -")
        })
    }

    /// The tag of a file of any server, which is never taken for a hash of its bytes.
    pub(crate) fn of_server(url: &str, header: Option<&str>) -> Result<Self> {
        let Some(header) = header else { return Ok(Self("server-".to_owned())) };
        // characters that the name of a file may not have stand as their numbers
        let bytes = header.trim().bytes().map(|byte| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("_{byte:02x}"),
        });
        Self::new(&format!("server-{}", bytes.collect::<String>()))
            .ok_or_else(|| Error::answer(url, "its ETag is too long"))
    }

    fn new(text: &str) -> Option<Self> {
        let is_named = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = (1..=LONGEST).contains(&text.len())
            && text.bytes().all(is_named)
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !text.ends_with('.');
        is_name.then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn kind(&self) -> Kind {
        match &*self.0 {
            text if is_hex(text, 64) => Kind::Sha256,
            text if is_hex(text, 40) => Kind::GitSha1,
            _ => Kind::Opaque,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_names_of_files() {
        for (header, text, kind) in [
            ("\"ce013625030ba8dba906f756967f9e9ca394464a\"", 40, Kind::GitSha1),
            ("W/\"0c\"", 2, Kind::Opaque),
            (&"a".repeat(64), 64, Kind::Sha256),
        ] {
            let etag = Etag::of_header("x", header).unwrap();
            assert_eq!((etag.as_str().len(), etag.kind()), (text, kind), "{header}");
        }
        for hostile in
            ["", "\"\"", "../../x", "a/b", "a\\b", ".x", "C:x", "x.", "a b", &"a".repeat(200)]
        {
            assert!(Etag::of_header("x", hostile).is_err(), "{hostile}");
        }
    }
}
