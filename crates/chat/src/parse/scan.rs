//! Search for markers in a text that goes on.

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The marker with this index is at this offset.
    Marker(usize, usize),
    /// There is none. From this offset on the text may be the beginning of one.
    Until(usize),
}

/// Searches for the first marker. At one offset the longest counts: a marker is found once no
/// longer one can follow, or at the end of the output.
pub(crate) fn find(text: &str, markers: &[&str], end: bool) -> Found {
    for (at, _) in text.char_indices() {
        let rest = &text[at..];
        let first = rest.as_bytes()[0];
        if !markers.iter().any(|marker| marker.as_bytes().first() == Some(&first)) {
            continue;
        }
        let is_partial = |marker: &&str| marker.len() > rest.len() && marker.starts_with(rest);
        if !end && markers.iter().any(is_partial) {
            return Found::Until(at);
        }
        let longest = (0..markers.len())
            .filter(|&i| rest.starts_with(markers[i]))
            .max_by_key(|&i| markers[i].len());
        if let Some(i) = longest {
            return Found::Marker(i, at);
        }
    }
    Found::Until(text.len())
}

/// Whether a text begins with a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    Yes,
    No,
    /// Not known yet: the text is shorter.
    Maybe,
}

/// Compares the beginning of a text that goes on with a literal.
pub(crate) fn begins(text: &str, literal: &str) -> Begins {
    if text.starts_with(literal) {
        Begins::Yes
    } else if literal.starts_with(text) {
        Begins::Maybe
    } else {
        Begins::No
    }
}
