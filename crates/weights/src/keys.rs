//! Typed and range-checked access to the metadata keys of an architecture.
//!
//! A missing or absurd value is an error that names the key. A default exists only where published
//! files define the meaning of absence.

use crate::{Error, Metadata, Value, ValueType};

/// The limit of most sizes: far above any model, and the product of two fits in 64 bits.
pub const MAX_SIZE: usize = (1 << 31) - 1;

/// Range-checked access to the keys of one architecture, by their names without the prefix.
///
/// Every error names the file, the key, the value found and the values expected.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
}

impl<'a> Keys<'a> {
    /// The keys of the architecture that `general.architecture` names.
    ///
    /// # Errors
    /// If that key is missing or not a string.
    pub fn new(metadata: &'a Metadata) -> Result<Self, Error> {
        Ok(Self { metadata, architecture: metadata.string("general.architecture")? })
    }

    /// The value of `general.architecture`, the prefix of the keys.
    pub fn architecture(&self) -> &'a str {
        self.architecture
    }

    /// All metadata, keys of other prefixes included.
    pub fn metadata(&self) -> &'a Metadata {
        self.metadata
    }

    /// A key with its prefix.
    pub fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// A required integer from 1 to `limit`.
    ///
    /// # Errors
    /// If the key is missing, not an integer or out of range.
    pub fn size(&self, name: &str, limit: usize) -> Result<usize, Error> {
        let value = self.metadata.usize(&self.key(name))?;
        self.in_range(name, value, 1, limit)
    }

    /// An optional integer from 1 to `limit`.
    ///
    /// # Errors
    /// If it is not an integer or out of range.
    pub fn opt_size(&self, name: &str, limit: usize) -> Result<Option<usize>, Error> {
        let value = self.metadata.opt_usize(&self.key(name))?;
        value.map(|value| self.in_range(name, value, 1, limit)).transpose()
    }

    /// An optional integer from 0 to `limit`, `None` if it is absent or 0.
    ///
    /// # Errors
    /// If it is not an integer or out of range.
    pub fn opt_nonzero(&self, name: &str, limit: usize) -> Result<Option<usize>, Error> {
        let value = self.metadata.opt_usize(&self.key(name))?;
        let value = value.map(|value| self.in_range(name, value, 0, limit)).transpose()?;
        Ok(value.filter(|&value| value > 0))
    }

    /// Optional integers from 0 to `limit`, one for each of `layers` layers: an array of that
    /// length, or one integer for all.
    ///
    /// # Errors
    /// If it is neither an integer nor an array of that length, or a value is out of range.
    pub fn opt_sizes(
        &self,
        name: &str,
        layers: usize,
        limit: usize,
    ) -> Result<Option<Vec<usize>>, Error> {
        let key = self.key(name);
        let Some(Value::Array(_)) = self.metadata.get(&key) else {
            let one = self.metadata.opt_usize(&key)?;
            let one = one.map(|value| self.in_range(name, value, 0, limit)).transpose()?;
            return Ok(one.map(|one| vec![one; layers]));
        };
        let values = self.metadata.opt_i32_array(&key)?.unwrap_or_default();
        self.has_layers(name, values.len(), layers)?;
        let expected = || format!("0 to {limit} for each layer");
        let value = |&value: &i32| match usize::try_from(value) {
            Ok(size) if size <= limit => Ok(size),
            _ => Err(self.invalid(name, value, expected())),
        };
        Ok(Some(values.iter().map(value).collect::<Result<_, _>>()?))
    }

    /// Optional booleans, one for each of `layers` layers; `None` if the key is absent or not an
    /// array. Integers 0 and 1 count as booleans.
    ///
    /// # Errors
    /// If it is an array of another length or of other values.
    pub fn opt_flags(&self, name: &str, layers: usize) -> Result<Option<Vec<bool>>, Error> {
        let Some(Value::Array(array)) = self.metadata.get(&self.key(name)) else { return Ok(None) };
        if array.item_type() != ValueType::Bool {
            let sizes = self.opt_sizes(name, layers, 1)?;
            return Ok(sizes.map(|sizes| sizes.into_iter().map(|size| size == 1).collect()));
        }
        self.has_layers(name, array.len(), layers)?;
        Ok(Some(array.values().map(|value| value == Value::Bool(true)).collect()))
    }

    fn has_layers(&self, name: &str, found: usize, layers: usize) -> Result<(), Error> {
        if found == layers {
            return Ok(());
        }
        let expected = format!("one for each of the {layers} layers");
        Err(self.invalid(name, format!("an array of {found}"), expected))
    }

    fn in_range(
        &self,
        name: &str,
        value: usize,
        least: usize,
        limit: usize,
    ) -> Result<usize, Error> {
        if (least..=limit).contains(&value) {
            return Ok(value);
        }
        Err(self.invalid(name, value, format!("{least} to {limit}")))
    }

    /// A required finite number above 0.
    ///
    /// # Errors
    /// If the key is missing, not a floating-point number or not in the range.
    pub fn positive(&self, name: &str) -> Result<f32, Error> {
        let value = self.metadata.f32(&self.key(name))?;
        self.checked_positive(name, value)
    }

    /// An optional finite number above 0.
    ///
    /// # Errors
    /// If it is not a floating-point number or not in the range.
    pub fn opt_positive(&self, name: &str) -> Result<Option<f32>, Error> {
        let value = self.metadata.opt_f32(&self.key(name))?;
        value.map(|value| self.checked_positive(name, value)).transpose()
    }

    /// An optional finite number of 0 or more, `None` if it is absent or 0.
    ///
    /// # Errors
    /// If it is not a floating-point number or not in the range.
    pub fn opt_nonnegative(&self, name: &str) -> Result<Option<f32>, Error> {
        match self.metadata.opt_f32(&self.key(name))? {
            Some(0.0) => Ok(None),
            value => value.map(|value| self.checked_positive(name, value)).transpose(),
        }
    }

    fn checked_positive(&self, name: &str, value: f32) -> Result<f32, Error> {
        if value.is_finite() && value > 0.0 {
            return Ok(value);
        }
        Err(self.invalid(name, value, "a finite number above 0".to_owned()))
    }

    /// An optional boolean.
    ///
    /// # Errors
    /// If it is not a boolean.
    pub fn opt_bool(&self, name: &str) -> Result<Option<bool>, Error> {
        self.metadata.opt_bool(&self.key(name))
    }

    /// An optional string.
    ///
    /// # Errors
    /// If it is not a string or not UTF-8.
    pub fn opt_string(&self, name: &str) -> Result<Option<&'a str>, Error> {
        self.metadata.opt_string(&self.key(name))
    }

    /// The error of a key's value that differs from what was `expected`.
    pub fn invalid(&self, name: &str, found: impl ToString, expected: String) -> Error {
        self.metadata.invalid(&self.key(name), found, expected)
    }
}
