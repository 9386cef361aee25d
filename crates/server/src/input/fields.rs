//! The fields of a JSON object, taken out one by one by type and range.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::{kind::kind, unknown};
use crate::error::ApiError;

/// The fields of an object that are not taken yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    map: Map<String, Value>,
    /// The path of the object within the body, empty for the body itself.
    path: String,
    /// Whether the values are texts of a form, which may stand for numbers and other values.
    texts: bool,
    /// The names that were looked for, for errors about fields that nothing looks for.
    asked: Vec<&'static str>,
}

impl Fields {
    /// The fields of a body.
    pub(crate) fn new(body: Value) -> Result<Self, ApiError> {
        Self::of(String::new(), body)
    }

    /// The fields of the object at a path.
    pub(crate) fn of(path: String, value: Value) -> Result<Self, ApiError> {
        match value {
            Value::Object(map) => Ok(Self { map, path, ..Self::default() }),
            other if path.is_empty() => Err(ApiError::invalid(format!(
                "the body is {}, expected a JSON object",
                kind(&other)
            ))),
            other => {
                let message = format!("{path} is {}, expected an object", kind(&other));
                Err(ApiError::field(path, message))
            }
        }
    }

    /// The fields of a form, whose values are texts, and lists and objects of texts.
    pub(crate) fn of_texts(map: Map<String, Value>) -> Self {
        Self { map, texts: true, ..Self::default() }
    }

    /// The path of a field.
    pub(crate) fn at(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    /// An error about a field.
    pub(crate) fn wrong(&self, name: &str, found: &Value, expected: &str) -> ApiError {
        let path = self.at(name);
        let message = format!("{path} is {}, expected {expected}", kind(found));
        ApiError::field(path, message)
    }

    /// An error about a field that is not there.
    pub(crate) fn missing(&self, name: &str, expected: &str) -> ApiError {
        let path = self.at(name);
        let message = format!("{path} is missing, expected {expected}");
        ApiError::field(path, message)
    }

    /// A field that is not null; in a form, one that is not empty.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<Value> {
        self.asked.push(name);
        let value = self.map.remove(name).filter(|value| !value.is_null())?;
        (!self.texts || value.as_str() != Some("")).then_some(value)
    }

    /// As [`take`](Self::take), for values that a form writes as text.
    fn take_literal(&mut self, name: &'static str) -> Option<Value> {
        let value = self.take(name)?;
        match &value {
            Value::String(text) if self.texts => Some(literal(text).unwrap_or(value)),
            _ => Some(value),
        }
    }

    /// All fields that are left.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.map
    }

    /// Checks that no field is left that nothing has taken. `extras` has those of other servers
    /// that may be there all the same.
    ///
    /// # Errors
    ///
    /// A sentence with the unknown field, and the known one that is spelled most like it.
    pub(crate) fn finish(&self, extras: &[&[&'static str]]) -> Result<(), ApiError> {
        for (name, value) in self.map.iter().filter(|(_, value)| !value.is_null()) {
            if self.texts && value.as_str() == Some("") {
                continue;
            }
            unknown::check(&self.path, name, value, &self.asked, extras)?;
        }
        Ok(())
    }

    /// A field, without taking it.
    pub(crate) fn peek(&self, name: &str) -> Option<&Value> {
        self.map.get(name)
    }

    /// Whether a field is a certain text, without taking it.
    pub(crate) fn string_is(&self, name: &str, text: &str) -> bool {
        self.map.get(name).and_then(Value::as_str) == Some(text)
    }

    pub(crate) fn has(&mut self, name: &'static str) -> bool {
        self.asked.push(name);
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    pub(crate) fn string(&mut self, name: &'static str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, &other, "a string")),
        }
    }

    pub(crate) fn boolean(&mut self, name: &'static str) -> Result<Option<bool>, ApiError> {
        match self.take_literal(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(Value::Number(bit)) if self.texts && matches!(bit.as_u64(), Some(0 | 1)) => {
                Ok(Some(bit.as_u64() == Some(1)))
            }
            Some(other) => Err(self.wrong(name, &other, "true or false")),
        }
    }

    pub(crate) fn number(
        &mut self,
        name: &'static str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ApiError> {
        let Some(value) = self.take_literal(name) else { return Ok(None) };
        match value.as_f64() {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let expected = format!("a number from {} to {}", range.start(), range.end());
                Err(self.wrong(name, &value, &expected))
            }
        }
    }

    pub(crate) fn integer(
        &mut self,
        name: &'static str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.take_literal(name) else { return Ok(None) };
        match integer(&value) {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let expected = format!("an integer from {} to {}", range.start(), range.end());
                Err(self.wrong(name, &value, &expected))
            }
        }
    }

    /// An integer from `least` on.
    pub(crate) fn count(
        &mut self,
        name: &'static str,
        least: i64,
    ) -> Result<Option<usize>, ApiError> {
        let count = self.integer(name, least..=i64::from(u32::MAX))?;
        Ok(count.and_then(|count| usize::try_from(count).ok()))
    }

    pub(crate) fn choice(
        &mut self,
        name: &'static str,
        names: &[&'static str],
    ) -> Result<Option<&'static str>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match names.iter().find(|&&one| value.as_str() == Some(one)) {
            Some(&one) => Ok(Some(one)),
            None => Err(self.wrong(name, &value, &format!("one of {}", names.join(", ")))),
        }
    }

    pub(crate) fn list(&mut self, name: &'static str) -> Result<Option<Vec<Value>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(other) => Err(self.wrong(name, &other, "a list")),
        }
    }

    pub(crate) fn object(&mut self, name: &'static str) -> Result<Option<Self>, ApiError> {
        let path = self.at(name);
        let Some(value) = self.take_literal(name) else { return Ok(None) };
        Ok(Some(Self { texts: self.texts, ..Self::of(path, value)? }))
    }

    /// A list of objects; empty if there is none.
    pub(crate) fn objects(&mut self, name: &'static str) -> Result<Vec<Self>, ApiError> {
        let path = self.at(name);
        let list = self.list(name)?.unwrap_or_default();
        let each = list.into_iter().enumerate();
        each.map(|(i, value)| Self::of(format!("{path}[{i}]"), value)).collect()
    }

    /// A string or a list of strings; empty if there is none.
    pub(crate) fn strings(&mut self, name: &'static str) -> Result<Vec<String>, ApiError> {
        const EXPECTED: &str = "a string or a list of strings";
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text]),
            Some(Value::Array(list)) => {
                let path = self.at(name);
                let text = |(i, value)| match value {
                    Value::String(text) => Ok(text),
                    other => {
                        let path = format!("{path}[{i}]");
                        let message = format!("{path} is {}, expected a string", kind(&other));
                        Err(ApiError::field(path, message))
                    }
                };
                list.into_iter().enumerate().map(text).collect()
            }
            Some(other) => Err(self.wrong(name, &other, EXPECTED)),
        }
    }

    /// A list of token ids; `None` if there is none.
    pub(crate) fn ids(&mut self, name: &'static str) -> Result<Option<Vec<u32>>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match ids(&value) {
            Some(ids) => Ok(Some(ids)),
            None => Err(self.wrong(name, &value, "a list of token ids")),
        }
    }
}

/// Checks that an object has no other keys than known ones and `extras`, as [`Fields::finish`]
/// does.
pub(crate) fn check_keys(
    path: &str,
    map: &Map<String, Value>,
    known: &[&'static str],
    extras: &[&[&'static str]],
) -> Result<(), ApiError> {
    let unknown = |name: &str| !known.contains(&name);
    let mut left = map.iter().filter(|(name, value)| !value.is_null() && unknown(name));
    left.try_for_each(|(name, value)| unknown::check(path, name, value, known, extras))
}

/// The value that a text of a form stands for: a number, an object, true or false.
fn literal(text: &str) -> Option<Value> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "y" => Some(true.into()),
        "false" | "no" | "n" => Some(false.into()),
        _ => super::json::parse(text).ok().filter(|value| value.is_number() || value.is_object()),
    }
}

/// A list of token ids.
pub(crate) fn ids(value: &Value) -> Option<Vec<u32>> {
    let list = value.as_array()?;
    list.iter().map(|id| u32::try_from(integer(id)?).ok()).collect()
}

/// A number without a fraction, however it is written.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_of_a_form_stand_for_values() {
        let texts = json!({
            "a": "0.5", "b": "true", "c": "", "d": "x", "e": {"f": "500"}, "g": r#"{"h": "1"}"#,
            "i": "2",
        });
        let Value::Object(texts) = texts else { return };
        let mut fields = Fields::of_texts(texts);
        assert_eq!(fields.number("a", 0.0..=1.0).unwrap(), Some(0.5));
        assert_eq!(fields.boolean("b").unwrap(), Some(true));
        assert_eq!(fields.string("c").unwrap(), None);
        let error = fields.number("d", 0.0..=2.0).unwrap_err();
        assert_eq!(error.message, "d is \"x\", expected a number from 0 to 2");
        let mut object = fields.object("e").unwrap().unwrap();
        assert_eq!(object.integer("f", 0..=999).unwrap(), Some(500));
        let mut object = fields.object("g").unwrap().unwrap();
        assert_eq!(object.integer("h", 0..=1).unwrap(), Some(1));
        // a text may look like a number
        assert_eq!(fields.string("i").unwrap().as_deref(), Some("2"));
    }

    #[test]
    fn sentences_name_the_field() {
        let mut fields = Fields::new(json!({
            "a": "x", "b": 3, "c": {"d": [1]}, "e": null, "f": [{"g": true}], "h": 2.5, "i": 4.0,
        }))
        .unwrap();
        let error = fields.number("a", 0.0..=2.0).unwrap_err();
        assert_eq!(error.message, "a is \"x\", expected a number from 0 to 2");
        assert_eq!(error.param.as_deref(), Some("a"));
        let error = fields.integer("b", 0..=2).unwrap_err();
        assert_eq!(error.message, "b is 3, expected an integer from 0 to 2");
        let error = fields.object("c").unwrap().unwrap().string("d").unwrap_err();
        assert_eq!(error.message, "c.d is a list, expected a string");
        assert_eq!(fields.string("e").unwrap(), None);
        let error = fields.objects("f").unwrap()[0].choice("g", &["x", "y"]).unwrap_err();
        assert_eq!(error.message, "f[0].g is true, expected one of x, y");
        assert!(fields.integer("h", 0..=9).is_err());
        assert_eq!(fields.integer("i", 0..=9).unwrap(), Some(4));
        assert!(Fields::new(json!([])).is_err());
    }
}
