//! The container of a file, by its first bytes.

use crate::decode::input::Input;

/// Bytes at the start of a file in which a format is searched, behind tags.
const SEARCH: usize = 32 << 10;
/// Bytes by which a container is recognized.
const HEAD: usize = 12;

/// A container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Wave,
    Aiff,
    Flac,
    Ogg,
    Mp4,
    Matroska,
    /// Frames of MPEG audio or AAC without a container.
    Frames,
}

/// The container that bytes begin with.
fn of(head: &[u8]) -> Option<Kind> {
    let form = head.get(8..12)?;
    match &head[..4] {
        b"RIFF" | b"RF64" | b"BW64" if form == b"WAVE" => Some(Kind::Wave),
        b"FORM" if form == b"AIFF" || form == b"AIFC" => Some(Kind::Aiff),
        b"fLaC" => Some(Kind::Flac),
        b"OggS" => Some(Kind::Ogg),
        b"\x1a\x45\xdf\xa3" => Some(Kind::Matroska),
        _ => (&head[4..8] == b"ftyp").then_some(Kind::Mp4),
    }
}

/// Whether bytes can be the header of a frame of MPEG audio or of AAC (ADTS).
fn is_frame(head: &[u8]) -> bool {
    let &[first, second, third, ..] = head else { return false };
    let is_mpeg = second & 0xe0 == 0xe0
        && second & 0x18 != 0x08
        && second & 0x06 != 0
        && third & 0xf0 != 0xf0
        && third & 0x0c != 0x0c;
    let is_adts = second & 0xf6 == 0xf0 && third & 0x3c < 0x34;
    first == 0xff && (is_mpeg || is_adts)
}

/// The container of a file, and where it begins: behind some other bytes at most.
pub(super) fn find(input: &mut Input) -> Option<(Kind, u64)> {
    let mut head = vec![0; SEARCH + HEAD];
    let count = input.read_at(0, &mut head).ok()?;
    let head = &head[..count];
    if let Some(kind) = of(head) {
        return Some((kind, 0));
    }
    // frames that begin at once are no container in which they occur by chance
    if is_frame(head) {
        return Some((Kind::Frames, 0));
    }
    let places = 0..count.min(SEARCH);
    let container = places.clone().find_map(|at| Some((of(&head[at..])?, at as u64)));
    let frame = || places.clone().find(|at| is_frame(&head[*at..]));
    container.or_else(|| Some((Kind::Frames, frame()? as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cancel;
    use std::io::Cursor;

    #[test]
    fn containers_are_found_behind_other_bytes() {
        let find = |bytes: &[u8]| {
            let reader = Box::new(Cursor::new(bytes.to_vec()));
            find(&mut Input::new(reader, &Cancel::new()).unwrap())
        };
        assert_eq!(find(b"RIFF\0\0\0\0WAVE"), Some((Kind::Wave, 0)));
        assert_eq!(find(b"junk\0\0fLaC\0\0\0\x22\0\0\0\0"), Some((Kind::Flac, 6)));
        assert_eq!(find(b"\0\0\0\x18ftypisom"), Some((Kind::Mp4, 0)));
        assert_eq!(find(&[0xff, 0xfb, 0x90, 0x64, 0, 0]), Some((Kind::Frames, 0)));
        assert_eq!(find(&[0, 0, 0xff, 0xf1, 0x50, 0x80]), Some((Kind::Frames, 2)));
        assert_eq!(find("a text in UTF-8: \u{fff}, no audio".as_bytes()), None);
        assert_eq!(find(&[0xff; 60]), None);
    }
}
