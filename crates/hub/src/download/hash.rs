//! Hashes that a hub announces for a file.

use super::etag::{Etag, Kind};
use crate::name::is_hex;

/// A hash in lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    /// SHA-256 of the bytes, as for files in large-file storage.
    Sha256(String),
    /// The hash of a Git blob: SHA-1 of a header with the length and the bytes.
    GitSha1(String),
}

impl Hash {
    /// The hash that an entry of a list of files names: that of its large file, or of its blob.
    /// Other texts are no hashes.
    pub(crate) fn of_entry(oid: Option<&str>, large: Option<&str>) -> Option<Self> {
        match large {
            // the blob of a large file is a pointer to it
            Some(text) => {
                let text = text.strip_prefix("sha256:").unwrap_or(text);
                is_hex(text, 64).then(|| Self::Sha256(text.to_owned()))
            }
            None => oid.filter(|oid| is_hex(oid, 40)).map(|oid| Self::GitSha1(oid.to_owned())),
        }
    }

    /// The hash that an entity tag is, if it has the form of one.
    pub(crate) fn of_tag(tag: &Etag) -> Option<Self> {
        let text = || tag.as_str().to_owned();
        match tag.kind() {
            Kind::Sha256 => Some(Self::Sha256(text())),
            Kind::GitSha1 => Some(Self::GitSha1(text())),
            Kind::Opaque => None,
        }
    }

    pub(crate) fn digits(&self) -> &str {
        match self {
            Self::Sha256(digits) | Self::GitSha1(digits) => digits,
        }
    }

    /// The name of its kind.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "SHA-256",
            Self::GitSha1(_) => "Git SHA-1",
        }
    }

    /// Whether two hashes are of the same kind and differ, so that no bytes have both.
    pub(crate) fn contradicts(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self != other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_lists() {
        let (sha1, sha256) = ("a".repeat(40), "b".repeat(64));
        let of = |oid: &str, large: Option<&str>| Hash::of_entry(Some(oid), large);
        assert_eq!(of(&sha1, None), Some(Hash::GitSha1(sha1.clone())));
        assert_eq!(of(&sha1, Some(&sha256)), Some(Hash::Sha256(sha256.clone())));
        assert_eq!(of(&sha1, Some(&format!("sha256:{sha256}"))), Some(Hash::Sha256(sha256)));
        // the blob of a pointer is not the hash of the file
        assert_eq!(of(&sha1, Some("x")), None);
        assert_eq!(of("../../x", None), None);
    }
}
