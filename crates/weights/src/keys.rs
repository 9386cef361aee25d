//! Typed and range-checked access to the metadata keys of an architecture.

use crate::{Error, Metadata, Problem};

/// Limit of most sizes: far above any model, and the product of two fits in 64 bits.
pub(crate) const MAX_SIZE: usize = (1 << 31) - 1;

/// Range-checked access to the keys of one architecture.
pub(crate) struct Keys<'a> {
    pub(crate) metadata: &'a Metadata,
    architecture: &'a str,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(metadata: &'a Metadata, architecture: &'a str) -> Self {
        Self { metadata, architecture }
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// A required integer from 1 to `limit`.
    pub(crate) fn size(&self, name: &str, limit: usize) -> Result<usize, Error> {
        let value = self.metadata.usize(&self.key(name))?;
        self.in_range(name, value, limit)
    }

    /// An optional integer from 1 to `limit`.
    pub(crate) fn opt_size(&self, name: &str, limit: usize) -> Result<Option<usize>, Error> {
        let value = self.metadata.opt_usize(&self.key(name))?;
        value.map(|value| self.in_range(name, value, limit)).transpose()
    }

    fn in_range(&self, name: &str, value: usize, limit: usize) -> Result<usize, Error> {
        if (1..=limit).contains(&value) {
            return Ok(value);
        }
        Err(self.invalid(name, value, format!("1 to {limit}")))
    }

    /// A required finite number above 0.
    pub(crate) fn positive(&self, name: &str) -> Result<f32, Error> {
        let value = self.metadata.f32(&self.key(name))?;
        self.checked_positive(name, value)
    }

    /// An optional finite number above 0.
    pub(crate) fn opt_positive(&self, name: &str) -> Result<Option<f32>, Error> {
        let value = self.metadata.opt_f32(&self.key(name))?;
        value.map(|value| self.checked_positive(name, value)).transpose()
    }

    fn checked_positive(&self, name: &str, value: f32) -> Result<f32, Error> {
        if value.is_finite() && value > 0.0 {
            return Ok(value);
        }
        Err(self.invalid(name, value, "a finite number above 0".to_owned()))
    }

    pub(crate) fn invalid(&self, name: &str, found: impl ToString, expected: String) -> Error {
        self.metadata.error(Problem::InvalidValue {
            key: self.key(name),
            found: found.to_string(),
            expected,
        })
    }
}
