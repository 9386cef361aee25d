//! The alphabet of byte-level BPE vocabularies: a character for each byte.
//!
//! GPT-2 (openai/gpt-2, `encoder.py`, `bytes_to_unicode`) maps the 188 printable Latin-1
//! characters to themselves and the other 68 bytes, in order, to U+0100 and up.

/// Whether a byte maps to the character of the same code point.
const fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// The other bytes in order; U+0100 + n maps to the n-th.
const REMAPPED: [u8; 68] = {
    let mut hidden = [0; 68];
    let (mut byte, mut n) = (0u8, 0);
    while n < hidden.len() {
        if !is_printable(byte) {
            hidden[n] = byte;
            n += 1;
        }
        byte += 1;
    }
    hidden
};

/// The byte of a character of the alphabet.
fn byte_of(c: char) -> Option<u8> {
    match u32::from(c) {
        code @ 0..=0xff if is_printable(code as u8) => Some(code as u8),
        code @ 0x100..=0x143 => REMAPPED.get(code as usize - 0x100).copied(),
        _ => None,
    }
}

/// The character of a byte.
pub(crate) fn char_of(byte: u8) -> char {
    const ALPHABET: [char; 256] = {
        let mut alphabet = ['\0'; 256];
        let mut byte = 0u8;
        loop {
            alphabet[byte as usize] = byte as char;
            if byte == 255 {
                break;
            }
            byte += 1;
        }
        let mut n = 0;
        while n < REMAPPED.len() {
            if let Some(c) = char::from_u32(0x100 + n as u32) {
                alphabet[REMAPPED[n] as usize] = c;
            }
            n += 1;
        }
        alphabet
    };
    ALPHABET[usize::from(byte)]
}

/// Appends the bytes of a token's text and returns whether all characters are in the alphabet.
/// Other characters are appended as UTF-8; a token with one never results from encoding.
pub(crate) fn push_unmapped(text: &str, out: &mut Vec<u8>) -> bool {
    let mut within = true;
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => out.push(byte),
            None => {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                within = false;
            }
        }
    }
    within
}

/// The byte of a byte token `<0x00>` to `<0xFF>`.
pub(crate) fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabet_equals_gpt2() {
        // Sample values of `bytes_to_unicode()`: Ġ is the space, Ċ the newline, Ń the soft hyphen.
        for (c, byte) in [('Ġ', 0x20), ('Ċ', 0x0a), ('Ń', 0xad), ('ł', 0xa0), ('Ā', 0), ('!', 0x21)]
        {
            assert_eq!(byte_of(c), Some(byte), "{c}");
        }
        let mut all: Vec<u8> = ('\0'..='\u{143}').filter_map(byte_of).collect();
        all.sort_unstable();
        assert_eq!(all, (0..=255).collect::<Vec<u8>>());
        assert_eq!(byte_of('\u{144}'), None);
        assert_eq!(byte_of(' '), None);
        assert!((0..=255).all(|byte| byte_of(char_of(byte)) == Some(byte)));
    }

    #[test]
    fn byte_tokens() {
        assert_eq!(byte_token("<0x0A>"), Some(10));
        assert_eq!(byte_token("<0xfF>"), Some(255));
        for wrong in ["<0x+A>", "<0xA>", "<0x0A", "0x0A>", "<0x100>", ""] {
            assert_eq!(byte_token(wrong), None, "{wrong}");
        }
    }
}
