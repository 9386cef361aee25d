//! Classes and forms of characters as `tokenizers` has them.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfc, is_nfd, is_nfkc, is_nfkd};
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use super::later::{CONTROL, DECOMPOSED, MARKS, NONSPACING, PUNCTUATION, within};

// Most text is ASCII, which needs no lookup of Unicode categories.

/// Unicode punctuation and all ASCII symbols. Two characters of the class were reclassified since.
pub(super) fn is_punctuation(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation();
    }
    c.general_category_group() == GeneralCategoryGroup::Punctuation && !within(PUNCTUATION, c)
        || matches!(c, '\u{166d}' | '\u{111c9}')
}

/// A character that BERT removes: control, format and private use.
pub(super) fn is_control(c: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    if c.is_ascii() {
        return c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r');
    }
    matches!(c.general_category(), Control | Format | PrivateUse) && !within(CONTROL, c)
}

/// A nonspacing mark, of which two were reclassified since.
pub(super) fn is_nonspacing(c: char) -> bool {
    if c.is_ascii() {
        return false;
    }
    c.general_category() == GeneralCategory::NonspacingMark && !within(NONSPACING, c)
        || matches!(c, '\u{1734}' | '\u{1171e}')
}

/// A mark, of which two were reclassified since.
pub(super) fn is_mark(c: char) -> bool {
    if c.is_ascii() {
        return false;
    }
    c.general_category_group() == GeneralCategoryGroup::Mark && !within(MARKS, c)
        || matches!(c, '\u{1cf2}' | '\u{1cf3}')
}

/// `\w` of Rust's regular expressions.
pub(super) fn is_word(c: char) -> bool {
    use GeneralCategory::{ConnectorPunctuation, DecimalNumber};
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    c.is_alphabetic()
        || matches!(c, '\u{200c}' | '\u{200d}')
        || c.general_category_group() == GeneralCategoryGroup::Mark
        || matches!(c.general_category(), DecimalNumber | ConnectorPunctuation)
}

/// An ideograph that BERT isolates. The third block of extensions begins later than in Google's
/// code, as in `tokenizers`.
pub(super) fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{4e00}'..='\u{9fff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2b73f}'
        | '\u{2b740}'..='\u{2b81f}'
        | '\u{2b920}'..='\u{2ceaf}'
        | '\u{f900}'..='\u{faff}'
        | '\u{2f800}'..='\u{2fa1f}')
}

/// A normal form of Unicode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl Form {
    /// A text in this form. Characters that Unicode 9 does not have stay, and nothing is composed
    /// across them.
    pub(crate) fn of(self, text: &str) -> Cow<'_, str> {
        let normal = match self {
            // ASCII has no decompositions.
            _ if text.is_ascii() => true,
            Self::Nfc => is_nfc(text),
            Self::Nfd => is_nfd(text),
            Self::Nfkc => is_nfkc(text),
            Self::Nfkd => is_nfkd(text),
        };
        if normal {
            return Cow::Borrowed(text);
        }
        let is_later = |c: char| within(MARKS, c) || within(DECOMPOSED, c);
        let mut out = String::with_capacity(text.len());
        for part in text.split_inclusive(is_later) {
            let later = part.chars().next_back().filter(|&c| is_later(c));
            let part = &part[..part.len() - later.map_or(0, char::len_utf8)];
            match self {
                Self::Nfc => out.extend(part.nfc()),
                Self::Nfd => out.extend(part.nfd()),
                Self::Nfkc => out.extend(part.nfkc()),
                Self::Nfkd => out.extend(part.nfkd()),
            }
            out.extend(later);
        }
        Cow::Owned(out)
    }
}
