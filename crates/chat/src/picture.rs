//! Pictures in messages: the forms of their parts, and the bytes in them.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use std::str::FromStr;

use serde_json::{Map, Value};

use crate::Error;

/// The most pictures of a chat.
pub const IMAGES_MAX: usize = 16;
/// The most bytes of a picture's file.
pub const IMAGE_BYTES_MAX: usize = 20_000_000;

/// Characters of an address that messages show.
const SHOWN: usize = 80;

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// How closely a model looks at a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Few tokens.
    Low,
    /// As the server chooses: as closely as [`High`](Self::High).
    #[default]
    Auto,
    /// The tokens that the model's files say.
    High,
    /// The same, and a picture of too many tokens is an error in place of a smaller picture.
    Original,
}

impl Detail {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Low, Self::Auto, Self::High, Self::Original];

    /// The word of OpenAI's API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Auto => "auto",
            Self::High => "high",
            Self::Original => "original",
        }
    }
}

impl FromStr for Detail {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|detail| detail.name() == word);
        found.ok_or_else(|| {
            let expected = "expected low, auto, high or original";
            Error::Invalid(format!("the detail of a picture is {word:?}, {expected}"))
        })
    }
}

/// How closely the model looks at the picture of a part: `image_url.detail`, or the part's own
/// `detail`.
///
/// # Errors
/// If it is an unknown word.
pub fn image_detail(part: &Map<String, Value>) -> Result<Detail, Error> {
    let inner = part.get("image_url").and_then(|url| url.get("detail"));
    let found = [inner, part.get("detail")].into_iter().flatten().find(|value| !value.is_null());
    match found {
        None => Ok(Detail::default()),
        Some(Value::String(word)) => word.parse(),
        Some(other) => other.to_string().parse(),
    }
}

/// The part of a picture in OpenAI's form, with how closely the model looks at it.
pub fn with_detail(mut part: Map<String, Value>, detail: Detail) -> Map<String, Value> {
    if let Some(Value::Object(url)) = part.get_mut("image_url") {
        match detail {
            Detail::Auto => url.remove("detail"),
            _ => url.insert("detail".into(), detail.name().into()),
        };
    }
    part
}

/// Whether a part is a picture: `image_url`, `input_image` or `image`.
pub fn is_image(part: &Map<String, Value>) -> bool {
    let kind = part.get("type").and_then(Value::as_str);
    matches!(kind, Some("image_url" | "input_image" | "image"))
}

/// The part of a picture, in OpenAI's form: the source is a `data:` URL, or bare base64.
pub fn image_part(source: impl Into<String>) -> Map<String, Value> {
    let mut url = Map::new();
    url.insert("url".into(), Value::String(source.into()));
    let mut part = Map::new();
    part.insert("type".into(), "image_url".into());
    part.insert("image_url".into(), Value::Object(url));
    part
}

/// The source of a picture's part: a `data:` URL, an address or bare base64. It is found in the
/// forms of OpenAI, of Anthropic, of MCP and of the templates themselves.
pub fn image_source(part: &Map<String, Value>) -> Option<&str> {
    let found = ["image_url", "source", "image", "url", "data"].map(|key| part.get(key));
    match found.into_iter().flatten().find(|value| !value.is_null())? {
        Value::String(source) => Some(source),
        Value::Object(source) => {
            ["url", "data"].iter().find_map(|&key| source.get(key).and_then(Value::as_str))
        }
        _ => None,
    }
}

/// The part of a picture whose file has the bytes.
pub fn image_file(bytes: &[u8]) -> Map<String, Value> {
    // the declared type is not read: the bytes show it
    image_part(format!("data:image/png;base64,{}", BASE64.encode(bytes)))
}

/// The part of a text.
pub fn text_part(text: &str) -> Map<String, Value> {
    let entries = [("type", "text"), ("text", text)];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

/// The bytes of a picture's file. `number` stands for it in errors.
pub(crate) fn image_bytes(part: &Map<String, Value>, number: usize) -> Result<Vec<u8>, Error> {
    let invalid = |problem: &str| Error::Invalid(format!("picture {number} {problem}"));
    let source = image_source(part)
        .ok_or_else(|| invalid("has no source, expected image_url.url with a data: URL"))?;
    let encoded = match source.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("data") => {
            let (kind, encoded) = rest.split_once(',').ok_or_else(|| {
                invalid("is a data: URL without a comma, expected base64 after one")
            })?;
            if !kind.trim_end().to_ascii_lowercase().ends_with("base64") {
                return Err(invalid("is a data: URL without \"base64\", expected base64"));
            }
            encoded
        }
        Some(_) => {
            let shown: String = source.chars().take(SHOWN).collect();
            return Err(invalid(&format!(
                "is the address {shown:?}, expected its bytes as a data: URL"
            )));
        }
        None => source,
    };
    let plain = |byte: u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    };
    let digits = encoded.bytes().filter(|byte| !byte.is_ascii_whitespace());
    if digits.clone().count() / 4 * 3 > IMAGE_BYTES_MAX + 2 {
        return Err(invalid(&format!("has more than {IMAGE_BYTES_MAX} bytes, the limit")));
    }
    let digits: Vec<u8> = digits.map(plain).collect();
    let bytes = BASE64.decode(digits).map_err(|_| invalid("is not valid base64"))?;
    match bytes.len() {
        0 => Err(invalid("is empty, expected the bytes of a file")),
        1..=IMAGE_BYTES_MAX => Ok(bytes),
        _ => Err(invalid(&format!("has more than {IMAGE_BYTES_MAX} bytes, the limit"))),
    }
}
