//! The languages of Whisper's vocabularies.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Codes and English names, in the order of their tokens.
const LANGUAGES: [(&str, &str); 100] = [
    ("en", "english"),
    ("zh", "chinese"),
    ("de", "german"),
    ("es", "spanish"),
    ("ru", "russian"),
    ("ko", "korean"),
    ("fr", "french"),
    ("ja", "japanese"),
    ("pt", "portuguese"),
    ("tr", "turkish"),
    ("pl", "polish"),
    ("ca", "catalan"),
    ("nl", "dutch"),
    ("ar", "arabic"),
    ("sv", "swedish"),
    ("it", "italian"),
    ("id", "indonesian"),
    ("hi", "hindi"),
    ("fi", "finnish"),
    ("vi", "vietnamese"),
    ("he", "hebrew"),
    ("uk", "ukrainian"),
    ("el", "greek"),
    ("ms", "malay"),
    ("cs", "czech"),
    ("ro", "romanian"),
    ("da", "danish"),
    ("hu", "hungarian"),
    ("ta", "tamil"),
    ("no", "norwegian"),
    ("th", "thai"),
    ("ur", "urdu"),
    ("hr", "croatian"),
    ("bg", "bulgarian"),
    ("lt", "lithuanian"),
    ("la", "latin"),
    ("mi", "maori"),
    ("ml", "malayalam"),
    ("cy", "welsh"),
    ("sk", "slovak"),
    ("te", "telugu"),
    ("fa", "persian"),
    ("lv", "latvian"),
    ("bn", "bengali"),
    ("sr", "serbian"),
    ("az", "azerbaijani"),
    ("sl", "slovenian"),
    ("kn", "kannada"),
    ("et", "estonian"),
    ("mk", "macedonian"),
    ("br", "breton"),
    ("eu", "basque"),
    ("is", "icelandic"),
    ("hy", "armenian"),
    ("ne", "nepali"),
    ("mn", "mongolian"),
    ("bs", "bosnian"),
    ("kk", "kazakh"),
    ("sq", "albanian"),
    ("sw", "swahili"),
    ("gl", "galician"),
    ("mr", "marathi"),
    ("pa", "punjabi"),
    ("si", "sinhala"),
    ("km", "khmer"),
    ("sn", "shona"),
    ("yo", "yoruba"),
    ("so", "somali"),
    ("af", "afrikaans"),
    ("oc", "occitan"),
    ("ka", "georgian"),
    ("be", "belarusian"),
    ("tg", "tajik"),
    ("sd", "sindhi"),
    ("gu", "gujarati"),
    ("am", "amharic"),
    ("yi", "yiddish"),
    ("lo", "lao"),
    ("uz", "uzbek"),
    ("fo", "faroese"),
    ("ht", "haitian creole"),
    ("ps", "pashto"),
    ("tk", "turkmen"),
    ("nn", "nynorsk"),
    ("mt", "maltese"),
    ("sa", "sanskrit"),
    ("lb", "luxembourgish"),
    ("my", "myanmar"),
    ("bo", "tibetan"),
    ("tl", "tagalog"),
    ("mg", "malagasy"),
    ("as", "assamese"),
    ("tt", "tatar"),
    ("haw", "hawaiian"),
    ("ln", "lingala"),
    ("ha", "hausa"),
    ("ba", "bashkir"),
    ("jw", "javanese"),
    ("su", "sundanese"),
    ("yue", "cantonese"),
];

/// Other names and codes, with the codes that they stand for.
const ALIASES: [(&str, &str); 20] = [
    ("burmese", "my"),
    ("valencian", "ca"),
    ("flemish", "nl"),
    ("haitian", "ht"),
    ("letzeburgesch", "lb"),
    ("pushto", "ps"),
    ("panjabi", "pa"),
    ("moldavian", "ro"),
    ("moldovan", "ro"),
    ("sinhalese", "si"),
    ("castilian", "es"),
    ("mandarin", "zh"),
    // codes of ISO 639 that BCP 47 prefers, or once had
    ("jv", "jw"),
    ("nb", "no"),
    ("fil", "tl"),
    ("cmn", "zh"),
    ("iw", "he"),
    ("in", "id"),
    ("ji", "yi"),
    ("mo", "ro"),
];

/// Codes of languages that are written without spaces between words.
const WITHOUT_SPACES: [&str; 6] = ["zh", "ja", "th", "lo", "my", "yue"];

/// One of the 100 languages of Whisper.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Language(u8);

/// No language has this code or name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no language {0:?}: give a code such as \"de\" or \"de-CH\", or an English name such as \"german\""
)]
pub struct UnknownLanguage(pub String);

impl Language {
    /// English.
    pub const ENGLISH: Self = Self(0);

    /// All languages, in the order of their tokens.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..LANGUAGES.len() as u8).map(Self)
    }

    /// The code, such as `de`: one of ISO 639 but for `jw`.
    pub fn code(self) -> &'static str {
        LANGUAGES[usize::from(self.0)].0
    }

    /// The English name in lower case.
    pub fn name(self) -> &'static str {
        LANGUAGES[usize::from(self.0)].1
    }

    /// Whether words are separated by spaces.
    pub(crate) fn has_spaces(self) -> bool {
        !WITHOUT_SPACES.contains(&self.code())
    }
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    /// From a code, a tag of BCP 47 such as `de-CH`, a name or another name, in any case. The first
    /// subtag of a tag is its language.
    fn from_str(text: &str) -> Result<Self, UnknownLanguage> {
        let wanted = text.to_lowercase();
        let wanted = language_of_tag(&wanted).unwrap_or(&wanted);
        let alias = ALIASES.iter().find(|(name, _)| *name == wanted);
        let wanted = alias.map_or(wanted, |(_, code)| code);
        Self::all()
            .find(|language| language.code() == wanted || language.name() == wanted)
            .ok_or_else(|| UnknownLanguage(text.to_owned()))
    }
}

/// The first subtag of a tag of BCP 47, such as `de` of `de-ch`; `_` separates subtags too, as in
/// names of locales. `None` for a text without subtags, or whose parts are none.
fn language_of_tag(text: &str) -> Option<&str> {
    let is_separator = |c: char| matches!(c, '-' | '_');
    let (first, rest) = text.split_once(is_separator)?;
    // subtags have 1 to 8 letters or digits (RFC 5646, section 2.1)
    let is_subtag = |part: &str| {
        (1..=8).contains(&part.len()) && part.chars().all(|c| c.is_ascii_alphanumeric())
    };
    rest.split(is_separator).all(is_subtag).then_some(first)
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tags of RFC 5646, appendix A, and names of locales.
    #[test]
    fn tags_mean_their_first_subtag() {
        for (text, code) in [
            ("en-US", "en"),
            ("EN-us", "en"),
            ("zh-Hans-CN", "zh"),
            ("pt_BR", "pt"),
            ("es-419", "es"),
            ("sl-rozaj-biske", "sl"),
            ("de-CH-x-phonebk", "de"),
            ("yue-HK", "yue"),
            ("nb-NO", "no"),
            ("jv", "jw"),
            ("Haitian Creole", "ht"),
            ("german", "de"),
        ] {
            assert_eq!(text.parse::<Language>().map(Language::code), Ok(code), "{text}");
        }
        for text in
            ["", "-", "en-", "-US", "en--US", "en-überall", "xx-US", "en US", "en-123456789"]
        {
            assert_eq!(text.parse::<Language>(), Err(UnknownLanguage(text.to_owned())));
        }
    }
}
