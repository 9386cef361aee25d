//! The names in the header `Content-Disposition` of a part of a form (RFC 7578, RFC 6266).
//!
//! Clients do not agree on how a file's name is written. So a name is UTF-8 or else Latin-1, with
//! or without quotes, with `\"` for a quote, or in the form `filename*=UTF-8''%XX` of RFC 8187.

/// The names of a part.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// The name of the field.
    pub(super) field: Option<String>,
    /// The name of the file.
    pub(super) file: Option<String>,
}

/// The names in a header's value.
pub(super) fn names(header: &[u8]) -> Names {
    let (mut names, mut extended) = (Names::default(), None);
    for (key, value) in parameters(header) {
        match key.as_str() {
            "name" => names.field = names.field.or_else(|| Some(text(&value))),
            "filename" => names.file = names.file.or_else(|| Some(text(&value))),
            "filename*" => extended = extended.or_else(|| decoded(&value)),
            _ => {}
        }
    }
    names.file = extended.or(names.file);
    names
}

/// The parameters after the first `;`, with keys in lower case and values without quotes.
fn parameters(header: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut rest = header;
    while let Some(at) = rest.iter().position(|&byte| byte == b';') {
        rest = rest[at + 1..].trim_ascii_start();
        let Some(end) = rest.iter().position(|byte| b"=;".contains(byte)) else { break };
        let key = String::from_utf8_lossy(rest[..end].trim_ascii()).to_ascii_lowercase();
        if rest[end] == b';' {
            rest = &rest[end..];
            continue;
        }
        let (value, after) = value(rest[end + 1..].trim_ascii_start());
        all.push((key, value));
        rest = after;
    }
    all
}

/// The value at the start of some bytes, and those after it.
fn value(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let Some(quoted) = bytes.strip_prefix(b"\"") else {
        let end = bytes.iter().position(|&byte| byte == b';').unwrap_or(bytes.len());
        return (bytes[..end].trim_ascii().to_vec(), &bytes[end..]);
    };
    let (mut value, mut rest) = (Vec::new(), quoted);
    loop {
        match rest {
            // other backslashes are parts of a path of Windows
            [b'\\', escaped @ (b'"' | b'\\'), after @ ..] => {
                value.push(*escaped);
                rest = after;
            }
            [b'"', after @ ..] => return (value, after),
            [byte, after @ ..] => {
                value.push(*byte);
                rest = after;
            }
            [] => return (value, rest),
        }
    }
}

/// A text in UTF-8, or in Latin-1 if it is not valid UTF-8. Browsers write a quote as `%22`.
fn text(bytes: &[u8]) -> String {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    };
    text.replace("%22", "\"")
}

/// The text of `CHARSET'LANGUAGE'VALUE` with `%XX` in it.
fn decoded(value: &[u8]) -> Option<String> {
    let mut parts = value.splitn(3, |&byte| byte == b'\'');
    let (charset, _, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let mut bytes = Vec::new();
    let mut rest = rest;
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
                rest = after;
            }
            (byte, _) => bytes.push(*byte),
        }
    }
    match charset.to_ascii_lowercase().as_slice() {
        b"utf-8" => String::from_utf8(bytes).ok(),
        b"iso-8859-1" => Some(bytes.into_iter().map(char::from).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_clients_write_them() {
        for (header, file) in [
            (&b"form-data; name=\"file\"; filename=\"a.wav\""[..], Some("a.wav")),
            (b"form-data; name=file; filename=a.wav", Some("a.wav")),
            (b"FORM-DATA; Name = \"file\" ; FileName = \"a b;c.wav\"", Some("a b;c.wav")),
            (b"form-data; filename=\"a.wav\"; name=\"file\"", Some("a.wav")),
            // UTF-8, Latin-1
            (b"form-data; name=\"file\"; filename=\"caf\xc3\xa9.wav\"", Some("café.wav")),
            (b"form-data; name=\"file\"; filename=\"caf\xe9.wav\"", Some("café.wav")),
            // RFC 8187 wins, whatever comes first
            (
                b"form-data; name=\"file\"; filename=\"x\"; filename*=UTF-8''caf%C3%A9%20.wav",
                Some("café .wav"),
            ),
            (b"form-data; name=file; filename*=iso-8859-1'en'caf%E9; filename=x", Some("café")),
            (b"form-data; name=file; filename*=koi8-r''%C1; filename=x", Some("x")),
            (b"form-data; name=file; filename*=UTF-8''%G1; filename=x", Some("x")),
            // quotes and backslashes
            (b"form-data; name=\"file\"; filename=\"a\\\"b.wav\"", Some("a\"b.wav")),
            (b"form-data; name=\"file\"; filename=\"a%22b.wav\"", Some("a\"b.wav")),
            (b"form-data; name=\"file\"; filename=\"C:\\dir\\a.wav\"", Some("C:\\dir\\a.wav")),
            (b"form-data; name=\"file\"; filename=\"a\\\\b\"", Some("a\\b")),
            (b"form-data; name=\"file\"; filename=\"\"", Some("")),
            (b"form-data; name=\"file\"; filename=\"cut", Some("cut")),
            (b"form-data; name=\"file\"", None),
            (b"form-data; x; name=\"file\";", None),
        ] {
            let found = names(header);
            let shown = String::from_utf8_lossy(header);
            assert_eq!(found.field.as_deref(), Some("file"), "{shown}");
            assert_eq!(found.file.as_deref(), file, "{shown}");
        }
        for nothing in [&b""[..], b"form-data", b";", b"form-data; ;=;=\"", b"form-data; names=x"] {
            assert_eq!(names(nothing).field, None, "{}", String::from_utf8_lossy(nothing));
        }
        let escaped = names(b"form-data; name=\"a\\\"; filename=\\\"b\"");
        assert_eq!(escaped.field.as_deref(), Some("a\"; filename=\"b"));
        assert_eq!(escaped.file, None);
    }
}
