//! Bytes of strangers, given to the parsers of this crate: names, lists of files, entity tags,
//! journals.

use std::path::{Component, Path};

use crate::{
    choose::choose,
    download::{Etag, journal_bytes},
    listing,
    name::{FileName, Part, Reference},
    settings::Towers,
};

/// The size of the file of a journal, in bytes: some pieces and a rest.
const SIZE: u64 = 1_000_000_007;

/// Gives the text after the first line to the parser that the line names: `reference`, `listing`,
/// `etag` or `journal`. Whether it was accepted.
///
/// # Panics
/// If a parser accepts what it must refuse.
pub fn exercise(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (kind, rest) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let Ok(text) = str::from_utf8(rest) else { return kind == b"listing" && of_listing(rest) };
    match kind {
        b"reference" => of_reference(text),
        b"listing" => of_listing(rest),
        b"etag" => of_etag(text),
        b"journal" => of_journal(text),
        _ => false,
    }
}

/// A name as it is shown stands for the same model.
fn of_reference(text: &str) -> bool {
    let Ok(reference) = text.parse::<Reference>() else { return false };
    let shown = reference.to_string();
    let again = shown.parse::<Reference>();
    assert!(again.is_ok_and(|again| again == reference), "{text:?} is shown as {shown:?}");
    true
}

/// Files of a list stay within their folder, and a choice is among them.
fn of_listing(body: &[u8]) -> bool {
    let Ok((entries, _)) = listing::entries("the list", body) else { return false };
    entries.iter().for_each(|entry| check(&entry.name));
    let tag = "Q8_0".parse().map(Part::Quantization);
    let file = entries.first().map(|entry| Part::File(entry.name.clone()));
    for part in [Some(Part::Any), tag.ok(), file].into_iter().flatten() {
        for budget in [None, Some(1 << 30)] {
            let choice = choose("the list", &entries, &part, budget, &Towers::Auto);
            let Ok(choice) = choice else { continue };
            let mut all = choice.files.iter();
            assert!(all.all(|file| entries.contains(file)), "a file that is not in the list");
            assert!(!choice.files.is_empty(), "a choice of no file");
        }
    }
    true
}

/// The name of a file leads to no other folder.
fn check(name: &FileName) {
    let mut parts = Path::new(name.as_str()).components();
    assert!(parts.all(|part| matches!(part, Component::Normal(_))), "{name}");
    assert!(!name.as_str().contains(['\\', '\0', ':']), "{name}");
}

/// An entity tag is the name of one file.
fn of_etag(text: &str) -> bool {
    let tags = [Etag::of_header("the file", text), Etag::of_server("the file", Some(text))];
    let mut accepted = false;
    for tag in tags.into_iter().flatten() {
        let name = tag.as_str();
        let mut parts = Path::new(name).components();
        let one = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        assert!(one && name.len() <= 128 && name.is_ascii(), "{name:?}");
        accepted = true;
    }
    accepted
}

/// A journal names at most the bytes of its file.
fn of_journal(text: &str) -> bool {
    let Ok(etag) = Etag::of_header("the file", "v1") else { return false };
    let bytes = journal_bytes(text, &etag, SIZE);
    assert!(bytes.is_none_or(|bytes| bytes <= SIZE), "{bytes:?} bytes are complete");
    bytes.is_some()
}
