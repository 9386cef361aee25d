//! Values of a load in place of those of the model's files.

use std::str::FromStr;

use pelton_weights::Value;

/// A value of a load for a key of the model's metadata.
///
/// ```
/// use pelton::{LoadOptions, MetadataChange};
///
/// let change: MetadataChange = "*.rope.freq_base=float:1000000".parse()?;
/// let options = LoadOptions::default().metadata(change);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MetadataChange {
    /// The key as in GGUF files. A `*` at its beginning is the model's architecture, such as in
    /// `*.rope.freq_base`.
    pub(crate) key: String,
    /// The value.
    pub(crate) value: Value,
}

impl MetadataChange {
    /// The values that a text can have.
    pub(super) const EXPECTED: &'static str =
        "KEY=TYPE:VALUE, where TYPE is int, float, bool or str";
}

impl FromStr for MetadataChange {
    type Err = String;

    /// Parses `KEY=TYPE:VALUE`, where `TYPE` is `int`, `float`, `bool` or `str`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected {}", Self::EXPECTED);
        let (key, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (kind, text) = rest.split_once(':').ok_or_else(wrong)?;
        if key.is_empty() {
            return Err(wrong());
        }
        let value = match kind {
            "int" => {
                let number =
                    text.parse().map_err(|_| format!("expected a whole number for {key}"))?;
                u32::try_from(number).map_or(Value::I64(number), Value::U32)
            }
            "float" => {
                let number = text.parse().ok().filter(|number: &f32| number.is_finite());
                Value::F32(number.ok_or_else(|| format!("expected a finite number for {key}"))?)
            }
            "bool" => match text {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => return Err(format!("expected true or false for {key}")),
            },
            "str" => Value::String(text.as_bytes().to_vec().into()),
            _ => return Err(wrong()),
        };
        Ok(Self { key: key.to_owned(), value })
    }
}

/// The way in which the rotations of a model hold for more positions than it was trained with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All angles are divided by the factor.
    Linear,
    /// Slow angles are divided by the factor (YaRN, arXiv 2309.00071).
    Yarn,
}

impl RopeScaling {
    /// Their names.
    pub(super) const NAMES: [&'static str; 3] = ["none", "linear", "yarn"];

    /// The name, as in GGUF files.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl FromStr for RopeScaling {
    type Err = String;

    /// Parses `none`, `linear` or `yarn`.
    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::None, Self::Linear, Self::Yarn];
        let found = all.into_iter().find(|scaling| scaling.name() == text);
        found.ok_or_else(|| "expected none, linear or yarn".to_owned())
    }
}

/// The rotations of a load, in place of those of the model's files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RopeOptions {
    /// Whether and how they are extended. `None` is for the files', or linear if they have none.
    pub scaling: Option<RopeScaling>,
    /// The factor by which they hold for more positions, above 0; `None` for the files'.
    pub factor: Option<f32>,
    /// The positions before the extension by YaRN; `None` for the files', or their context.
    pub original_context: Option<usize>,
    /// The base of the frequencies, above 0; `None` for the files'.
    pub base: Option<f32>,
}
