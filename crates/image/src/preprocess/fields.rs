//! The fields of a settings file. Each one is read, is known to change nothing, or is refused.

use crate::{Filter, ImageError};
use serde_json::{Map, Value};

/// Bytes of a settings file at most.
const MOST: usize = 1 << 20;

/// Fields that change nothing here: names, order of memory, batches, videos, words for other parts.
const HARMLESS: &[&str] = &[
    "auto_map",
    "data_format",
    "default_to_square",
    "device",
    "disable_grouping",
    "do_convert_rgb",
    "do_pad",
    "image_seq_length",
    "input_data_format",
    "processor_class",
    "return_row_col_info",
    "return_tensors",
    "video_sampling",
];
/// Fields that change pixels where they are set.
const UNSET: &[&str] = &["crop_size", "do_center_crop", "pad_size", "size_divisor"];

/// The fields of a file that are not read yet.
pub(super) struct Fields<'a> {
    file: &'a str,
    map: Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Reads the text of a `preprocessor_config.json`, or of a `processor_config.json` with an
    /// `image_processor`. `file` stands for it in messages.
    pub(super) fn new(file: &'a str, text: &str) -> Result<Self, ImageError> {
        let empty = Self { file, map: Map::new() };
        if text.len() > MOST {
            let problem = format!("it has {} bytes: expected at most {MOST}", text.len());
            return Err(empty.error(problem));
        }
        let value = serde_json::from_str(text).map_err(|error| empty.error(error.to_string()))?;
        let Value::Object(mut map) = value else {
            return Err(empty.error("it is no object".to_owned()));
        };
        match map.remove("image_processor") {
            Some(Value::Object(inner)) => Ok(Self { file, map: inner }),
            Some(_) => Err(empty.error("its image_processor is no object".to_owned())),
            None => Ok(Self { file, map }),
        }
    }

    pub(super) fn error(&self, problem: String) -> ImageError {
        ImageError::Settings { file: self.file.to_owned(), problem }
    }

    fn wrong(&self, key: &str, value: &Value, expected: &str) -> ImageError {
        self.error(format!("its field {key} is {value}: expected {expected}"))
    }

    /// A field that is set: `null` stands for a missing one.
    fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }

    fn need(&mut self, key: &str) -> Result<Value, ImageError> {
        self.take(key).ok_or_else(|| self.error(format!("it has no field {key}")))
    }

    pub(super) fn text(&mut self, key: &str) -> Result<String, ImageError> {
        match self.need(key)? {
            Value::String(text) => Ok(text),
            other => Err(self.wrong(key, &other, "a string")),
        }
    }

    /// A switch, or the constant of its class in transformers.
    pub(super) fn switch(&mut self, key: &str, class: bool) -> Result<bool, ImageError> {
        match self.take(key) {
            None => Ok(class),
            Some(Value::Bool(value)) => Ok(value),
            Some(other) => Err(self.wrong(key, &other, "true or false")),
        }
    }

    /// A positive number of at most 24 bits.
    pub(super) fn count(&mut self, key: &str) -> Result<u32, ImageError> {
        let value = self.need(key)?;
        self.as_count(key, &value)
    }

    /// The same, where the field may be missing.
    pub(super) fn count_if_set(&mut self, key: &str) -> Result<Option<u32>, ImageError> {
        self.take(key).map(|value| self.as_count(key, &value)).transpose()
    }

    fn as_count(&self, key: &str, value: &Value) -> Result<u32, ImageError> {
        const TOP: u64 = 1 << 24;
        let number = value.as_u64().filter(|number| (1..=TOP).contains(number));
        let expected = "a whole number of 1 to 16777216";
        number.map(|number| number as u32).ok_or_else(|| self.wrong(key, value, expected))
    }

    /// A number.
    pub(super) fn number(&mut self, key: &str) -> Result<f64, ImageError> {
        let value = self.need(key)?;
        value.as_f64().ok_or_else(|| self.wrong(key, &value, "a number"))
    }

    /// A number, or the constant of its class in transformers.
    pub(super) fn number_or(&mut self, key: &str, class: f64) -> Result<f64, ImageError> {
        if self.map.get(key).is_none_or(Value::is_null) {
            self.map.remove(key);
            return Ok(class);
        }
        self.number(key)
    }

    /// A number for each channel, or one for all.
    pub(super) fn channels(&mut self, key: &str) -> Result<[f64; 3], ImageError> {
        let value = self.need(key)?;
        let channels = match &value {
            Value::Array(values) => <&[Value; 3]>::try_from(&values[..])
                .ok()
                .and_then(|[a, b, c]| Some([a.as_f64()?, b.as_f64()?, c.as_f64()?])),
            other => other.as_f64().map(|value| [value; 3]),
        };
        channels.ok_or_else(|| self.wrong(key, &value, "three numbers"))
    }

    /// Pillow's number of a filter, or the constant of its class in transformers.
    pub(super) fn filter(&mut self, class: Filter) -> Result<Filter, ImageError> {
        match self.take("resample") {
            None => Ok(class),
            Some(value) => match value.as_u64() {
                Some(1) => Ok(Filter::Lanczos),
                Some(2) => Ok(Filter::Bilinear),
                Some(3) => Ok(Filter::Bicubic),
                _ => {
                    let expected = "1 (Lanczos), 2 (bilinear) or 3 (bicubic)";
                    Err(self.wrong("resample", &value, expected))
                }
            },
        }
    }

    /// The numbers of a field that is an object of exactly these keys.
    pub(super) fn sizes<const N: usize>(
        &mut self,
        key: &str,
        names: [&str; N],
    ) -> Result<[u32; N], ImageError> {
        let value = self.need(key)?;
        let expected = format!("an object of {}", names.join(" and "));
        let object = value.as_object().filter(|object| {
            object.iter().all(|(name, value)| names.contains(&name.as_str()) || value.is_null())
        });
        let object = object.ok_or_else(|| self.wrong(key, &value, &expected))?;
        let mut counts = [0; N];
        for (count, name) in counts.iter_mut().zip(names) {
            let found = object.get(name).ok_or_else(|| self.wrong(key, &value, &expected))?;
            *count = self.as_count(&format!("{key}.{name}"), found)?;
        }
        Ok(counts)
    }

    /// A size that is a number, or an object of an equal height and width.
    pub(super) fn square_if_set(&mut self, key: &str) -> Result<Option<u32>, ImageError> {
        if !self.map.get(key).is_some_and(Value::is_object) {
            return self.count_if_set(key);
        }
        let [height, width] = self.sizes(key, ["height", "width"])?;
        if height != width {
            return Err(self.error(format!("its field {key} is {height} x {width}: no square")));
        }
        Ok(Some(height))
    }

    /// Whether a field is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|value| !value.is_null())
    }

    /// Ends the reading.
    pub(super) fn finish(self) -> Result<(), ImageError> {
        for (key, value) in &self.map {
            let is_unset = value.is_null() || value == &Value::Bool(false);
            if HARMLESS.contains(&key.as_str()) || is_unset && UNSET.contains(&key.as_str()) {
                continue;
            }
            let problem = format!("its field {key} is {value}, which is not supported");
            return Err(self.error(problem));
        }
        Ok(())
    }
}
